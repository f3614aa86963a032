"""The process in which hygese runs: problems come in as lines of JSON, routes go out as lines of JSON.

Run as a script that imports nothing of this package, so that it starts fast; it ends with its input. hygese
can crash the interpreter it runs in: whoever talks to this process sees the pipe close and goes on.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def solve(request: dict[str, Any]) -> list[list[int]]:
    """The routes hygese finds: customers only, node 0 being the depot (CVRP) or the first node (TSP)."""
    import hygese  # type: ignore[import-untyped]
    import numpy as np

    settings = hygese.AlgorithmParameters(nbIter=request["iterations"], timeLimit=0.0, seed=request["seed"])
    solver = hygese.Solver(parameters=settings, verbose=False)
    x, y = np.array(request["coords"], dtype=np.float64).T
    data: dict[str, Any] = {"x_coordinates": x, "y_coordinates": y}
    if request["demands"] is None:
        routes = solver.solve_tsp(data, rounding=False).routes
    else:
        data["demands"] = np.array(request["demands"], dtype=np.float64)
        data["vehicle_capacity"] = request["capacity"]
        data["num_vehicles"] = request["vehicles"]
        routes = solver.solve_cvrp(data, rounding=False).routes
    return [[int(node) for node in route] for route in routes]


def main() -> None:
    """Answer line by line. What the solver itself prints goes to the error stream."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"routes": solve(json.loads(line))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
