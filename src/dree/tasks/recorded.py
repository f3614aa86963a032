"""A stream whose scenario or laws are a user's own and cannot be had here: as a run has recorded it, to be read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from dree.errors import DreeError
from dree.problems import Instances
from dree.tasks.mixture import SyntheticTask, Task, principal
from dree.tasks.streams import SyntheticStream, resolve_order

Groups = tuple[tuple[str, int], ...]


def groups_named(name: str) -> Groups:
    """Laws and their numbers of nodes in the name of a task, such as `E38+C12`."""
    found = (re.fullmatch(r"(.*?)(\d*)", part) for part in name.split("+"))
    return tuple((each[1], int(each[2] or 0)) for each in found if each)


@dataclass(frozen=True)
class RecordedTask(SyntheticTask):
    """A task of which the name and the sizes are known, but of which nothing can be drawn."""

    why: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """There is nothing to check: it was used once."""

    def sample(self, batch: int, generator: torch.Generator) -> Instances:
        """Refused."""
        raise DreeError(self.why)


@dataclass(frozen=True)
class RecordedStream(SyntheticStream):
    """What is known of a stream without its classes: the order, the length, and the tasks that were logged."""

    scenario: str = ""
    why: str = field(default="", compare=False)  # it cannot be had
    learned: Mapping[int, str] = field(default_factory=dict, compare=False, hash=False)  # epoch -> name of its task
    tested: Sequence[str] = field(default=(), compare=False, hash=False)  # names of the test tasks

    @staticmethod
    def of(
        scenario: str,
        problem: str,
        order: int | Sequence[str],
        epochs: int,
        spec: str,
        sizes: Mapping[str, int],
        why: DreeError,
    ) -> RecordedStream:
        """The stream of a scenario that cannot be made, and why; it raises again what is not the user's own fault."""
        laws = resolve_order(order)
        if not any("." in name for name in (scenario, *laws, *sizes)):
            raise why
        return RecordedStream(problem, laws, epochs, spec, tuple(sizes.items()), scenario, str(why))

    def __post_init__(self) -> None:
        """Refuse what is wrong beside what cannot be had."""
        for law in (*self.order, *dict(self.sizes)):
            if "." not in law:
                principal(law, self.problem, dict(self.sizes).get(law), self.spec)

    def principal(self, law: str) -> SyntheticTask:
        """The task of one law; of one that is not here, in the size it was tested in."""
        try:
            return super().principal(law)
        except DreeError as error:
            known = [groups for groups in map(groups_named, self.tested) if len(groups) == 1]
            size = dict(self.sizes).get(law, dict(groups[0] for groups in known).get(law, 0))
            return RecordedTask(self.problem, ((law, size),), self.spec, str(error))

    def task(self, t: int) -> SyntheticTask:
        """The task of an epoch that was learned and logged."""
        self.check_epoch(t)
        if t not in self.learned:
            raise DreeError(self.why)
        return RecordedTask(self.problem, groups_named(self.learned[t]), self.spec, self.why)

    def finer(self) -> dict[str, Task]:
        """The tasks that were tested."""
        return {name: RecordedTask(self.problem, groups_named(name), self.spec, self.why) for name in self.tested}

    def active(self, name: str) -> list[tuple[int, int]]:
        """The epochs in which every law of the test task gave nodes, as far as they were learned."""
        laws = {law for law, _ in ([(name, 0)] if name in self.order else groups_named(name))}
        runs: list[tuple[int, int]] = []
        for t in sorted(self.learned):
            if not laws <= dict(groups_named(self.learned[t])).keys():
                continue
            if runs and runs[-1][1] == t - 1:
                runs[-1] = (runs[-1][0], t)
            else:
                runs.append((t, t))
        return runs

    def step_count(self) -> int:
        """Not known, and of no use to a stream that only is read."""
        return 1
