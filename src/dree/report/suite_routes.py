"""Routes of several runs on the same instances, as plain values for the page of a suite."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dree.experiments import RunFolder
from dree.report.routes import Solution
from dree.report.solutions import Solved, reference_solutions, solved_runs
from dree.report.style import LINE_COLOURS

REFERENCE = "reference"


def routes_data(runs: Mapping[str, Path], titles: Mapping[str, str]) -> tuple[dict[str, Any] | None, list[str]]:
    """The first instance of each test with the routes of every run whose weights are kept, and why others have none.

    None where there is no run to show. `titles` are those of the tests.
    """
    solved, lacking = solved_runs(runs)
    without = [f"{label}: {why}" for label, why in lacking.items()]
    if not solved:
        return None, without
    settings = RunFolder.open(runs[next(iter(solved))]).settings()
    stored = {law: Solved(solution, 0.0) for law, solution in reference_solutions(settings).items()}
    shown = {REFERENCE: stored, **solved} if stored else solved
    tests = {law: each.solution for law, each in next(iter(solved.values())).items()}
    return {
        "colours": LINE_COLOURS,
        "tests": [_test(titles.get(law, law), solution) for law, solution in tests.items()],
        "solvers": [
            {"name": name, "answers": [_answer(answers.get(law)) for law in tests]} for name, answers in shown.items()
        ],
    }, without


def _test(title: str, solution: Solution) -> dict[str, Any]:
    """An instance, its longer side as 1000 units, with y upwards as in all figures."""
    points = np.asarray(solution.coords, dtype=np.float64)
    low, high = points.min(axis=0), points.max(axis=0)
    size = float((high - low).max()) or 1.0
    placed = (points - (low + high) / 2) / size * 1000 + 500
    placed[:, 1] = 1000 - placed[:, 1]
    return {
        "title": title,
        "depot": solution.problem != "tsp",
        "points": placed.round(1).tolist(),
        "demands": None if solution.demands is None else [int(each) for each in solution.demands],
    }


def _answer(solved: Solved | None) -> dict[str, Any] | None:
    if solved is None:
        return None
    solution, gap = solved
    return {
        "routes": solution.routes,
        "loads": [] if solution.problem == "tsp" else [solution.load(route) for route in solution.routes],
        "length": round(solution.length, 3),
        "gap": round(gap, 2),
    }
