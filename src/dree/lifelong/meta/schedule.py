"""Which task comes next in meta-training: sizes by a curriculum, distributions by how badly they are solved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from dree.lifelong.meta.settings import MetaSettings
from dree.tasks.omni import DISTRIBUTIONS, OmniTask


class Share(NamedTuple):
    """A task of an iteration, and its share in the loss."""

    task: OmniTask
    weight: float


class Schedule:
    """The sizes in order, and for each size a weight for every distribution."""

    def __init__(self, problem: str, settings: MetaSettings) -> None:
        self.problem = problem
        self.settings = settings
        self._weights: dict[int, list[float]] = {}  # of sizes whose weights were refreshed

    def tasks_at(self, iteration: int) -> list[OmniTask]:
        """All distributions in the size of an iteration."""
        size = self.settings.size_at(iteration)
        return [OmniTask(self.problem, modes, size) for modes in DISTRIBUTIONS]

    def weights_at(self, iteration: int) -> list[float]:
        """How likely each of them is: equally, until the size is refreshed."""
        equal = [1 / len(DISTRIBUTIONS)] * len(DISTRIBUTIONS)
        return self._weights.get(self.settings.size_at(iteration), equal)

    def refresh(self, iteration: int, gaps: Sequence[float]) -> None:
        """New weights for the size of an iteration from the gaps, in per cent, of its distributions."""
        scaled = torch.tensor(gaps, dtype=torch.float64) / self.settings.temperature
        self._weights[self.settings.size_at(iteration)] = scaled.softmax(0).tolist()

    def draw(self, iteration: int, generator: torch.Generator) -> list[Share]:
        """The tasks of an iteration."""
        weights = torch.tensor(self.weights_at(iteration), dtype=torch.float64)
        chosen = weights.multinomial(self.settings.tasks, replacement=True, generator=generator)
        shares = weights[chosen].softmax(0).tolist()
        tasks = self.tasks_at(iteration)
        return [Share(tasks[index], share) for index, share in zip(chosen.tolist(), shares, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """The weights so far."""
        return {"weights": self._weights}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where an earlier `state_dict` was taken."""
        self._weights = dict(state["weights"])
