"""Sampled tours by the kernels in CUDA C++ on the emulator, against double precision along the same tours."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

pytest.importorskip("triton")

from emulated import needs_compiler
from warp_model import (
    Model,
    alive_on,
    assert_near,
    case,
    cases,
    large,
    low,
    nodes_like,
    refereed,
    rollout,
    run_on_the_cpu,
    unrecorded,
)

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch):
    run_on_the_cpu(monkeypatch)


@cases
def test_sampled_tours_are_legal_and_their_lengths_are_right(chosen):
    """Whatever the numbers of nodes and tours; those of a CVRP do not end together."""
    made = case(*chosen)
    refereed(made.instances, made.tape)
    if chosen[0] == "cvrp" and chosen[1] >= 15:
        assert len(made.tape.lengths.unique()) > 1
        assert (made.tape.lengths < made.tape.actions.shape[-1]).all()


@cases
def test_what_a_rollout_records_is_that_of_a_model_which_rounds_where_the_kernel_does(chosen):
    """But for a bit here and there, where sums in another order are rounded to the other side."""
    made = case(*chosen)
    tape, model, alive = made.tape, made.model, made.alive
    read = model.read.flatten(3)[alive]
    assert (tape.attended[alive] - read).norm() < 5e-4 * read.norm()
    torch.testing.assert_close(tape.logsum[alive].double(), model.logsum[alive], rtol=0, atol=0.015)
    if chosen[0] == "cvrp":
        torch.testing.assert_close(tape.loads[alive].double(), model.share[alive], rtol=2e-7, atol=0)
    log_prob = (model.chosen.detach() * alive).sum(-1)
    torch.testing.assert_close(tape.log_prob.double(), log_prob, rtol=2e-4, atol=0.03)
    given = low(model.given[alive])
    assert (tape.gradient[..., : made.instances.nodes][alive] - given).norm() < 4e-3 * given.norm() + 1e-5


@cases
def test_the_tape_has_minus_zero_where_a_node_is_blocked_and_no_zero_elsewhere(chosen):
    made = case(*chosen)
    given = made.tape.gradient[made.alive]
    blocked = torch.ones(given.shape, dtype=torch.bool)
    blocked[:, : made.instances.nodes] = ~made.model.allowed[made.alive]
    assert torch.equal(given == 0, blocked)
    assert given[blocked].signbit().all()


@pytest.mark.parametrize("shift", [0.0, -5.0])
def test_exponentials_beyond_the_range_of_floats_are_taken_again(problem, shift):
    """Attention scores of hundreds, or of hundreds below zero, all of them."""
    size = 1.0 if shift else 5.0
    instances, tensors = nodes_like(problem, 20, query=size, key=size)
    tensors[0][:, :, 0] += shift
    tensors[0][:, :, 1] -= shift
    tape = rollout(instances, tensors)
    refereed(instances, tape)
    model, alive = Model(instances, tensors, tape.actions), alive_on(tape)
    assert model.extreme[alive].double().mean() > 0.1
    torch.testing.assert_close(tape.logsum[alive].double(), model.logsum[alive], rtol=1e-5, atol=0.01)
    log_prob = (model.chosen.detach() * alive).sum(-1)
    torch.testing.assert_close(tape.log_prob.double(), log_prob, rtol=0.01, atol=0.05)
    weights = torch.randn(log_prob.shape)
    assert_near(tape.score(weights)[1], model.gradient(tape, weights), 0.01)


@pytest.mark.parametrize("clip", [10.0, 20.0])
def test_scores_beyond_the_clip_have_a_tiny_gradient_that_is_not_zero(clip):
    instances, tensors = nodes_like("tsp", 16, offset=100)
    tape = rollout(instances, tensors, clip=clip)
    refereed(instances, tape)
    model = Model(instances, tensors, tape.actions, clip)
    torch.testing.assert_close(tape.log_prob.double(), model.chosen.detach().sum(-1), rtol=1e-4, atol=1e-4)
    assert torch.equal(tape.gradient == 0, ~model.allowed)
    assert (model.allowed & (model.given.abs() < 1e-30)).any()
    assert (tape.gradient - model.given).norm() < 3e-3 * model.given.norm() + 1e-6


@pytest.mark.parametrize("wrong", ["nodes", "offset"])
def test_weights_that_are_no_numbers_make_no_sound_tours(problem, wrong):
    instances, tensors = nodes_like(problem, 6)
    tensors[0 if wrong == "nodes" else 2][1] = torch.nan
    tape = rollout(instances, tensors)
    refereed(instances[:1], replace(tape, actions=tape.actions[:1], lengths=tape.lengths[:1]))
    assert not tape.lengths[1].any()
    assert not tape.log_prob[1].isfinite().any()
    assert all(each[0].isfinite().all() for each in tape.score(torch.ones_like(tape.log_prob))[1])


def test_a_demand_over_the_capacity_makes_no_sound_tours():
    """Of that instance, which have no gradient."""
    instances, tensors = nodes_like("cvrp", 6)
    instances.demands[1, 5] = 21
    tape = rollout(instances, tensors, torch.arange(1, 5).expand(2, -1))
    assert (tape.lengths[0] > 0).all()
    assert not tape.lengths[1].any()
    assert not tape.log_prob[1].isfinite().any()
    _, gradients = tape.score(torch.ones_like(tape.log_prob))
    assert all(each.isfinite().all() and each[0].any() and not each[1].any() for each in gradients)


def again_and_again(count, problem, nodes):
    """One instance, with a policy that is rather undecided, and what a decoder knows of it, so many times."""
    instances, tensors = nodes_like(problem, nodes, 1, seed=2, pointer=0.02, offset=0.05)
    rows = torch.zeros(count, dtype=torch.int64)
    return instances[rows], [each[rows] for each in tensors]


def assert_plausible(seen, chances):
    """A chi-square below what it exceeds with a probability of a millionth (Laurent and Massart, 2000)."""
    expected = seen.sum() * chances.double()
    assert not seen[chances == 0].any()
    common = expected > 5
    kinds = common.sum()
    assert kinds > 6
    assert ((seen - expected).square() / expected)[common].sum() < kinds + 2 * (14 * kinds) ** 0.5 + 28


def test_tours_are_sampled_with_their_probabilities(problem):
    """Whole ones, many of one instance."""
    instances, tensors = again_and_again(256, problem, 5)
    tours = rollout(instances, tensors, torch.ones(256, 16, dtype=torch.int64)).actions.flatten(0, 1)
    kinds, seen = tours.unique(dim=0, return_counts=True)
    chances = Model(instances[:1], [each[:1] for each in tensors], kinds[None]).chosen.detach()[0].sum(-1).exp()
    assert abs(chances.sum() - 1) < 0.01
    assert_plausible(seen, chances)


def test_instances_and_tours_draw_their_own_numbers():
    """The first decisions of 48 tours of 128 times the same instance: their frequencies, and how often two agree."""
    instances, tensors = again_and_again(128, "cvrp", 40)
    actions = rollout(instances, tensors, torch.full((128, 48), 7), longest=2).actions[..., 1]
    model = Model(instances[:1], [each[:1] for each in tensors], torch.tensor([[[7, *range(7), *range(8, 40)]]]))
    chances = (10 * model.score.tanh()).masked_fill(~model.allowed, -torch.inf).softmax(-1)[0, 0, 0].detach()
    assert_plausible(actions.flatten().bincount(minlength=40), chances)
    agree = chances.square().sum()
    for dimension, distance in [(0, 1), (0, 5), (1, 1), (1, 4), (1, 8), (1, 16), (1, 32)]:
        share = (actions == actions.roll(distance, dimension)).double().mean()
        assert abs(share - agree) < 6 * (agree / actions.numel()) ** 0.5, (dimension, distance)


def test_a_seed_decides_all(problem):
    instances, tensors = nodes_like(problem, 20)
    first, again, other = (rollout(instances, tensors, seed=seed) for seed in (1, 1, 2))
    alone = rollout(instances[:1], [each[:1] for each in tensors], seed=1)
    alive = alive_on(first)
    for name, each in vars(first).items():
        if name in ("gradient", "attended", "logsum"):
            assert torch.equal(each[alive], getattr(again, name)[alive])
            assert torch.equal(each[:1][alive[:1]], getattr(alone, name)[alive[:1]])
        elif name in ("actions", "log_prob", "lengths"):
            assert torch.equal(each, getattr(again, name))
            assert torch.equal(each[:1], getattr(alone, name))
    assert not (first.actions == other.actions).all(-1).any()


@large
def test_sampled_tours_are_the_same_without_a_record(chosen):
    made = case(*chosen)
    generator = torch.Generator().manual_seed(0)
    others = unrecorded(made.instances, made.tensors, made.tape.actions[..., 0], generator)
    assert torch.equal(others.actions, made.tape.actions)
    assert torch.equal(others.lengths, made.tape.lengths)
