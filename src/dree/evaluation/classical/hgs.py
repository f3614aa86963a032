"""HGS-CVRP (Vidal 2022) through the package hygese: the references of the test sets, for both problems."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dree.evaluation.classical.base import ClassicalSolver, Problem, Routes, bins

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
        return _search(problem, nbIter=self.iterations, timeLimit=0.0, seed=self.seed)


@dataclass(frozen=True)
class TimedHGS(ClassicalSolver):
    """The same, which also stops after so many seconds of its processor's time; then its tours do not repeat."""

    package: ClassVar[str] = "hygese"
    problems: ClassVar[tuple[str, ...]] = ("tsp", "cvrp")
    repeatable: ClassVar[bool] = False

    seconds: float = 5.0
    iterations: int = 5000
    seed: int = 1

    def __post_init__(self) -> None:
        """Refuse searches that take no time."""
        self._at_least(0.001, "seconds")
        self._at_least(1, "iterations")

    def solve(self, problem: Problem) -> Routes:
        """The best routes of a hybrid genetic search."""
        return _search(problem, nbIter=self.iterations, timeLimit=self.seconds, seed=self.seed)


def _search(problem: Problem, **settings: float) -> Routes:
    import hygese  # type: ignore[import-untyped]

    solver = hygese.Solver(parameters=hygese.AlgorithmParameters(**settings), verbose=False)
    solve = solver.solve_tsp if problem.demands is None else solver.solve_cvrp
    return [[int(node) for node in route] for route in solve(in_its_units(problem), rounding=False).routes]


def in_its_units(problem: Problem) -> dict[str, Any]:
    """The problem as hygese wants it: coordinates that are not negative, demands and distances in its range."""
    coords, demands, capacity, distances, _ = problem
    x, y = ((coords - coords.min(axis=0)) * (WIDTH / problem.extent)).T
    data: dict[str, Any] = {"x_coordinates": x.copy(), "y_coordinates": y.copy()}
    if distances is not None:
        data["distance_matrix"] = distances * (WIDTH / distances.max())
    if demands is None:
        return data
    if not demands.any():  # one route takes all, so they may as well weigh something
        demands, capacity = np.arange(len(coords)).clip(max=1), len(coords)
    unit = 2.0 ** max(0, math.ceil(math.log2(int(demands.max()) / LARGEST_DEMAND)))  # division by it is exact
    vehicles = max(math.ceil(1.3 * int(demands.sum()) / capacity), bins(demands, capacity)) + 3
    return data | {
        "demands": demands / unit,
        "vehicle_capacity": capacity / unit,
        "num_vehicles": min(vehicles, len(coords) - 1),
    }
