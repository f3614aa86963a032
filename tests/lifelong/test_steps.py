"""Remembered steps of several sizes as one padded batch: what is where, and that a solver decides as on each alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import small_solver
from dree.lifelong.replay import uncertainty
from dree.lifelong.steps import padded, room
from dree.problems import State
from remembered_steps import remembered_step

PROBLEMS = st.sampled_from(["tsp", "cvrp"])
SIZES = st.lists(st.integers(2, 18), min_size=1, max_size=4)


def steps_of(problem, sizes, seed=0):
    solver = small_solver(problem, seed).double()
    return solver, [remembered_step(solver, size, seed + number) for number, size in enumerate(sizes)]


def gradients(solver, loss):
    gradients = torch.autograd.grad(loss, list(solver.parameters()), materialize_grads=True)
    return torch.cat([each.flatten() for each in gradients])


@pytest.mark.parametrize(("kind", "customers", "expected"), [("tsp", 16, 16), ("tsp", 17, 32), ("cvrp", 16, 32)])
def test_the_room_is_the_next_multiple_of_sixteen_for_all_nodes(kind, customers, expected):
    _, steps = steps_of(kind, [3, customers])
    assert room(steps) == expected


@given(problem=PROBLEMS, sizes=SIZES, seed=st.integers(0, 99))
@settings(max_examples=20)
def test_a_padded_batch_has_every_step_and_fillers_around_it(problem, sizes, seed):
    _, steps = steps_of(problem, sizes, seed)
    instances, (nodes, starts, policy, weights, *tensors) = padded(steps)
    state, rows = State(*tensors), 0
    for step in steps:
        batch, tours, count = step.policy.shape
        here = slice(rows, rows + batch)
        rows += batch
        assert nodes[here].tolist() == [count] * batch
        for ours, theirs in zip(instances[here].tensors(), step.instances.tensors(), strict=True):
            assert (ours[:, :count] if ours.ndim > 1 else ours).equal(theirs)
            assert ours.ndim == 1 or not ours[:, count:].any()
        of_tours = [(starts, step.starts), (weights, uncertainty(step.policy)), (state.current, step.state.current)]
        of_tours += [(state.served, step.state.served)]
        of_tours += [] if state.load is None else [(state.load, step.state.load)]
        for ours, theirs in of_tours:
            assert ours[here, :tours].equal(theirs)
            assert not ours[here, tours:].any()
        for ours, theirs in ((policy, step.policy), (state.visited, step.state.visited)):
            assert ours[here, :tours, :count].equal(theirs)
        assert state.blocked[here, :tours, :count].equal(step.state.blocked)
        assert state.blocked[here, :, count:].all()
        assert state.blocked[here, tours:, 1:].all()
        assert not state.blocked[here, tours:, 0].any()
        assert (policy[here, tours:] == -torch.inf).all()
        assert (policy[here, :, count:] == -torch.inf).all()
    assert rows == len(instances)


@given(problem=PROBLEMS, sizes=SIZES, seed=st.integers(0, 99))
@settings(max_examples=30)
def test_decisions_on_a_padded_batch_and_their_gradient_are_those_on_each_size_alone(problem, sizes, seed):
    solver, steps = steps_of(problem, sizes, seed)
    instances, (nodes, starts, _, _, *state) = padded(steps)
    encoding = solver.encode_padded(instances, nodes)
    together = solver.decide(instances, starts, State(*state), encoding=encoding).exp()
    alone = [solver.decide(step.instances, step.starts, step.state).exp() for step in steps]
    weights = torch.randn_like(together)
    expected, row = 0.0, 0
    for chances in alone:
        batch, tours, count = chances.shape
        torch.testing.assert_close(together[row : row + batch, :tours, :count], chances, rtol=1e-9, atol=1e-12)
        expected = expected + (chances * weights[row : row + batch, :tours, :count]).sum()
        row += batch
    ours, theirs = gradients(solver, (together * weights).sum()), gradients(solver, expected)
    assert (ours - theirs).norm() <= 1e-9 * theirs.norm() + 1e-12


def test_where_nodes_that_do_not_exist_are_makes_no_difference(problem):
    solver, steps = steps_of(problem, [4, 9])
    instances, (nodes, starts, _, _, *state) = padded(steps)
    moved = instances.coords.clone()
    moved[:2, steps[0].instances.nodes :] = 0.7
    other = replace(instances, coords=moved)
    results = []
    for each in (instances, other):
        chances = solver.decide(each, starts, State(*state), encoding=solver.encode_padded(each, nodes)).exp()
        results.append((chances.detach(), gradients(solver, chances.square().sum())))
    for one, two in zip(*results, strict=True):
        assert one.equal(two)
