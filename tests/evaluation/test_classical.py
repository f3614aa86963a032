"""The classical solvers other than HGS: right where brute force can tell, and clear where they cannot be used."""

import importlib.util
import itertools
import math
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from dree.errors import DreeError
from dree.evaluation import reference
from dree.evaluation.classical import CLASSICAL_SOLVERS, HGS, FastTSP, Gurobi, Problem, classical_solver, hgs
from dree.evaluation.classical.gurobi import cycles
from dree.evaluation.classical.hgs import TimedHGS
from dree.evaluation.reference import reference_costs
from dree.problems import Instances
from dree.problems.check import check_tsp
from dree.tasks import principal

needs_fast_tsp = pytest.mark.skipif(importlib.util.find_spec("fast_tsp") is None, reason="fast-tsp is not installed")
needs_gurobi = pytest.mark.skipif(importlib.util.find_spec("gurobipy") is None, reason="gurobipy is not installed")
TSP_SOLVERS = [
    pytest.param(FastTSP(seconds=0.01), marks=needs_fast_tsp, id="fast-tsp"),
    pytest.param(Gurobi(), marks=needs_gurobi, id="gurobi"),
]


def shortest_tour(points):
    def length(order):
        return sum(math.dist(points[a], points[b]) for a, b in itertools.pairwise((0, *order, 0)))

    return min(map(length, itertools.permutations(range(1, len(points)))))


@pytest.mark.parametrize("solver", TSP_SOLVERS)
@pytest.mark.parametrize("law", ["U", "GM"])
def test_tours_equal_brute_force(solver, law):
    instances = principal(law, "tsp", 7).sample(2, torch.Generator().manual_seed(1))
    for points, (tour, cost) in zip(instances.coords.tolist(), reference_costs(instances, solver), strict=True):
        assert tour[0] == 0
        assert cost == pytest.approx(shortest_tour(points), rel=1e-9)
        assert check_tsp(points, tour) == cost


@pytest.mark.parametrize("solver", TSP_SOLVERS)
def test_a_second_opinion_agrees_with_hgs(solver):
    pytest.importorskip("hygese")
    instances = principal("R", "tsp", 20).sample(3, torch.Generator().manual_seed(2))
    costs = [[cost for _, cost in reference_costs(instances, each)] for each in (HGS(), solver)]
    assert costs[1] == pytest.approx(costs[0], rel=1e-9)


@needs_fast_tsp
def test_equal_and_distant_points_are_tours_too():
    points = torch.tensor([[[0.0, 0.0]] * 3 + [[1e6, 0.0], [1e6, 1e6]]])
    assert reference_costs(Instances(points), FastTSP(0.01))[0].cost == pytest.approx((2 + 2**0.5) * 1e6)
    assert reference_costs(Instances(torch.full((1, 5, 2), 0.5)), FastTSP(0.01))[0].cost == 0


@needs_fast_tsp
def test_what_stops_by_the_clock_is_not_kept(monkeypatch):
    solved = []
    solve = reference._solve
    monkeypatch.setattr(reference, "_solve", lambda row, *rest: solved.append(row) or solve(row, *rest))
    instances = Instances(torch.rand(2, 6, 2))
    for _ in range(2):
        reference_costs(instances, FastTSP(0.001))
    assert solved == [0, 1, 0, 1]


@needs_fast_tsp
def test_a_tsp_solver_refuses_other_problems():
    instances = principal("U", "cvrp", 5).sample(1, torch.Generator().manual_seed(0))
    with pytest.raises(DreeError, match="fast-tsp solves tsp only, not cvrp"):
        reference_costs(instances, FastTSP())


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(DreeError, match=r"seconds must be at least 0\.001, not 0"):
        FastTSP(seconds=0)


@pytest.mark.parametrize(
    ("name", "what"), [("hgs", "dree[reference]"), ("fast-tsp", "dree[reference]"), ("gurobi", "dree[gurobi]")]
)
def test_a_solver_that_is_not_installed_says_how_to_get_it(monkeypatch, name, what):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DreeError) as caught:
        classical_solver(name)().made()
    assert f"pip install '{what}'" in str(caught.value)


def test_solvers_are_known_by_name():
    assert {name: kind.problems for name, kind in CLASSICAL_SOLVERS.items()} == {
        "hgs": ("tsp", "cvrp"),
        "fast-tsp": ("tsp",),
        "gurobi": ("tsp",),
        "pyvrp": ("cvrp",),
    }
    with pytest.raises(DreeError, match="Did you mean 'fast-tsp'"):
        classical_solver("fasttsp")


GUROBI_WITHOUT_LICENCE = """
class GurobiError(Exception): pass
def Env(params): raise GurobiError("No Gurobi license found")
"""


def test_without_a_licence_gurobi_says_so(tmp_path):
    """A stand-in for gurobipy, in a process of its own: this one may have the real package."""
    (tmp_path / "gurobipy.py").write_text(GUROBI_WITHOUT_LICENCE)
    (tmp_path / "gurobipy-13.0.dist-info").mkdir()
    (tmp_path / "gurobipy-13.0.dist-info" / "METADATA").write_text("Name: gurobipy\nVersion: 13.0\n")
    code = (
        "import torch; from dree.evaluation.classical import Gurobi; from dree.problems import Instances; "
        "from dree.evaluation.reference import reference_costs; "
        "reference_costs(Instances(torch.rand(1, 5, 2)), Gurobi())"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (
        "Instance 0: the reference solver failed: Gurobi says: No Gurobi license found. Is a licence" in answer.stderr
    )


def test_cycles_of_edges():
    assert cycles([(0, 2), (2, 4), (0, 4), (1, 3), (3, 5), (1, 5)]) == [[0, 2, 4], [1, 3, 5]]
    assert cycles([(0, 1), (1, 2), (2, 3), (0, 3)]) == [[0, 1, 2, 3]]


@dataclass
class Clock:
    """A clock on the wall, and one that counts the time of this process."""

    wall: float = 0.0
    own: float = 0.0

    def perf_counter(self):
        return self.wall

    def process_time(self):
        return self.own

    def work(self, seconds, share):
        """Of a process that has so large a share of its processor."""
        self.own += seconds
        self.wall += seconds / share


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(hgs, "time", clock := Clock())
    return clock


SQUARE = Problem(np.array([[0.0, 0], [0, 1], [1, 1], [1, 0]]), np.array([0, 1, 1, 1]), 3)
SHORT, LONG = [[1, 2, 3]], [[1], [2], [3]]


@pytest.mark.parametrize(
    ("seconds", "share", "limits"),
    [
        (1.0, 0.5, [0.2, 0.95 * 0.6 * 0.5]),
        (1.0, 1.0, [0.2, 0.95 * 0.8]),
        (100.0, 0.01, [0.5, 0.95 * 50 * 0.01]),  # so that there is an answer, however small the share
        (1.0, 0.1, [0.2]),  # no time is left
    ],
)
def test_hgs_keeps_to_the_clock_where_it_has_a_share_of_its_processor_only(clock, monkeypatch, seconds, share, limits):
    asked = []

    def search(problem, *, nbIter, timeLimit, seed):
        asked.append(timeLimit)
        clock.work(timeLimit, share)
        return SHORT if seed == 1 else LONG

    monkeypatch.setattr(hgs, "_search", search)
    assert TimedHGS(seconds).solve(SQUARE) == SHORT
    assert asked == pytest.approx(limits)


def test_hgs_answers_in_time_with_what_it_has_if_its_share_shrinks(clock, monkeypatch):
    answered = threading.Event()

    def search(problem, *, nbIter, timeLimit, seed):
        clock.work(timeLimit, 1.0 if seed == 1 else 0.1)
        if seed == 1:
            return LONG
        answered.wait(60)
        return SHORT

    monkeypatch.setattr(hgs, "_search", search)
    assert TimedHGS(0.5).solve(SQUARE) == LONG
    answered.set()


def test_a_first_search_that_fails_is_an_error(monkeypatch):
    def search(problem, **_):
        raise ValueError("It is Monday.")

    monkeypatch.setattr(hgs, "_search", search)
    with pytest.raises(ValueError, match="Monday"):
        TimedHGS(0.5).solve(SQUARE)


def test_a_search_by_the_clock_has_the_time_until_a_moment_but_never_more_than_its_own():
    assert FastTSP(2.0).until(time.time() + 100).seconds == 2.0
    assert 0.1 < FastTSP(2.0).until(time.time() + 0.5).seconds <= 0.5
    assert FastTSP(2.0, searches=1).until(time.time() - 1) == FastTSP(0.001, searches=1)
    assert HGS().until(time.time()) == HGS()
