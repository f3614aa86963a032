"""A solver's best answers to problems in anybody's coordinates.

Shapes: B instances, T actions of a tour.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import index
from typing import overload

import numpy as np
from numpy.typing import NDArray

from dree.errors import DreeError
from dree.evaluation.evaluate import best_tours
from dree.problems import SYMMETRIES, Instances, to_unit_square
from dree.problems.check import check_tours, split_routes
from dree.solvers import Solver


@dataclass(frozen=True)
class Answer:
    """Routes over node numbers as in the problem, and their checked cost in the problem's own units."""

    problem: str
    actions: list[int]
    routes: list[list[int]]
    cost: float
    loads: list[int] | None
    capacity: int | None


@dataclass(frozen=True, eq=False)
class Answers:
    """The best tour that a solver found for each problem.

    `answers[0]` is the first with its routes and loads, and `answers[:5]` are the first five.
    """

    instances: Instances  # in their own units
    tours: NDArray[np.int64]  # [B, T] nodes in the order of visits; of a CVRP 0 is the depot, to which they return
    costs: NDArray[np.float64]  # [B] lengths in the units of the coordinates, by the independent referee

    def __len__(self) -> int:
        """The number of problems B."""
        return len(self.costs)

    @overload
    def __getitem__(self, row: int) -> Answer: ...

    @overload
    def __getitem__(self, row: slice) -> Answers: ...

    def __getitem__(self, row: int | slice) -> Answer | Answers:
        """The answer to one problem; of a slice, those to several."""
        if isinstance(row, slice):
            return Answers(self.instances[row], self.tours[row], self.costs[row])
        try:
            row = index(row)
        except TypeError:
            raise DreeError(f"Answers have numbers: give one, as in answers[0], or a slice, not {row!r}.") from None
        actions, cost = self.tours[row].tolist(), float(self.costs[row])
        if self.instances.demands is None or self.instances.capacity is None:
            return Answer("tsp", actions, [actions], cost, None, None)
        demands, routes = self.instances.demands[row].cpu().numpy(), split_routes(actions)
        loads = [int(demands[route].sum()) for route in routes]
        return Answer("cvrp", actions, routes, cost, loads, int(self.instances.capacity[row]))

    def __iter__(self) -> Iterator[Answer]:
        """One after the other."""
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        """On one line, without the tours."""
        mean = f", mean cost {self.costs.mean():.6g}" if len(self) else ""
        return f"Answers(to {self.instances!r}{mean})"


def answer(solver: Solver, instance: Instances) -> Answer:
    """The best greedy tour over all starts and symmetric copies of one problem, checked and costed in float64."""
    return answers(solver, instance)[0]


def answers(solver: Solver, instances: Instances, copies: int = SYMMETRIES) -> Answers:
    """The best greedy tours of problems over all starts and so many symmetric copies (1 or 8), checked and costed."""
    if isinstance(copies, bool) or not isinstance(copies, int | np.integer) or copies not in (1, SYMMETRIES):
        raise DreeError(f"copies must be 1 or {SYMMETRIES}, not {copies!r}.")
    if not len(instances):
        raise DreeError("There is no problem to solve. Give at least one.")
    best = best_tours(solver, to_unit_square(instances), copies, precision="fp32")
    tours = best.actions[:, 0].numpy()
    coords, *orders = (tensor.cpu().numpy() for tensor in instances.tensors())
    return Answers(instances, tours, check_tours(coords, tours, *orders))
