"""A solver on instances of TSPLIB and CVRPLIB: lengths unrounded, and as the library rounds them."""

from __future__ import annotations

import time
from dataclasses import dataclass

from dree.data.libraries import ROUNDINGS, LibraryInstance
from dree.evaluation.evaluate import Progress, best_tours
from dree.problems.check import Rounding, check_cvrp, check_tsp
from dree.problems.frame import FRAMES
from dree.solvers import Solver


@dataclass(frozen=True)
class LibraryResult:
    """The best tour of one instance, checked and costed in float64 in the file's own units."""

    name: str
    customers: int
    distance: float  # unrounded, as in the paper
    rounded: int  # every leg rounded as the library does it
    best_known: int | None  # with every leg rounded
    seconds: float

    @property
    def gap(self) -> float | None:
        """Excess of the unrounded length over the best known one in per cent, as in the paper."""
        return None if self.best_known is None else (self.distance / self.best_known - 1) * 100

    @property
    def rounded_gap(self) -> float | None:
        """Excess of the rounded length over the best known one in per cent."""
        return None if self.best_known is None else (self.rounded / self.best_known - 1) * 100

    @property
    def is_record(self) -> bool:
        """Whether this tour is better than the best known one, in the library's own arithmetic."""
        return self.best_known is not None and self.rounded < self.best_known


def solve_library(
    solver: Solver,
    instance: LibraryInstance,
    copies: int = 1,
    frame: str = "fit",
    progress: Progress | None = None,
    precision: str = "auto",
) -> LibraryResult:
    """Solve an instance greedily from all starts, in its `frame` (see FRAMES), and cost the best tour."""
    began = time.perf_counter()
    tours = best_tours(solver, FRAMES[frame](instance.instances), copies, progress, precision)
    seconds = time.perf_counter() - began
    actions: list[int] = tours.actions.flatten().tolist()
    return LibraryResult(
        instance.name,
        instance.instances.customers,
        length(instance, actions),
        round(length(instance, actions, ROUNDINGS[instance.weights])),
        instance.best_known,
        seconds,
    )


def length(instance: LibraryInstance, actions: list[int], rounding: Rounding | None = None) -> float:
    """The length of a tour, which is checked, in the file's units."""
    batch = instance.instances
    coords = batch.coords[0].numpy()
    if batch.demands is None or batch.capacity is None:
        return check_tsp(coords, actions, rounding)
    return check_cvrp(coords, batch.demands[0].numpy(), int(batch.capacity[0]), actions, rounding)
