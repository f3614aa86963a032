"""Solutions to draw: the first instance of each of a stream's own tests, solved by a run or by the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from dree.data import TestSet
from dree.errors import DreeError
from dree.evaluation.answers import answer
from dree.experiments import RunFolder, RunSettings, load_solver
from dree.experiments.material import load_tests
from dree.lifelong.checkpoint import checkpoints
from dree.report.routes import Solution
from dree.report.style import law_title
from dree.solvers import Solver


class Solved(NamedTuple):
    """A solution, and by how many per cent it is longer than the reference's."""

    solution: Solution
    gap: float


def solved_tests(path: Path, solver: Solver | None = None) -> dict[str, Solved]:
    """By test of a run, the routes of the solver that it has learned, or of another."""
    solver = solver or load_solver(path)
    found = {}
    for law, test in _own_tests(RunFolder.open(path).settings()).items():
        routes = answer(solver, test.instances[:1])
        gap = (routes.cost / float(test.references[0]) - 1) * 100
        found[law] = Solved(_first(test, routes.actions, law_title(law)), gap)
    return found


def solved_runs(runs: Mapping[str, Path]) -> tuple[dict[str, dict[str, Solved]], dict[str, str]]:
    """By what they are called, the routes of the runs that still have their solvers; and why others have none."""
    solved, without = {}, {}
    for label, path in runs.items():
        if not checkpoints(RunFolder.open(path).checkpoints):
            without[label] = "its weights are not kept."
            continue
        try:
            solved[label] = solved_tests(path)
        except DreeError as error:
            without[label] = str(error)
    return solved, without


def titled(solved: Mapping[str, Solved], label: str = "") -> dict[str, Solution]:
    """Solutions as pictures are given them: the title says how far they are from the reference's."""
    return {
        law: replace(solution, title=f"{solution.title}{label and ', '}{label}: {gap:+z.1f} %")
        for law, (solution, gap) in solved.items()
    }


def reference_solutions(settings: RunSettings) -> dict[str, Solution]:
    """By test, the reference's routes, for the test sets that have them."""
    tests = _own_tests(settings)
    return {
        law: _first(test, test.tours[0].tolist(), f"{law_title(law)}, reference")
        for law, test in tests.items()
        if test.tours is not None
    }


def _own_tests(settings: RunSettings) -> dict[str, TestSet]:
    return load_tests(replace(settings, tests="principal"))


def _first(test: TestSet, actions: Sequence[int], title: str) -> Solution:
    instance = test.instances[:1]
    demands = None if instance.demands is None else instance.demands[0].numpy()
    capacity = None if instance.capacity is None else int(instance.capacity[0])
    return Solution(instance.coords[0].numpy(), actions, instance.problem, title, demands, capacity)
