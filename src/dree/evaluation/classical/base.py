"""What a classical solver is. Nothing here needs torch: solvers run in processes of their own, which start fast."""

from __future__ import annotations

import base64
import importlib.metadata
import importlib.util
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dree.errors import DreeError

Routes = list[list[int]]  # nodes between visits of node 0, which is the depot (CVRP) or the first node (TSP)

STOPPED = threading.Event()  # in a worker process, when what has been found by now is wanted; not all solvers can say


class SolverError(Exception):
    """The solver, or the process it ran in, did not answer with routes."""


class Problem(NamedTuple):
    """One instance on the host: N nodes, with the depot first if they have demands."""

    coords: NDArray[np.float64]  # [N, 2]
    demands: NDArray[np.int64] | None  # [N]
    capacity: int
    distances: NDArray[np.float64] | None = None  # [N, N], symmetric; None: they are Euclidean
    begin: Routes | None = None  # good routes, for solvers that can go on from there

    @property
    def extent(self) -> float:
        """The longer side of the rectangle that holds the nodes."""
        return float(np.ptp(self.coords, axis=0).max())

    def matrix(self) -> NDArray[np.float64]:
        """The distances of all pairs of nodes."""
        if self.distances is not None:
            return self.distances
        return np.asarray(np.linalg.norm(self.coords[:, None] - self.coords[None], axis=2))

    def content(self) -> bytes:
        """The same bytes for the same instance, and for no other."""
        arrays = (self.coords, self.demands, self.distances)
        coords, demands, distances = (b"" if each is None else each.tobytes() for each in arrays)
        return b"/".join([coords, demands, str(self.capacity).encode(), *([distances] if distances else [])])

    def trivial(self) -> Routes | None:
        """The routes where there is nothing to choose, which solvers cannot cope with."""
        customers, equal = list(range(1, len(self.coords))), self.extent == 0
        if self.demands is None:
            return [customers] if len(customers) <= 2 or equal else None
        return [[node] for node in customers] if len(customers) == 1 or equal else None

    def as_plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "coords": self.coords.tolist(),
            "demands": None if self.demands is None else self.demands.tolist(),
            "capacity": self.capacity,
            "distances": None if self.distances is None else base64.b64encode(self.distances.tobytes()).decode(),
            "begin": self.begin,
        }

    @staticmethod
    def from_plain(values: dict[str, Any]) -> Problem:
        """The problem whose `as_plain` these values are, bit by bit."""
        coords = np.array(values["coords"], dtype=np.float64)
        demands = None if values["demands"] is None else np.array(values["demands"], dtype=np.int64)
        distances = None
        if values["distances"] is not None:
            distances = np.frombuffer(base64.b64decode(values["distances"])).reshape(len(coords), len(coords))
        return Problem(coords, demands, values["capacity"], distances, values["begin"])


@dataclass(frozen=True)
class ClassicalSolver(ABC):
    """A solver and its settings, which are the fields of a frozen dataclass with defaults for all of them."""

    package: ClassVar[str]  # what it is called among Python's packages, and in the index of the test sets
    install: ClassVar[str] = "dree[reference]"  # what brings the package
    problems: ClassVar[tuple[str, ...]]
    repeatable: ClassVar[bool] = True  # whether equal settings give equal tours, which may then be kept

    @abstractmethod
    def solve(self, problem: Problem) -> Routes:
        """Good routes, none if there are no feasible ones; called in a worker process, which a crash takes with it."""

    def until(self, moment: float) -> Self:
        """The same, which answers at this moment of `time.time()` if it stops by the clock."""
        return self

    def made(self) -> dict[str, Any]:
        """How a tour was found: the solver's name, its version and its settings. Its package must be installed."""
        if importlib.util.find_spec(self.package.replace("-", "_")) is None:
            raise DreeError(f"Tours of this solver need the package {self.package}: pip install '{self.install}'.")
        return {"name": self.package, "version": importlib.metadata.version(self.package), **asdict(self)}

    def _at_least(self, least: float, *names: str) -> None:
        for name in names:
            if getattr(self, name) < least:
                raise DreeError(f"The number of {name} must be at least {least:g}, not {getattr(self, name)}.")


@dataclass(frozen=True)
class TimedSolver(ClassicalSolver):
    """A solver that stops by the clock, so its tours do not repeat."""

    repeatable: ClassVar[bool] = False
    least: ClassVar[float] = 0.001

    seconds: float = 5.0

    def __post_init__(self) -> None:
        """Refuse searches that take no time."""
        self._at_least(self.least, "seconds")

    def until(self, moment: float) -> Self:
        """The same with less time, if there is not as much until that moment."""
        return replace(self, seconds=max(self.least, min(self.seconds, moment - time.time())))


def bins(demands: NDArray[np.int64], capacity: int) -> int:
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
