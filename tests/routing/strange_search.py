"""A classical solver that answers in ways that none should; it is loaded by the process it runs in."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import ClassVar

from dree.evaluation.classical.base import ClassicalSolver, SolverError, TimedSolver


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
        everything = list(range(1, len(problem.coords)))
        return {"nothing": [], "overloads": [everything], "forgets": [[1]], "longer": problem.begin}[self.way]


@dataclass(frozen=True)
class Clock(TimedSolver):
    """It says how much time it was given."""

    package: ClassVar[str] = "hygese"
    problems: ClassVar[tuple[str, ...]] = ("cvrp",)

    def solve(self, problem):
        raise SolverError(f"seconds={self.seconds}")
