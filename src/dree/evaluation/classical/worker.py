"""Solvers in processes of their own: hygese, for one, can crash the interpreter it runs in.

Here it only takes its worker with it, and the instance it crashed on is known.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any

from dree.evaluation.classical.base import ClassicalSolver, Problem, Routes, SolverError

WORKER = ("-m", "dree.evaluation.classical.worker_main")


class Worker:
    """A process that solves one problem after the other; it starts when needed, again if it has died."""

    def __init__(self, solver: ClassicalSolver) -> None:
        """No process yet."""
        kind = type(solver)
        self._arguments = (kind.__module__, kind.__qualname__, json.dumps(asdict(solver)))
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Worker:
        """This worker, to be closed at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process, whatever it is at."""
        if self._process is not None:
            self._process.kill()
        self._stop()
        self._log.close()

    def solve(self, problem: Problem, limit: float | None = None, until: float | None = None) -> Routes:
        """The solver's routes; none if it found no feasible ones.

        A solver that goes by the clock is to answer at the moment `until` of `time.time()`, whatever it takes to start
        its process and to tell it the problem. After `limit` seconds that process is killed.
        """
        trivial = problem.trivial()
        if trivial is not None:
            return trivial
        if self._process is None:
            command = [sys.executable, "-P", *WORKER, *self._arguments]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._log, text=True)
        assert self._process.stdin is not None
        with _killed_after(limit, self._process):
            with suppress(OSError):
                self._process.stdin.write(json.dumps({"until": until, **problem.as_plain()}) + "\n")
                self._process.stdin.flush()
            return self._routes()

    def found(self, limit: float) -> Routes:
        """What the solver has found by now, after `solve` was interrupted; its process has so many seconds to say it.

        None if it did not get to work. A solver that cannot stop on the way is killed.
        """
        if self._process is None:
            return []
        with _killed_after(limit, self._process):
            self._process.send_signal(signal.SIGINT)
            return self._routes()

    def _routes(self) -> Routes:
        """The answer of the process."""
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        except ValueError:  # there is none, or not all of one
            answer = {"error": f"its process ended with status {self._stop()}."}
        if "error" in answer:
            raise SolverError(" ".join([answer["error"], *self._last_words()]))
        routes: Routes = answer["routes"]
        return routes

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


@contextmanager
def _killed_after(seconds: float | None, process: subprocess.Popen[str]) -> Iterator[None]:
    """What is done with a process, which is killed if it takes longer."""
    patience = None if seconds is None else threading.Timer(seconds, process.kill)
    if patience is not None:
        patience.start()
    try:
        yield
    finally:
        if patience is not None:
            patience.cancel()
