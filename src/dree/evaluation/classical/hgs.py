"""HGS-CVRP (Vidal 2022) through the package hygese: the references of the test sets, for both problems."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dree.evaluation.classical.base import STOPPED, ClassicalSolver, Problem, Routes, TimedSolver, bins

WIDTH = 1000.0  # the solver sees coordinates of this extent: its largest distance must lie in [0.1, 1e5]
LARGEST_DEMAND = 1e5  # beyond which the solver gives up
FIRST, FIRST_AT_MOST = 0.2, 0.5  # of the time, and seconds, for a first search that shows a process's share
MARGIN = 0.95  # of the time that is left then, for the second
LOOK = 0.05  # seconds between two looks at whether the routes are wanted already


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
class TimedHGS(TimedSolver):
    """The same, which also stops after so many seconds.

    The package counts the time of its processor, of which a process may have a small share only, and cannot be
    stopped. So there are two searches. After a short one the share is known, and the second is given its part of the
    time that is left. If that share shrinks meanwhile, or the routes are wanted early, the first one's are the answer.
    """

    package: ClassVar[str] = "hygese"
    problems: ClassVar[tuple[str, ...]] = ("tsp", "cvrp")

    iterations: int = 5000
    seed: int = 1

    def __post_init__(self) -> None:
        """Refuse settings the solver would not stop with."""
        super().__post_init__()
        self._at_least(1, "iterations")

    def solve(self, problem: Problem) -> Routes:
        """The better routes of two hybrid genetic searches; those of the first, however long it takes."""
        ends = time.perf_counter() + self.seconds
        found: list[Routes | BaseException] = []
        one_is_there = threading.Event()

        def work() -> None:
            try:
                self._search_twice(problem, ends, found, one_is_there)
            except BaseException as error:
                found.append(error)
            one_is_there.set()

        thread = threading.Thread(target=work, daemon=True)  # it ends with its process, if not before
        thread.start()
        while thread.is_alive() and not STOPPED.is_set() and (left := ends - time.perf_counter()) > 0:
            thread.join(min(left, LOOK))
        one_is_there.wait()
        routes = [each for each in found if not isinstance(each, BaseException)]
        if not routes:
            raise next(each for each in found if isinstance(each, BaseException))
        distances = problem.matrix()
        return min(routes, key=lambda each: _length(distances, each))

    def _search_twice(
        self, problem: Problem, ends: float, found: list[Routes | BaseException], one_is_there: threading.Event
    ) -> None:
        began, worked = time.perf_counter(), time.process_time()
        limit = max(self.least, min(FIRST * (ends - began), FIRST_AT_MOST))
        found.append(_search(problem, nbIter=self.iterations, timeLimit=limit, seed=self.seed))
        one_is_there.set()
        used, now = time.process_time() - worked, time.perf_counter()
        left = MARGIN * (ends - now) * used / (now - began)
        if used >= limit and left >= self.least:  # else it had found its end, or there is no time for another
            found.append(_search(problem, nbIter=self.iterations, timeLimit=left, seed=self.seed + 1))


def _search(problem: Problem, **settings: float) -> Routes:
    import hygese  # type: ignore[import-untyped]

    solver = hygese.Solver(parameters=hygese.AlgorithmParameters(**settings), verbose=False)
    solve = solver.solve_tsp if problem.demands is None else solver.solve_cvrp
    return [[int(node) for node in route] for route in solve(in_its_units(problem), rounding=False).routes]


def _length(distances: NDArray[np.float64], routes: Routes) -> float:
    """Of all routes together; routes that are none are the longest."""
    legs = ([0, *route, 0] for route in routes)
    return sum(float(distances[leg[:-1], leg[1:]].sum()) for leg in legs) if routes else math.inf


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
