"""fast-tsp (stochastic local search with Or-opt): a quick second opinion on the TSP, by another method than HGS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dree.evaluation.classical.base import Problem, Routes, TimedSolver

LARGEST = 65535  # its distances are whole numbers of 16 bits
SHARES = (0.9999, 0.93, 0.87)  # of that range: each rounds the distances otherwise, and so searches otherwise


@dataclass(frozen=True)
class FastTSP(TimedSolver):
    """The best tour of up to three searches of `seconds` each. It stops by the clock, so its tours do not repeat."""

    package: ClassVar[str] = "fast-tsp"
    problems: ClassVar[tuple[str, ...]] = ("tsp",)

    seconds: float = 0.2
    searches: int = len(SHARES)

    def __post_init__(self) -> None:
        """Refuse searches that take no time."""
        super().__post_init__()
        self._at_least(1, "searches")

    def solve(self, problem: Problem) -> Routes:
        """One route, from node 0."""
        import fast_tsp

        distances = problem.matrix()
        tours = []
        for share in SHARES[: self.searches]:
            whole = np.rint(distances * (LARGEST * share / distances.max())).astype(np.uint16)
            tours.append(fast_tsp.find_tour(whole, duration_seconds=self.seconds))
        best = min(tours, key=lambda tour: float(distances[tour, np.roll(tour, -1)].sum()))
        first = best.index(0)
        return [[*best[first + 1 :], *best[:first]]]
