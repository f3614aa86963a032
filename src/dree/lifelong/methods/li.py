"""Li: regularisation towards a recent copy of the solver, and replay of earlier tasks (Li et al., the intra version).

Every batch is of the current task or, as often, of a random earlier one; where earlier tasks cannot be sampled any
more, it is a remembered batch. The policy is held to that of an exemplar: the solver as it was at the last refresh.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dree.errors import DreeError
from dree.lifelong.methods.base import Lesson, Method
from dree.lifelong.replay import check_coefficient
from dree.lifelong.reservoir import Reservoir, draw
from dree.problems import Instances
from dree.solvers import Solver
from dree.tasks import Stream, Task

if TYPE_CHECKING:
    from dree.lifelong.learner import Learner


@dataclass(frozen=True)
class LiOptions:
    """The paper's setting of this method."""

    alpha: float = 0.5  # weight of the distance to the exemplar
    refresh_every: int = 25  # epochs from one exemplar to the next
    buffer: int = 256  # remembered batches, where earlier tasks cannot be sampled

    def __post_init__(self) -> None:
        """Refuse what is no Li."""
        check_coefficient("alpha", self.alpha)
        Reservoir[Instances](self.buffer)
        if self.refresh_every < 1:
            raise DreeError(f"refresh_every must be at least 1, not {self.refresh_every}.")


@dataclass(frozen=True)
class Remembered(Task):
    """A task that consists of one remembered batch."""

    instances: Instances

    @property
    def problem(self) -> str:  # type: ignore[override]
        """The problem of the instances."""
        return self.instances.problem

    @property
    def name(self) -> str:
        """The name in logs."""
        return "remembered"

    @property
    def size(self) -> int:
        """The number of customers."""
        return self.instances.customers

    def sample(self, batch: int, generator: torch.Generator) -> Instances:
        """The batch."""
        return self.instances.to(generator.device)


class Li(Method):
    """Half old, half new, and never far from where it was a while ago."""

    whole_lessons = False
    options_class = LiOptions
    options: LiOptions

    def __init__(self, options: LiOptions | None = None) -> None:
        """No exemplar yet."""
        super().__init__(options)
        self.exemplar: Solver | None = None
        self._pull: Callable[[Lesson], Tensor] | None = None  # towards it
        self.memory: Reservoir[Instances] = Reservoir(self.options.buffer)
        self._earlier: list[Instances] = []  # what was remembered when the epoch began: of earlier tasks only
        self._is_new = False  # the batch is of the current task, and cannot be had again

    def begin(self, learner: Learner, stream: Stream, epoch: int) -> None:
        """What is remembered by now is of earlier tasks; what comes to it during the epoch is not."""
        self._earlier = list(self.memory.items)

    def choose(self, stream: Stream, epoch: int, generator: torch.Generator) -> Task:
        """The current task or, as often, an earlier one."""
        past = epoch - 1 if stream.can_sample_past else len(self._earlier)
        if not past or draw(2, generator) == 0:
            self._is_new = not stream.can_sample_past
            return stream.task(epoch)
        self._is_new = False
        number = draw(past, generator)
        return stream.task(1 + number) if stream.can_sample_past else Remembered(self._earlier[number])

    def pull(self, learner: Learner) -> Callable[[Lesson], Tensor] | None:
        """How far the policy is from the exemplar's, on all tours of a lesson."""
        return self._pull

    def _distance(self, learner: Learner, exemplar: Solver, lesson: Lesson) -> Tensor:
        with torch.no_grad():
            teacher = learner.encode(lesson.instances, exemplar)
        score = learner.solver.imitate(lesson.instances, lesson.tours, teacher, encoding=lesson.encoding)
        return self.options.alpha * score.weighted / lesson.tours.costs.numel()

    def remember(self, learner: Learner, lesson: Lesson) -> None:
        """Keep instances that can never be sampled again."""
        slot = self.memory.offer(learner.chance("reservoir")) if self._is_new else None
        if slot is not None:
            self.memory.put(slot, learner.together.whole(lesson.originals()[0]))

    def end(self, learner: Learner, stream: Stream, epoch: int) -> None:
        """Refresh the exemplar."""
        if epoch % self.options.refresh_every == 0:
            self._hold(learner.solver.state_dict(), learner)

    def _hold(self, weights: Mapping[str, Any], learner: Learner) -> None:
        """Give the exemplar these weights. Once made it stays in place, so that captured work goes on to serve."""
        if self.exemplar is None:
            self.exemplar = copy.deepcopy(learner.solver).requires_grad_(False)
            self._pull = partial(self._distance, learner, self.exemplar)
        self.exemplar.load_state_dict(weights)

    def state_dict(self) -> dict[str, Any]:
        """The exemplar's weights and the remembered batches."""
        return {
            "exemplar": None if self.exemplar is None else self.exemplar.state_dict(),
            "seen": self.memory.seen,
            "memory": [dict(vars(batch)) for batch in self.memory.items],
        }

    def load_state_dict(self, state: Mapping[str, Any], learner: Learner) -> None:
        """Both again."""
        if state["exemplar"] is None:
            self.exemplar = self._pull = None
        else:
            self._hold(state["exemplar"], learner)
        self.memory.seen = state["seen"]
        self.memory.items = [Instances(**batch).to(learner.device) for batch in state["memory"]]
