"""An operator's day: the stops of one day in the customer's own coordinates, and the task of routing days like it.

Shapes: B instances, M stops of a day, n of them in an instance.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np
import torch
from numpy.typing import NDArray

from dree.errors import DreeError
from dree.problems import Instances
from dree.problems.geography import Frame, Places
from dree.tasks.dice import Dice
from dree.tasks.mixture import Task

LEAST_STOPS = 10  # a day with fewer is routed, but nothing is learned from it
SHARE = 0.9  # of a day's stops in an instance that is learned
LARGEST = 100  # stops of an instance that is learned


@dataclass(frozen=True, eq=False)
class Orders:
    """The stops of one day. With demands, vehicles of one capacity serve them from a depot; without, one tour does."""

    day: str  # its date, 2022-06-04, or 06-04 where no year is known; without a date, another name
    places: Places  # [M, 2] longitude and latitude, or x and y
    names: tuple[str, ...]  # [M] what the customer calls the stops
    geographic: bool
    depot: tuple[float, float] | None = None  # longitude and latitude, or x and y
    demands: NDArray[np.int64] | None = None  # [M], in such units that all are whole numbers
    capacity: int | None = None  # in the same units
    units: int = 1  # of them in one of the customer's units: 10 where a demand is 2.5
    recipients: tuple[str, ...] | None = (
        None  # [M] who is there, where that is said beside the names; empty: nobody knows
    )
    at_depot: tuple[str, ...] = ()  # orders that are handed over at the depot itself, which are no stops

    def __post_init__(self) -> None:
        """Refuse what cannot be a day's work."""
        if not len(self.places) or not np.isfinite(self.nodes).all():
            raise DreeError(f"{self.day} must have stops, and all of them finite coordinates.")
        if len(self.names) != len(self.places):
            raise DreeError(f"{self.day} has {len(self.places)} stops and {len(self.names)} names for them.")
        if self.recipients is not None and len(self.recipients) != len(self.places):
            raise DreeError(f"{self.day} has {len(self.places)} stops and {len(self.recipients)} recipients.")
        if (self.demands is None) != (self.capacity is None):
            raise DreeError("Demands and capacity go together: give both (several routes) or neither (one tour).")
        if self.demands is None or self.capacity is None:
            return
        if self.depot is None:
            raise DreeError(f"{self.day} has demands but no depot. Say where the vehicles start.")
        if self.demands.shape != self.places.shape[:1] or self.demands.min() < 0 or self.demands.max() > self.capacity:
            raise DreeError(f"{self.day} must have a demand from 0 to the capacity {self.capacity} for every stop.")

    @property
    def problem(self) -> str:
        """`tsp` or `cvrp`."""
        return "tsp" if self.demands is None else "cvrp"

    @property
    def nodes(self) -> Places:
        """The depot, if there is one, then the stops."""
        return self.places if self.depot is None else np.concatenate(([self.depot], self.places))

    @cached_property
    def key(self) -> str:
        """A hash of what is to be routed, whatever the order of the rows and the stops' names."""
        demands = np.zeros(len(self.places), np.int64) if self.demands is None else self.demands
        rows = sorted(zip(*self.places.T.tolist(), demands.tolist(), strict=True))
        content = (self.problem, self.geographic, self.depot, self.capacity, self.units, rows)
        return hashlib.sha256(repr(content).encode()).hexdigest()

    def frame(self) -> Frame:
        """The smallest square around the day."""
        return Frame.around(self.nodes, self.geographic)

    def instance(self) -> Instances:
        """The whole day as a batch of one problem in the unit square; node 0 is the depot, if there is one."""
        return self.instances(np.arange(len(self.places))[None])

    def instances(self, chosen_Bn: NDArray[np.int64]) -> Instances:
        """Problems with some of the day's stops each, which keep the places they have in the day's frame."""
        points = torch.from_numpy(self.frame().to_unit(self.nodes)).float()
        chosen = torch.from_numpy(chosen_Bn)
        if self.depot is not None:
            chosen = torch.cat([torch.zeros_like(chosen[:, :1]), chosen + 1], dim=1)
        if self.demands is None or self.capacity is None:
            return Instances(points[chosen])
        demands = torch.cat([torch.zeros(1, dtype=torch.int64), torch.from_numpy(self.demands)])
        return Instances(points[chosen], demands[chosen], torch.full((len(chosen),), self.capacity))


@dataclass(frozen=True, eq=False)
class OrdersTask(Task):
    """Problems with a random part of a day's stops, none of them twice."""

    orders: Orders

    def __post_init__(self) -> None:
        """Refuse what nothing can be learned from."""
        if len(self.orders.places) < LEAST_STOPS:
            raise DreeError(
                f"{self.orders.day} has {len(self.orders.places)} stops; to learn from a day it needs {LEAST_STOPS}."
            )

    @property
    def problem(self) -> str:  # type: ignore[override]
        """`tsp` or `cvrp`."""
        return self.orders.problem

    @property
    def name(self) -> str:
        """The day and the size, such as `2022-06-04-n27`."""
        return f"{self.orders.day}-n{self.size}"

    @property
    def size(self) -> int:
        """The stops of each instance, the same for all of the day."""
        return min(ceil(SHARE * len(self.orders.places)), LARGEST)

    def sample(self, batch: int, generator: torch.Generator) -> Instances:
        """The first n of the day's stops in an order that is drawn for each instance."""
        chosen_Bn = Dice(batch, generator).parts(len(self.orders.places), self.size)
        return self.orders.instances(chosen_Bn.cpu().numpy()).to(generator.device)
