"""LLR-BC: behaviour consolidation of single steps, by Pei et al., as their code has it.

An experience is one construction step of a whole batch: all instances, all starts, and the policy there. Two buffers:
one takes new experiences in the last epoch of a task; the other, a copy of it from the last change of task, is
replayed. So the task that is being learned is never replayed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from dree.errors import DreeError
from dree.lifelong.graphs import Work
from dree.lifelong.methods.base import Lesson, Method
from dree.lifelong.reading import Reading
from dree.lifelong.replay import alpha_of, check_coefficient, divergence
from dree.lifelong.reservoir import Reservoir
from dree.lifelong.steps import Step, joined, padded, room
from dree.problems import Instances, State
from dree.solvers.base import existing

if TYPE_CHECKING:
    from dree.lifelong.learner import Learner
    from dree.tasks import Stream


@dataclass(frozen=True)
class LLRBCOptions:
    """The hyper-parameters of its authors."""

    alpha: float | None = None  # weight of consolidation; None: 100 for CVRP, 10 for TSP
    buffer: int = 1000  # remembered steps
    sample: int = 16  # steps replayed beside each batch
    buffer_every: int = 1  # epochs from one that is remembered to the next
    divergence: str = "softened"  # or literal

    def __post_init__(self) -> None:
        """Refuse what is no LLR-BC."""
        check_coefficient("alpha", self.alpha)
        divergence(self.divergence)
        Reservoir[Step](self.buffer)
        for name in ("sample", "buffer_every"):
            if getattr(self, name) < 1:
                raise DreeError(f"{name} must be at least 1, not {getattr(self, name)}.")


@dataclass(frozen=True)
class Collection:
    """What a batch leaves behind."""

    steps: dict[int, tuple[int, Step]]  # by their numbers, with the slots they go to
    length: Reading  # of the longest tour: later steps there are none
    unscored: int  # of a tour's actions, those that are no decisions


class LLRBC(Method):
    """Keep to remembered decisions, most of all where they were unsure."""

    whole_lessons = False
    options_class = LLRBCOptions
    options: LLRBCOptions

    def __init__(self, options: LLRBCOptions | None = None) -> None:
        """Two empty buffers."""
        super().__init__(options)
        self._collected: Reservoir[Step] = Reservoir(self.options.buffer)
        self.replayed: list[Step] = []
        self._collecting = False
        self._collection: Collection | None = None  # of the last batch, if not yet settled

    @property
    def collected(self) -> Reservoir[Step]:
        """What is remembered from the next change of task on."""
        self._settle()
        return self._collected

    def _settle(self) -> None:
        """Put what the last batch left into the buffer; late, so that by now the device knows the tours' length."""
        if self._collection is None:
            return
        collection, self._collection = self._collection, None
        (length,) = collection.length.values()
        decisions = int(length) - collection.unscored
        self._collected.seen += decisions
        for number, (slot, step) in collection.steps.items():
            if number < decisions:
                self._collected.put(slot, step)

    def begin(self, learner: Learner, stream: Stream, epoch: int) -> None:
        """Collect in the last epoch of a task, which in a drift is every epoch."""
        self._collecting = stream.ends(epoch) and epoch % self.options.buffer_every == 0

    def replay(self, learner: Learner, lesson: Lesson) -> Tensor | None:
        """Consolidate some remembered steps; and remember some of the lesson's, before the optimiser's step."""
        if not self._collecting:
            return self._consolidation(learner)
        instances, tours = lesson.originals()
        length = Reading([learner.together.largest(learner.solver.rules.needed(tours.actions))])
        loss = self._consolidation(learner)
        self._collect(learner, instances, tours.actions, length)
        return loss

    def _consolidation(self, learner: Learner) -> Tensor | None:
        """How far the policy is from some remembered steps, weighted, if there are any."""
        if not self.replayed:
            return None
        chosen = torch.randperm(len(self.replayed), generator=learner.chance("experience"))[: self.options.sample]
        steps = sorted((self.replayed[row] for row in chosen.tolist()), key=attrgetter("shape"))
        by_size = groupby(steps, key=lambda step: len(step.instances))
        alpha = alpha_of(learner.solver.rules.name, self.options.alpha)
        with learner.beside():
            distances = [each for size, alike in by_size for each in self._distances(learner, size, list(alike))]
            return alpha * torch.stack(distances).sum() / len(steps)

    def _distances(self, learner: Learner, size: int, steps: list[Step]) -> list[Tensor]:
        """How far the policy is from some steps of batches of one size, in pieces.

        Of each piece, the sum over its steps of the weighted mean over a step's states.
        """
        measure = divergence(self.options.divergence)

        def distance(
            instances: Instances, encoding: Any, given: Sequence[Tensor], exists: Tensor | None = None
        ) -> tuple[Tensor]:
            starts, remembered, weights, *state = given
            current = learner.solver.decide(instances, starts, State(*state), encoding=encoding)
            by_step = measure(current, remembered, exists).view(len(instances) // size, -1)
            weights = weights.view_as(by_step)
            return ((by_step * weights / weights.sum(1, keepdim=True)).sum(),)

        def of_one_size(_: torch.Generator, instances: Instances, *given: Tensor) -> tuple[Tensor]:
            return distance(instances, learner.encode(instances), given)

        def of_any_size(_: torch.Generator, instances: Instances, sizes_B: Tensor, *given: Tensor) -> tuple[Tensor]:
            exists_BN = existing(sizes_B, instances.nodes)
            return distance(instances, learner.encode_padded(instances, sizes_B), given, exists_BN[:, None])

        work: Work
        if learner.solver.mixes_sizes and learner.captures(room(steps)):
            work, pieces = of_any_size, [padded(piece) for piece in _halves(steps)]
        else:
            work, pieces = of_one_size, [joined(group) for group in _alike(learner, steps)]
        return [value for (value,) in learner.differentiate_each("consolidation", work, pieces)]

    @torch.no_grad()
    def _collect(self, learner: Learner, instances: Instances, actions: Tensor, length: Reading) -> None:
        """Take the steps of the tours that the buffer takes, of all in which there was something to decide.

        Where the length of the longest tour is not known yet, of as many as there may be: nobody waits for it.
        """
        rules = learner.solver.rules
        most = int(length.values()[0]) if length.here else max(actions.shape[-1], rules.longest(instances))
        actions = functional.pad(actions, (0, most - actions.shape[-1]))  # or cut
        starts = actions[..., 0].clone()
        unscored = 1 + (instances.problem == "tsp")  # a TSP's last step has no choice
        slots = self.collected.foresee(most - unscored, learner.chance("reservoir"))
        taken = {number: slot for number, slot in enumerate(slots) if slot is not None}
        steps = {}
        if taken:
            states, encoding = rules.hindsight(instances, actions), learner.encode(instances)
            for number, slot in taken.items():
                state = states.map(partial(_at, number))
                policy = learner.solver.decide(instances, starts, state, encoding=encoding)
                steps[number] = slot, Step(instances, starts, state, policy)
        self._collection = Collection(steps, length, unscored)

    def end(self, learner: Learner, stream: Stream, epoch: int) -> None:
        """The task changes: what was collected so far is what is replayed from now on."""
        if self._collecting:
            self.replayed = list(self.collected.items)

    def report(self) -> dict[str, float]:
        """The two buffers."""
        steps = {id(step): step for step in [*self.collected.items, *self.replayed]}.values()
        return {"buffered": len(self.replayed), "buffer_bytes": sum(step.bytes for step in steps)}

    def state_dict(self) -> dict[str, Any]:
        """Both buffers; what is in both is written once."""
        steps = {id(step): step for step in [*self.collected.items, *self.replayed]}
        place = {key: number for number, key in enumerate(steps)}
        return {
            "seen": self.collected.seen,
            "steps": [step.state_dict() for step in steps.values()],
            "collected": [place[id(step)] for step in self.collected.items],
            "replayed": [place[id(step)] for step in self.replayed],
        }

    def load_state_dict(self, state: Mapping[str, Any], learner: Learner) -> None:
        """Both buffers again."""
        self._collection = None
        steps = [Step.from_state(each, learner.device) for each in state["steps"]]
        self.collected.seen = state["seen"]
        self.collected.items = [steps[place] for place in state["collected"]]
        self.replayed = [steps[place] for place in state["replayed"]]


def _at(step: int, of_all: Tensor) -> Tensor:
    return of_all[:, :, step].clone()


def _halves(steps: list[Step]) -> list[list[Step]]:
    """The smaller and the larger steps, so that the smaller need not be padded as far."""
    middle = len(steps) // 2
    return [half for half in (steps[:middle], steps[middle:]) if half]


def _alike(learner: Learner, steps: list[Step]) -> list[list[Step]]:
    """Steps of one shape together.

    But each by itself where it is captured, for few shapes need few captures; or where steps must not share a norm.
    """
    groups: list[list[Step]] = []
    for _, alike in groupby(steps, key=attrgetter("shape")):
        group = list(alike)
        alone = learner.captures(group[0].instances.nodes) or learner.solver.encoding_batch is not None
        groups += [[step] for step in group] if alone else [group]
    return groups
