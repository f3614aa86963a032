"""The classical solver HGS (Vidal 2022), through the package hygese, in processes of its own.

hygese can crash the interpreter it runs in. Here it only takes `hgs_worker.py` with it, and the instance it
crashed on is known.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import math
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dree.errors import DreeError

WIDTH = 1000.0  # the solver sees coordinates of this extent: its largest distance must lie in [0.1, 1e5]
LARGEST_DEMAND = 1e5  # beyond which the solver gives up
WORKER = Path(__file__).parent / "hgs_worker.py"


class Problem(NamedTuple):
    """One instance on the host: N nodes, with the depot first if they have demands."""

    coords: NDArray[np.float64]  # [N, 2]
    demands: NDArray[np.int64] | None  # [N]
    capacity: int

    def content(self) -> bytes:
        """The same bytes for the same instance, and for no other."""
        demands = b"" if self.demands is None else self.demands.tobytes()
        return b"/".join([self.coords.tobytes(), demands, str(self.capacity).encode()])


class SolverError(Exception):
    """The solver, or the process it ran in, did not answer with routes."""


def solver_version() -> str:
    """The version of hygese, which must be installed."""
    if importlib.util.find_spec("hygese") is None:
        raise DreeError("Reference solutions need the package hygese: pip install 'dree[reference]'.")
    return importlib.metadata.version("hygese")


class Worker:
    """A process that solves one problem after the other; it starts when needed, again if it has died."""

    def __init__(self) -> None:
        """No process yet."""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Worker:
        """This worker, to be closed at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._stop()
        self._log.close()

    def solve(self, problem: Problem, iterations: int, seed: int) -> list[list[int]]:
        """Routes from node 0 (a TSP has one); none if the solver found no feasible ones."""
        trivial = _trivial(problem)
        if trivial is not None:
            return trivial
        line = self._ask(json.dumps(_request(problem, iterations, seed)))
        answer: dict[str, Any] = (
            json.loads(line) if line else {"error": f"its process ended with status {self._stop()}."}
        )
        if "error" in answer:
            raise SolverError(" ".join([answer["error"], *self._last_words()]))
        routes: list[list[int]] = answer["routes"]
        return routes

    def _ask(self, line: str) -> str:
        """The answer to one line; empty if the process died over it."""
        if self._process is None:
            command = [sys.executable, "-P", str(WORKER)]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._log, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        return self._process.stdout.readline()

    def _stop(self) -> int | None:
        """End the process and forget it; its exit status, negative for the signal that killed it."""
        process, self._process = self._process, None
        if process is None:
            return None
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):
            process.stdin.close()  # at which it ends
        process.stdout.close()
        return process.wait()

    def _last_words(self) -> list[str]:
        self._log.seek(0)
        return self._log.read().decode(errors="replace").splitlines()[-1:]


def _trivial(problem: Problem) -> list[list[int]] | None:
    """The routes where there is nothing to choose, which the solver cannot cope with."""
    coords, demands, _ = problem
    customers = list(range(1, len(coords)))
    if demands is None:
        return [customers] if len(coords) <= 3 or _extent(coords) == 0 else None
    return [[node] for node in customers] if len(coords) == 2 or _extent(coords) == 0 else None


def _request(problem: Problem, iterations: int, seed: int) -> dict[str, Any]:
    """The problem in the units of the solver, which wants coordinates that are not negative."""
    coords, demands, capacity = problem
    scaled = (coords - coords.min(axis=0)) * (WIDTH / _extent(coords))
    request: dict[str, Any] = {
        "coords": scaled.tolist(),
        "demands": None,
        "iterations": iterations,
        "seed": seed,
    }
    if demands is None:
        return request
    if not demands.any():  # one route takes all, so they may as well weigh something
        demands, capacity = np.arange(len(coords)).clip(max=1), len(coords)
    unit = 2.0 ** max(0, math.ceil(math.log2(int(demands.max()) / LARGEST_DEMAND)))  # division by it is exact
    vehicles = max(math.ceil(1.3 * int(demands.sum()) / capacity), _bins(demands, capacity)) + 3
    return request | {
        "demands": (demands / unit).tolist(),
        "capacity": capacity / unit,
        "vehicles": min(vehicles, len(coords) - 1),
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


def _extent(coords: NDArray[np.float64]) -> float:
    return float(np.ptp(coords, axis=0).max())
