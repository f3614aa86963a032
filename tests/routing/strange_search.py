"""A classical solver that answers in ways that none should; it is loaded by the process it runs in."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import ClassVar

from dree.evaluation.classical.base import STOPPED, ClassicalSolver, SolverError, TimedSolver


@dataclass(frozen=True)
class Strange(ClassicalSolver):
    """`way` says how it answers."""

    package: ClassVar[str] = "hygese"
    problems: ClassVar[tuple[str, ...]] = ("cvrp",)
    way: str = ""

    def solve(self, problem):
        if self.way == "dies":
            os._exit(3)
        if self.way == "never":
            time.sleep(1000)
        if self.way == "raises":
            raise SolverError("It is Monday.")
        if self.way == "stops":
            while not STOPPED.is_set():
                time.sleep(0.01)
        everything = list(range(1, len(problem.coords)))
        answers = {"nothing": [], "overloads": [everything], "stops": [everything], "forgets": [[1]]}
        return {**answers, "longer": problem.begin}[self.way]


@dataclass(frozen=True)
class Clock(TimedSolver):
    """It says how much time it was given."""

    package: ClassVar[str] = "hygese"
    problems: ClassVar[tuple[str, ...]] = ("cvrp",)

    def solve(self, problem):
        raise SolverError(f"seconds={self.seconds}")
