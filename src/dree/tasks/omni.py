"""The tasks that Omni is meta-trained on: many sizes, and for each of them eleven distributions of nodes.

Everything is tensor operations on whole batches on the generator's device.

Shapes: B instances, n nodes, m clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from dree.errors import DreeError, unknown
from dree.problems import PROBLEMS, Instances
from dree.tasks.dice import Dice
from dree.tasks.mixture import Task
from dree.tasks.shapes import min_max


class Modes(NamedTuple):
    """A distribution of nodes: in how many clusters, and how wide the square that their centres lie in.

    Clusters have unit variance, so a wider square makes them tighter and farther apart. Without any clusters nodes are
    uniform; a single one is an elongated bell.
    """

    clusters: int
    spread: int

    @property
    def name(self) -> str:
        """A short name, such as `mixture3x10`."""
        return {0: "uniform", 1: "gaussian"}.get(self.clusters, f"mixture{self.clusters}x{self.spread}")


DISTRIBUTIONS = (Modes(0, 0), Modes(1, 1), *(Modes(m, c) for m in (3, 5, 7) for c in (10, 30, 50)))


@dataclass(frozen=True)
class OmniTask(Task):
    """Instances of one size whose customers come from one of the distributions; a depot is uniform."""

    problem: str
    modes: Modes
    customers: int

    def __post_init__(self) -> None:
        """Refuse what no instance can be made of."""
        if self.problem not in PROBLEMS:
            raise unknown("problem", self.problem, PROBLEMS)
        if self.customers < 2:
            raise DreeError(f"A task of Omni needs at least 2 customers, not {self.customers}.")

    @property
    def name(self) -> str:
        """The distribution and the size, such as `mixture3x10-50`."""
        return f"{self.modes.name}-{self.customers}"

    @property
    def size(self) -> int:
        """The number of customers."""
        return self.customers

    @property
    def capacity(self) -> int:
        """The vehicle capacity that goes with the size (CVRP)."""
        return 30 + -(-self.customers // 5) if self.customers >= 20 else 20

    def sample(self, batch: int, generator: torch.Generator) -> Instances:
        """The depot first, uniform for every instance, then the customers with demands from 1 to 9."""
        dice = Dice(batch, generator)
        customers = self._place(dice)
        if self.problem == "tsp":
            return Instances(customers)
        demands = dice.integers(self.customers, low=1, high=9)
        capacity = torch.full((batch,), self.capacity, dtype=torch.int64, device=generator.device)
        depot = torch.zeros_like(demands[:, :1])
        return Instances(torch.cat([dice.uniform(1, 2), customers], 1), torch.cat([depot, demands], 1), capacity)

    def _place(self, dice: Dice) -> Tensor:
        """The customers in the unit square: [B, n, 2]."""
        if self.modes.clusters == 0:
            return dice.uniform(self.customers, 2)
        if self.modes.clusters == 1:
            return _fit(_bell(dice, self.customers))
        centres = dice.uniform(self.modes.clusters, 2, high=float(self.modes.spread))
        # Each node's cluster is equally likely, so their numbers are multinomial; clusters lie one after the other.
        cluster = dice.integers(self.customers, low=0, high=self.modes.clusters - 1).sort(1).values
        return min_max(centres.gather(1, cluster[..., None].expand(-1, -1, 2)) + dice.normal(self.customers, 2))


def _bell(dice: Dice, n: int) -> Tensor:
    """Normal points of unit variance on either axis, with a correlation from U(0, 1) for each instance."""
    first, second = dice.normal(n, 2).unbind(-1)
    correlation = dice.uniform(1)
    return torch.stack([first, correlation * first + (1 - correlation.square()).sqrt() * second], dim=-1)


def _fit(points: Tensor) -> Tensor:
    """Scaled as they are, so that the longer side of what they span is one, and centred along the shorter."""
    low, high = points.amin(1, keepdim=True), points.amax(1, keepdim=True)
    longer = (high - low).amax(-1, keepdim=True)
    scale = torch.where(longer > 0, longer, 1.0)
    return ((points - (low + high) / 2) / scale + 0.5).clamp(0, 1)
