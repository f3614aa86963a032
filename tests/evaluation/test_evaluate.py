"""Greedy evaluation: the best over starts and copies, whatever the chunks, and gaps that add up."""

from __future__ import annotations

import pytest
import torch

from conftest import random_instances, small_solver
from dree.data import TestSet
from dree.errors import DreeError
from dree.evaluation import evaluate as module
from dree.evaluation.answers import answer
from dree.evaluation.evaluate import average_gap, best_tours, evaluate
from dree.problems import Instances, Tours, augment
from dree.problems.check import check_cvrp, check_tsp
from dree.solvers import Omni, POMOSettings


def referee(instances, row, actions):
    coords = instances.coords[row].double().numpy()
    if instances.demands is None:
        return check_tsp(coords, actions)
    return check_cvrp(coords, instances.demands[row].numpy(), int(instances.capacity[row]), actions)


@pytest.mark.parametrize("copies", [1, 8])
def test_the_best_of_all_starts_and_copies_is_found_and_is_a_tour(problem, copies):
    instances, solver = random_instances(problem, 5, 9, seed=1), small_solver(problem)
    tours = best_tours(solver, instances, copies)
    every = solver.solve(augment(instances, copies)).costs.view(copies, 5, -1)
    torch.testing.assert_close(tours.costs[:, 0], every.amin((0, 2)))
    for row in range(5):
        cost = referee(instances, row, tours.actions[row, 0].tolist())
        assert cost == pytest.approx(float(tours.costs[row, 0]), rel=1e-5)


def test_copies_help_and_never_hurt(problem):
    instances, solver = random_instances(problem, 20, 12, seed=2), small_solver(problem)
    one, eight = (best_tours(solver, instances, copies).costs for copies in (1, 8))
    assert (eight <= one + 1e-6).all()
    assert (eight < one - 1e-3).any()


@pytest.mark.parametrize("states", [1, 40, 300, 10_000])
def test_chunks_of_instances_and_of_starts_change_nothing(problem, states, monkeypatch):
    instances, solver = random_instances(problem, 4, 9, seed=3), small_solver(problem)
    whole = best_tours(solver, instances)
    monkeypatch.setitem(module.STATES_AT_ONCE, "cpu", states)
    largest = 0
    solve = solver.solve

    def watched(batch, starts, **options):
        nonlocal largest
        largest = max(largest, starts.numel() * batch.nodes)
        return solve(batch, starts, **options)

    monkeypatch.setattr(solver, "solve", watched)
    done: list[float] = []
    parts = best_tours(solver, instances, progress=done.append)
    assert largest <= max(states, instances.nodes)
    torch.testing.assert_close(parts.costs, whole.costs)
    assert sum(done) == pytest.approx(4)


def test_progress_counts_instances_and_not_copies(problem):
    done: list[float] = []
    best_tours(small_solver(problem), random_instances(problem, 3, 6, seed=4), 8, done.append)
    assert sum(done) == pytest.approx(3)


def test_a_solver_that_makes_no_tours_is_given_no_gap(problem, monkeypatch):
    instances, solver = random_instances(problem, 3, 7, seed=5), small_solver(problem)
    solve = solver.solve

    def skipping(*arguments, **options):
        tours = solve(*arguments, **options)
        twice = tours.actions.where(tours.actions != 3, 2)  # customer 3 is left out
        return Tours(twice, tours.costs)

    monkeypatch.setattr(solver, "solve", skipping)
    with pytest.raises(DreeError, match="instance 0 has for a tour is none"):
        evaluate(solver, TestSet(f"{problem}-U7-text", "U7", instances, torch.ones(3, dtype=torch.float64)))


def test_mean_and_deviation_are_those_of_the_instances_gaps(problem):
    instances, solver = random_instances(problem, 3, 7, seed=5), small_solver(problem)
    costs = best_tours(solver, instances).costs[:, 0].double()
    references = costs / torch.tensor([1.0, 1.1, 1.4], dtype=torch.float64)  # gaps of 0, 10 and 40 per cent
    test = TestSet(f"{problem}-U7-text", "U7", instances, references)
    result = evaluate(solver, test)
    assert result.mean == pytest.approx(50 / 3)
    assert result.std == pytest.approx((((50 / 3) ** 2 + (20 / 3) ** 2 + (70 / 3) ** 2) / 3) ** 0.5)
    assert (result.task, result.test, result.instances) == ("U7", test.name, 3)
    assert result.rate == pytest.approx(3 / result.seconds)
    assert average_gap(solver, test) == pytest.approx(result.mean)


def batch_wise(problem: str) -> Omni:
    """An Omni that is tested in batches of three."""
    solver = Omni(problem, POMOSettings(width=16, heads=2, layers=2, feed_forward=32))
    solver.encoding_batch = 3
    return solver


@pytest.mark.parametrize("states", [1, 40, 300, 2_000, 10_000])
@pytest.mark.parametrize("copies", [1, 8])
def test_what_is_encoded_together_does_not_depend_on_memory(problem, states, copies, monkeypatch):
    instances, solver = random_instances(problem, 7, 9, seed=3), batch_wise(problem)
    expected = []
    for part in (instances[:3], instances[3:6], instances[6:]):  # each with all its copies
        every = solver.solve(augment(part, copies)).costs
        expected.append(every.view(copies, len(part), -1).amin((0, 2)))
    monkeypatch.setitem(module.STATES_AT_ONCE, "cpu", states)
    encode, encoded = solver.encode, []
    monkeypatch.setattr(solver, "encode", lambda batch: (encoded.append(len(batch)), encode(batch))[1])
    done: list[float] = []
    tours = best_tours(solver, instances, copies, done.append)
    assert encoded == [3 * copies, 3 * copies, copies]
    torch.testing.assert_close(tours.costs[:, 0], torch.cat(expected))
    assert sum(done) == pytest.approx(7)


def test_one_problem_is_answered_with_its_own_copies_as_the_batch(problem):
    instances, solver = random_instances(problem, 2, 8, seed=6), batch_wise(problem)
    square = Instances(torch.cat([instances.coords[:1, :-2], torch.tensor([[[0.0, 0.0], [1.0, 1.0]]])], 1))
    if instances.demands is not None:
        square = Instances(square.coords, instances.demands[:1], instances.capacity[:1])
    expected = solver.solve(augment(square)).costs.min()
    assert answer(solver, square).cost == pytest.approx(float(expected), rel=1e-5)
