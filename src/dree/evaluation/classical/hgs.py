"""HGS-CVRP (Vidal 2022) through the package hygese: the references of the test sets, for both problems."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dree.evaluation.classical.base import ClassicalSolver, Problem, Routes

WIDTH = 1000.0  # the solver sees coordinates of this extent: its largest distance must lie in [0.1, 1e5]
LARGEST_DEMAND = 1e5  # beyond which the solver gives up


@dataclass(frozen=True)
class HGS(ClassicalSolver):
    """It stops after `iterations` without improvement and never by the clock, so its tours are repeatable."""

    package: ClassVar[str] = "hygese"
    problems: ClassVar[tuple[str, ...]] = ("tsp", "cvrp")

    iterations: int = 2000
    seed: int = 1

    def __post_init__(self) -> None:
        """Refuse settings the solver would not stop with."""
        self._at_least(1, "iterations")

    def solve(self, problem: Problem) -> Routes:
        """The best routes of a hybrid genetic search."""
        import hygese  # type: ignore[import-untyped]

        settings = hygese.AlgorithmParameters(nbIter=self.iterations, timeLimit=0.0, seed=self.seed)
        solver = hygese.Solver(parameters=settings, verbose=False)
        solve = solver.solve_tsp if problem.demands is None else solver.solve_cvrp
        return [[int(node) for node in route] for route in solve(in_its_units(problem), rounding=False).routes]


def in_its_units(problem: Problem) -> dict[str, Any]:
    """The problem as hygese wants it: coordinates that are not negative, demands and distances in its range."""
    coords, demands, capacity = problem
    x, y = ((coords - coords.min(axis=0)) * (WIDTH / problem.extent)).T
    data: dict[str, Any] = {"x_coordinates": x.copy(), "y_coordinates": y.copy()}
    if demands is None:
        return data
    if not demands.any():  # one route takes all, so they may as well weigh something
        demands, capacity = np.arange(len(coords)).clip(max=1), len(coords)
    unit = 2.0 ** max(0, math.ceil(math.log2(int(demands.max()) / LARGEST_DEMAND)))  # division by it is exact
    vehicles = max(math.ceil(1.3 * int(demands.sum()) / capacity), _bins(demands, capacity)) + 3
    return data | {
        "demands": demands / unit,
        "vehicle_capacity": capacity / unit,
        "num_vehicles": min(vehicles, len(coords) - 1),
    }


def _bins(demands: NDArray[np.int64], capacity: int) -> int:
    """Vehicles that suffice: each demand, largest first, goes to the first that has room."""
    room: list[int] = []
    for demand in sorted(demands.tolist(), reverse=True):
        for vehicle, left in enumerate(room):
            if left >= demand:
                room[vehicle] -= demand
                break
        else:
            room.append(capacity - demand)
    return len(room)
