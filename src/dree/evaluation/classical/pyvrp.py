"""PyVRP (Wouda, Lan and Kool 2024): an iterated local search for CVRPs, which can go on from given routes."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dree.evaluation.classical.base import STOPPED, Problem, Routes, TimedSolver, bins

LARGEST = 1e5  # of its whole distances: with larger ones its penalties reach their limit, and its routes get bad
LARGEST_LOAD = 10**9  # of its capacities, so that penalties for loads stay within its integers


@dataclass(frozen=True)
class PyVRP(TimedSolver):
    """The best routes that are found in `seconds`, its preparations included."""

    package: ClassVar[str] = "pyvrp"
    problems: ClassVar[tuple[str, ...]] = ("cvrp",)

    seed: int = 1

    def solve(self, problem: Problem) -> Routes:
        """Feasible routes, from those to begin with if there are any; none where none were found."""
        ends = time.perf_counter() + self.seconds
        import pyvrp

        assert problem.demands is not None
        distances = problem.matrix()
        whole = np.rint(distances * (LARGEST / distances.max())).astype(np.int64)
        demands, capacity = in_its_loads(problem.demands, problem.capacity)
        vehicles = max(bins(problem.demands, problem.capacity), len(problem.begin or [])) + 3
        data = pyvrp.ProblemData(
            [pyvrp.Location(x, y) for x, y in problem.coords.tolist()],
            [pyvrp.Client(node, delivery=[demand]) for node, demand in enumerate(demands[1:].tolist(), start=1)],
            [pyvrp.Depot(0)],
            [pyvrp.VehicleType(vehicles, capacity=[capacity])],
            [whole],
            [np.zeros_like(whole)],
        )
        begin = None
        if problem.begin is not None:
            begin = pyvrp.Solution(data, [[node - 1 for node in route] for route in problem.begin])

        def over(best_cost: int) -> bool:
            return STOPPED.is_set() or time.perf_counter() >= ends

        search = pyvrp.solve(data, over, self.seed, collect_stats=False, initial_solution=begin)
        best = search.best
        if not best.is_feasible():
            return []
        return [[visit.idx + 1 for visit in route if visit.is_client()] for route in best.routes()]


def in_its_loads(demands: NDArray[np.int64], capacity: int) -> tuple[NDArray[np.int64], int]:
    """Demands and capacity in its range; what fits then fits in truth, too."""
    unit = math.gcd(*demands.tolist()) or 1
    unit *= max(1, math.ceil(capacity // unit / LARGEST_LOAD))
    return -(-demands // unit), capacity // unit
