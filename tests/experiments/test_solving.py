"""Problems in plain arrays: solved in the unit square, answered in the user's units, by whatever names a solver."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import dree
from conftest import random_instances
from dree.errors import DreeError
from dree.evaluation.evaluate import best_tours
from dree.experiments import DEMO
from dree.experiments.shipped import SHIPPED, shipped_folder
from dree.problems import Instances
from dree.problems.check import check_tours
from dree.settings import override
from small_runs import SMALL


def arrays(problem, batch=3, nodes=9):
    """Problems that fill the unit square, as arrays."""
    instances = random_instances(problem, batch, nodes, seed=4)
    coords, *orders = (tensor.double().numpy() for tensor in instances.tensors())
    coords[:, :2] = [[0, 0], [1, 1]]
    return coords, *orders


def test_costs_are_in_the_units_of_the_coordinates_wherever_these_lie(problem):
    coords, *orders = arrays(problem)
    solver = dree.make_solver(problem, settings={"width": 16, "layers": 1})
    instances = Instances.of(coords, *orders)
    best = best_tours(solver, instances, 8)
    there = dree.solve(solver, coords * 512 - 1024, *orders)
    assert there.tours.tolist() == best.actions[:, 0].tolist()
    np.testing.assert_allclose(there.costs, best.costs[:, 0].double().numpy() * 512, rtol=1e-5)
    assert there.costs.dtype == np.float64
    np.testing.assert_allclose(there.costs, check_tours(coords, there.tours, *orders) * 512, rtol=1e-12)
    alone = dree.solve(solver, coords, *orders, copies=1)
    assert alone.tours.tolist() == best_tours(solver, instances).actions[:, 0].tolist()


def test_an_answer_has_its_routes_loads_and_cost():
    coords, demands = [[0, 0], [0, 9], [0, 10], [10, 0]], [0, 2, 3, 4]
    found = dree.solve("cvrp-drift", coords, demands, 5)
    (only,) = found
    assert sorted(map(sorted, only.routes)) == [[1, 2], [3]]
    assert dict(zip(map(len, only.routes), only.loads, strict=True)) == {2: 5, 1: 4}
    assert only.cost == found.costs[0] == pytest.approx(40)
    assert (only.capacity, len(found)) == (5, 1)
    assert repr(found) == "Answers(to Instances(cvrp, 1 of 3 customers, cpu), mean cost 40)"
    assert repr(found[:0]) == "Answers(to Instances(cvrp, 0 of 3 customers, cpu))"


def test_a_solver_is_an_object_a_folder_or_a_name(problem):
    coords, *orders = arrays(problem)
    name = SHIPPED[problem]
    by_name = dree.solve(name, coords, *orders).costs.tolist()
    for solver in (dree.load_solver(name), shipped_folder(name), str(shipped_folder(name))):
        assert dree.solve(solver, coords, *orders).costs.tolist() == by_name


def test_a_run_may_be_named_by_a_text_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = dree.Run.start("run", override(DEMO, {**SMALL, "epochs": 5}))
    run.finish()
    solver = dree.load_solver("run")
    assert all(torch.equal(ours, run.learner.solver.state_dict()[name]) for name, ours in solver.state_dict().items())
    assert dree.Run.resume("run").epoch == run.epoch
    assert dree.write_run_page("run").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_name_that_is_nothing_is_refused_with_those_that_are():
    with pytest.raises(DreeError, match=r"There is no run cvrp-drit, .* tsp-drift and cvrp-drift"):
        dree.load_solver("cvrp-drit")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([[0, 0], [1, float("nan")]],), r"node 1: coordinates \[1.0, nan\] are not finite"),
        (([[0, 0], [1, 1]], [0, 1], 2), "made for tsp, these instances are cvrp. Give them without demands"),
    ],
)
def test_what_cannot_be_solved_is_refused_with_the_cause(given, message):
    with pytest.raises(DreeError, match=message):
        dree.solve("tsp-drift", *given)


@pytest.mark.parametrize("copies", [3, True, 8.0, np.array([1, 8])])
def test_only_1_or_8_copies_are_taken(copies):
    with pytest.raises(DreeError, match=rf"copies must be 1 or 8, not {re.escape(repr(copies))}"):
        dree.solve("tsp-drift", [[0, 0], [1, 1]], copies=copies)


def test_answers_are_taken_by_number_or_slice():
    coords, *orders = arrays("cvrp")
    found = dree.solve("cvrp-drift", coords, *orders)
    assert list(found[1:]) == [found[1], found[2]]
    assert (len(found[:2]), found[:2].costs.tolist()) == (2, found.costs[:2].tolist())
    assert found[np.int64(2)] == found[-1]
    with pytest.raises(DreeError, match=r"as in answers\[0\], or a slice, not \[0, 1\]"):
        found[[0, 1]]


def test_no_problem_at_all_is_refused(problem):
    coords, *orders = (each[:0] for each in arrays(problem))
    with pytest.raises(DreeError, match="There is no problem to solve"):
        dree.solve(SHIPPED[problem], coords, *orders)


def test_a_path_that_is_only_a_solvers_name_is_refused_with_what_to_give(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DreeError, match="is named by a text: 'cvrp-drift', not a Path"):
        dree.load_solver(Path("cvrp-drift"))


@pytest.mark.parametrize(("solver", "kind"), [(None, "a NoneType"), (3, "an int"), (dree.POMO, "an ABCMeta")])
def test_what_is_no_solver_is_refused_by_its_type(solver, kind):
    with pytest.raises(DreeError, match=rf"Give a solver, .* \(tsp-drift or cvrp-drift\), not {kind}\."):
        dree.solve(solver, [[0, 0], [1, 1]])
