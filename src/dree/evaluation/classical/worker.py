"""Solvers in processes of their own: hygese, for one, can crash the interpreter it runs in.

Here it only takes its worker with it, and the instance it crashed on is known.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
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
        """End the process."""
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
        line = self._ask(json.dumps({"until": until, **problem.as_plain()}), limit)
        answer: dict[str, Any] = (
            json.loads(line) if line else {"error": f"its process ended with status {self._stop()}."}
        )
        if "error" in answer:
            raise SolverError(" ".join([answer["error"], *self._last_words()]))
        routes: Routes = answer["routes"]
        return routes

    def _ask(self, line: str, limit: float | None) -> str:
        """The answer to one line; empty if the process died over it."""
        if self._process is None:
            command = [sys.executable, "-P", *WORKER, *self._arguments]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._log, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        patience = None if limit is None else threading.Timer(limit, self._process.kill)
        if patience is not None:
            patience.start()
        try:
            with suppress(OSError):
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()
            return self._process.stdout.readline()
        finally:
            if patience is not None:
                patience.cancel()

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
