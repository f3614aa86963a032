"""Streams: which task a learner meets at each epoch, and the tasks it is tested on.

Training goes through the epochs 1 to T; epoch 0 is where the stream comes from and serves tests only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dree.errors import DreeError, unknown
from dree.registry import named_class
from dree.tasks.mixture import SyntheticTask, Task, mix, principal, rounded

ORDERS: dict[int, tuple[str, ...]] = {
    1: ("E", "C", "G", "U", "R", "GM"),
    2: ("U", "GM", "E", "R", "G", "C"),
    3: ("E", "G", "R", "C", "U", "GM"),
    4: ("G", "GM", "E", "U", "R", "C"),
    5: ("G", "C", "R", "U", "GM", "E"),
}
FINER_PARTS = 40  # the finer-grained test has a task at every 25th of 1000 epochs, both ends included


def resolve_order(order: int | Sequence[str]) -> tuple[str, ...]:
    """The laws of an order given by the paper's number or law by law."""
    if isinstance(order, str):
        raise DreeError(f"The order '{order}' must be a number from 1 to 5 or a list of law names.")
    if not isinstance(order, int):
        return tuple(order)
    if order not in ORDERS:
        raise unknown("order", order, map(str, ORDERS))
    return ORDERS[order]


class Stream(ABC):
    """A sequence of tasks over epochs 0 to `epochs`, and the test tasks that belong to it."""

    problem: str
    epochs: int
    can_sample_past: ClassVar[bool] = True  # whether instances of an earlier epoch's task can still be had
    earliest: ClassVar[int] = 0  # the epoch of the earliest task; 1 where epoch 0 has none of its own

    @abstractmethod
    def task(self, t: int) -> Task:
        """The task of epoch t."""

    @abstractmethod
    def tests(self) -> Mapping[str, Task]:
        """The test tasks by name, in the order of the stream."""

    @abstractmethod
    def active(self, name: str) -> list[tuple[int, int]]:
        """The epochs [first, last] within 1 to T in which the test task `name` takes part in training."""

    def finer(self) -> Mapping[str, Task]:
        """The tasks of the finer-grained test by name, in the order of the stream."""
        raise DreeError("Only a stream that drifts has a finer-grained test. Test on the principal tasks instead.")

    def begins(self, t: int) -> bool:
        """Whether training epoch t is the first of a stationary task; in a drift every one is."""
        self.check_epoch(t, first=1)
        return True

    def ends(self, t: int) -> bool:
        """Whether training epoch t is the last of a stationary task; in a drift every one is."""
        self.check_epoch(t, first=1)
        return True

    def check_epoch(self, t: int, first: int = 0) -> None:
        """Refuse an epoch that is not from `first` to the last; for `task`, `begins` and `ends` to call."""
        if not first <= t <= self.epochs:
            raise DreeError(f"Epoch {t} is outside this stream, which has the epochs {first} to {self.epochs}.")


@dataclass(frozen=True)
class SyntheticStream(Stream):
    """A stream made of principal tasks, one for each law of `order`."""

    problem: str
    order: tuple[str, ...]
    epochs: int
    spec: str = "text"
    sizes: tuple[tuple[str, int], ...] = ()  # (law, size) where it is not to be the paper's scale

    def __post_init__(self) -> None:
        """Refuse what cannot be a stream, rather than at the epoch that would find out."""
        object.__setattr__(self, "order", tuple(self.order))
        object.__setattr__(self, "sizes", tuple((law, size) for law, size in self.sizes))
        if len(self.order) < 2:
            raise DreeError(f"A stream needs at least 2 principal tasks, this order has {len(self.order)}.")
        for law, size in (*((law, None) for law in self.order), *self.sizes):
            principal(law, self.problem, size, self.spec)
        step = self.step_count()
        if self.epochs < step or self.epochs % step:
            nearest = step * max(1, rounded(self.epochs, step))
            raise DreeError(
                f"{self.epochs} epochs cannot be divided into {step} equal parts, as an order of "
                f"{len(self.order)} tasks needs. The nearest number that can is {nearest}."
            )

    @property
    def interval(self) -> int:
        """Epochs from one principal task to the next."""
        return self.epochs // self.step_count()

    def principal(self, law: str) -> SyntheticTask:
        """The stream's task of one law."""
        return principal(law, self.problem, dict(self.sizes).get(law), self.spec)

    @abstractmethod
    def task(self, t: int) -> SyntheticTask:
        """The task of epoch t."""

    def tests(self) -> dict[str, Task]:
        """The principal tasks by law."""
        return {law: self.principal(law) for law in self.order}

    def active(self, name: str) -> list[tuple[int, int]]:
        """The epochs [first, last] in which every law of the test task gives at least one node."""
        tests = self._laws_tested()
        if name not in tests:
            raise unknown("task of this stream", name, dict.fromkeys(self.order))
        runs: list[tuple[int, int]] = []
        for t in range(1, self.epochs + 1):
            if not tests[name] <= dict(self.task(t).groups).keys():
                continue
            if runs and runs[-1][1] == t - 1:
                runs[-1] = (runs[-1][0], t)
            else:
                runs.append((t, t))
        return runs

    def _laws_tested(self) -> dict[str, set[str]]:
        """The laws of every test task by its name."""
        return {law: {law} for law in self.order}

    @abstractmethod
    def step_count(self) -> int:
        """The number of equal parts into which the order divides the epochs."""


@dataclass(frozen=True)
class DriftStream(SyntheticStream):
    """Principal tasks at equal intervals from epoch 0 to T, each changing gradually into the next."""

    def task(self, t: int) -> SyntheticTask:
        """The principal tasks before and after epoch t, mixed according to their nearness."""
        self.check_epoch(t)
        return self._task_at(t, self.epochs)

    def finer(self) -> dict[str, Task]:
        """The tasks at equal distances along the drift by name, the same for every number of epochs."""
        return {task.name: task for task in self._finer()}

    def _finer(self) -> list[SyntheticTask]:
        return [self._task_at(part, FINER_PARTS) for part in range(FINER_PARTS + 1)]

    def _task_at(self, numerator: int, denominator: int) -> SyntheticTask:
        """The task numerator/denominator of the way along the drift."""
        steps = self.step_count()
        before = min(numerator * steps // denominator, steps - 1)
        first, second = self.order[before : before + 2]
        beyond = numerator * steps - before * denominator
        return mix(self.principal(first), self.principal(second), beyond, denominator)

    def _laws_tested(self) -> dict[str, set[str]]:
        return super()._laws_tested() | {task.name: set(dict(task.groups)) for task in self._finer()}

    def step_count(self) -> int:
        """From each task to the next."""
        return len(self.order) - 1


@dataclass(frozen=True)
class PeriodicStream(SyntheticStream):
    """Principal tasks one after the other, each unchanged for the same number of epochs."""

    def task(self, t: int) -> SyntheticTask:
        """The principal task whose turn it is; epoch 0 belongs to the first."""
        self.check_epoch(t)
        return self.principal(self.order[max(t - 1, 0) // self.interval])

    def begins(self, t: int) -> bool:
        """Whether epoch t is the first of its task."""
        return super().begins(t) and (t - 1) % self.interval == 0

    def ends(self, t: int) -> bool:
        """Whether epoch t is the last of its task."""
        return super().ends(t) and t % self.interval == 0

    def step_count(self) -> int:
        """One for each task."""
        return len(self.order)


@dataclass(frozen=True)
class SuddenStream(DriftStream):
    """A drift in which three pairs of intervals have exchanged their tasks."""

    # (start, start, length) for 1000 epochs: [23, 43) with [731, 751), and so on; scaled for other numbers.
    SWAPS = ((23, 731, 20), (112, 517, 50), (278, 810, 100))
    LEAST_EPOCHS = 50  # the shortest interval is one epoch here

    def __post_init__(self) -> None:
        """Refuse streams too short for the exchanged intervals."""
        if self.epochs < self.LEAST_EPOCHS:
            raise DreeError(
                f"Sudden changes need at least {self.LEAST_EPOCHS} epochs for their six intervals, not {self.epochs}."
            )
        super().__post_init__()

    def swaps(self) -> list[tuple[int, int, int]]:
        """The exchanged intervals as (start of one, start of the other, length of both)."""
        return [
            (
                rounded(one * self.epochs, 1000),
                rounded(other * self.epochs, 1000),
                rounded(n * self.epochs, 1000),
            )
            for one, other, n in self.SWAPS
        ]

    def task(self, t: int) -> SyntheticTask:
        """The drift's task, of the other interval where t lies in an exchanged one."""
        self.check_epoch(t)
        for one, other, length in self.swaps():
            if one <= t < one + length:
                return super().task(t - one + other)
            if other <= t < other + length:
                return super().task(t - other + one)
        return super().task(t)


SCENARIOS: dict[str, type[SyntheticStream]] = {
    "drift": DriftStream,
    "periodic": PeriodicStream,
    "sudden": SuddenStream,
}


def scenario_class(name: str) -> type[SyntheticStream]:
    """A scenario by its name, or a user's own by its dotted path (`package.module.Class`)."""
    return named_class("scenario", name, SCENARIOS, SyntheticStream)  # type: ignore[type-abstract]


def make_stream(
    scenario: str,
    problem: str,
    order: int | Sequence[str],
    epochs: int,
    spec: str = "text",
    sizes: Mapping[str, int] | None = None,
) -> SyntheticStream:
    """The stream of a scenario, an order (1 to 5, or law names) and a number of epochs."""
    chosen, kind = tuple((sizes or {}).items()), scenario_class(scenario)
    try:
        return kind(problem, resolve_order(order), epochs, spec, chosen)
    except TypeError as error:
        raise DreeError(f"Scenario '{scenario}' cannot be made as a SyntheticStream is ({error}).") from error
