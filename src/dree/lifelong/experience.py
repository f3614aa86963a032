"""What is remembered of a batch: its instances, how well they were solved, and by which behaviour.

Shapes: B instances, T actions of the longest tour, S = T - 1 decisions, K slots of a policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from dree.errors import DreeError
from dree.lifelong.reservoir import Reservoir
from dree.problems import Instances, Tours, rules

if TYPE_CHECKING:
    from dree.lifelong.methods.base import Lesson
    from dree.solvers import Solver

ROUNDING = 1e-6  # the same tour on two symmetric copies differs by less, relatively


@dataclass(frozen=True)
class Experience:
    """The best tour of each instance of a batch, and the policy at every state on it."""

    instances: Instances  # [B] each as the symmetric copy that its best tour was found on
    costs: Tensor  # [B]
    actions: Tensor  # [B, T] as in `Tours.actions`, padded with the depot
    behaviour: Tensor  # [B, S, K] log-probabilities; minus infinity where an action is not allowed

    @staticmethod
    @torch.no_grad()
    def of(solver: Solver, lesson: Lesson) -> Experience:
        """The best tour of each instance over its copies and starts, with the policy that the lesson was solved by."""
        rows, best = lesson.best()
        instances, behaviour = lesson.instances[rows], lesson.behaviour
        if behaviour is None:
            behaviour = solver.behave(instances, best, encoding=lesson.encoding[rows])
        return Experience(instances, best.costs[:, 0], best.actions[:, 0], behaviour)

    @property
    def tours(self) -> Tours:
        """The tours as solvers take them: one for each instance."""
        return Tours(self.actions[:, None], self.costs[:, None])

    @property
    def bytes(self) -> int:
        """The memory it takes."""
        tensors = [self.costs, self.actions, self.behaviour, *self.instances.tensors()]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def improved_by(self, other: Experience) -> Tensor:
        """The instances for which the other experience has a tour that is better by more than rounding: [B]."""
        return other.costs < self.costs * (1 - ROUNDING)

    def enhanced(self, other: Experience) -> Experience:
        """Each instance with the better of two tours, in a tie its own; padded to the longer of both."""
        better = self.improved_by(other)
        length = max(self.actions.shape[1], other.actions.shape[1])
        ours, theirs = self.padded(length), other.padded(length)

        def choose(new: Tensor, old: Tensor) -> Tensor:
            return torch.where(better.view(-1, *[1] * (new.ndim - 1)), new, old)

        instances = Instances(
            *(choose(*each) for each in zip(theirs.instances.tensors(), ours.instances.tensors(), strict=True))
        )
        actions, behaviour = choose(theirs.actions, ours.actions), choose(theirs.behaviour, ours.behaviour)
        return Experience(instances, choose(theirs.costs, ours.costs), actions, behaviour)

    def needed(self) -> Tensor:
        """How many actions its longest tour has, padding left out: scalar."""
        return rules(self.instances.problem).needed(self.actions[:, None])

    def cut(self, length: int) -> Experience:
        """The first so many actions of every tour, and nothing more in memory; shorter ones are padded."""
        if length >= self.actions.shape[1]:
            return self.padded(length)
        actions, behaviour = self.actions[:, :length].clone(), self.behaviour[:, : length - 1].clone()
        return Experience(self.instances, self.costs, actions, behaviour)

    def rounded(self, multiple: int) -> Experience:
        """The same for its losses, its length a multiple; a TSP's, which is the same for all tours, as it is."""
        if self.instances.demands is None:
            return self
        return self.padded(-(-self.actions.shape[1] // multiple) * multiple)

    def padded(self, length: int) -> Experience:
        """Tours (of CVRPs) that stay at the depot, where they may do nothing else, up to this length."""
        extra = length - self.actions.shape[1]
        if not extra:
            return self
        stay = torch.full_like(self.behaviour[:, :1], -torch.inf).expand(-1, extra, -1).clone()
        stay[..., 0] = 0
        actions = functional.pad(self.actions, (0, extra))
        return Experience(self.instances, self.costs, actions, torch.cat([self.behaviour, stay], dim=1))

    def state_dict(self) -> dict[str, Any]:
        """As tensors by name."""
        return {**vars(self), "instances": dict(vars(self.instances))}

    @staticmethod
    def from_state(state: Mapping[str, Any], device: torch.device) -> Experience:
        """What `state_dict` gave, on a device."""
        tensors = {name: value.to(device) for name, value in state.items() if name != "instances"}
        return Experience(instances=Instances(**state["instances"]).to(device), **tensors)


class ExperienceBuffer(Reservoir[Experience]):
    """A reservoir of experiences, limited in number and, if wanted, in bytes."""

    def __init__(self, capacity: int, budget: int | None = None) -> None:
        super().__init__(capacity)
        if budget is not None and budget < 1:
            raise DreeError(f"A buffer needs at least some bytes, not {budget}.")
        self.budget = budget
        self.largest = 0  # bytes of the largest experience so far

    @property
    def bytes(self) -> int:
        """The memory its experiences take."""
        return sum(experience.bytes for experience in self.items)

    def put(self, slot: int, item: Experience) -> None:
        """Keep an experience, which must fit in the budget."""
        self.largest = max(self.largest, item.bytes)
        if self.budget is not None and self.largest > self.budget:
            raise DreeError(
                f"The buffer's budget of {self.budget} bytes is too small: one experience takes {self.largest}."
            )
        super().put(slot, item)

    def settle(self, generator: torch.Generator) -> None:
        """Where so many experiences of the largest size do not fit in the budget, hold fewer from now on."""
        if self.budget is not None and self.largest:
            self.shrink(self.budget // self.largest, generator)

    def state_dict(self) -> dict[str, Any]:
        """Everything in it, as tensors and plain values."""
        counts = {"seen": self.seen, "capacity": self.capacity, "largest": self.largest}
        return {**counts, "items": [experience.state_dict() for experience in self.items]}

    def load_state_dict(self, state: Mapping[str, Any], device: torch.device) -> None:
        """What was in it, on a device."""
        self.seen, self.capacity, self.largest = state["seen"], state["capacity"], state["largest"]
        self.items = [Experience.from_state(each, device) for each in state["items"]]
