"""The process in which a classical solver runs: problems come in as lines of JSON, routes go out as lines of JSON.

It loads the solver and NumPy but no torch, so that it starts fast. It ends with its input, whatever it is at: when its
parent has died, nobody waits for an answer. Ctrl-C, which a terminal sends to it, too, asks for an answer now.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
from queue import SimpleQueue
from typing import Any

from dree.evaluation.classical.base import STOPPED, ClassicalSolver, Problem, SolverError


def answer(solver: ClassicalSolver, line: str) -> dict[str, Any]:
    """The routes of one problem, or what went wrong."""
    try:
        values = json.loads(line)
        problem = Problem.from_plain(values)
        chosen = solver if values["until"] is None else solver.until(values["until"])
        return {"routes": chosen.solve(problem)}
    except SolverError as error:
        return {"error": str(error)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main(module: str, name: str, settings: str) -> None:
    """Answer line by line. What the solver itself prints goes to the error stream."""
    signal.signal(signal.SIGINT, lambda *_: STOPPED.set())
    solver: ClassicalSolver = getattr(importlib.import_module(module), name)(**json.loads(settings))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    questions: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(questions,), name="listen", daemon=True).start()
    while True:
        answers.write(json.dumps(answer(solver, questions.get())) + "\n")
        answers.flush()


def _listen(questions: SimpleQueue[str]) -> None:
    """Pass questions on, and end this process when there can be no more."""
    for line in sys.stdin:
        questions.put(line)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
