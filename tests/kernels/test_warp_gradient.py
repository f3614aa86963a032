"""The gradient of sampled tours by the kernels in CUDA C++, against double precision along the same tours."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

pytest.importorskip("triton")

from emulated import needs_compiler
from warp_model import assert_near, assert_same, case, cases, exact_log_prob, large, named, run_on_the_cpu

from dree.solvers.warp_rollout import WarpTape

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch):
    run_on_the_cpu(monkeypatch)


@cases
def test_gradients_are_those_of_a_model_which_rounds_where_the_kernels_do(chosen):
    made = case(*chosen)
    weights = torch.randn(made.tape.log_prob.shape)
    log_prob, ours = made.tape.score(weights)
    assert torch.equal(log_prob, made.tape.log_prob)
    theirs = made.model.gradient(made.tape, weights)
    assert_near(ours, theirs, 2e-3)
    torch.testing.assert_close(ours[2].double(), theirs[2], rtol=1e-4, atol=3e-4)


@cases
def test_log_probabilities_and_gradients_are_nearly_those_of_the_decoder_in_double_precision(chosen):
    made = case(*chosen)
    exact = tuple(each.double().requires_grad_() for each in made.tensors)
    log_prob = exact_log_prob(made.instances, exact, made.tape.actions)
    assert (made.tape.log_prob - log_prob).abs().max() < 0.09 * made.tape.lengths.max() ** 0.5
    weights = torch.randn(log_prob.shape)
    _, ours = made.tape.score(weights)
    theirs = torch.autograd.grad((log_prob * weights).sum(), exact, materialize_grads=True)
    whole = max(part.norm() for part in named(theirs).values())
    assert_near(ours, theirs, 0.08, 1e-3 * whole + 1e-4)


@large
def test_a_gradient_is_linear_in_the_weights(chosen):
    """To the last bit for a power of two and for nothing, and nearly for a sum."""
    tape = case(*chosen).tape
    first, second = torch.randn(2, *tape.log_prob.shape)
    ours, others, both = (tape.score(weights)[1] for weights in (first, second, first + second))
    assert_same(tape.score(-4 * first)[1], [-4 * each for each in ours])
    assert not any(each.any() for each in tape.score(torch.zeros_like(first))[1])
    assert_near([one.double() + other for one, other in zip(ours, others, strict=True)], both, 0.01)


@large
def test_a_gradient_depends_on_neither_other_instances_nor_tours_of_no_weight_nor_their_order(chosen):
    tape = case(*chosen).tape
    weights, few = torch.randn(tape.log_prob.shape), torch.randperm(tape.log_prob.shape[1])[:19]

    def only(rows, tours):
        kept = {name: each[rows][:, tours] for name, each in vars(tape).items() if name not in ("tensors", "loads")}
        loads = tape.loads if tape.loads.ndim == 1 else tape.loads[rows][:, tours]
        return WarpTape(tensors=tuple(each[rows] for each in tape.tensors), loads=loads, **kept)

    whole = tape.score(weights)[1]
    for row in (slice(1), slice(1, 2)):
        assert_same(only(row, slice(None)).score(weights[row])[1], [each[row] for each in whole])
    weightless = torch.zeros_like(weights)
    weightless[:, few] = weights[:, few]
    assert_near(only(slice(None), few).score(weights[:, few])[1], tape.score(weightless)[1], 3e-3)


def test_what_lies_behind_a_tours_end_does_not_count():
    made = case("cvrp", 33)
    weights = torch.randn(made.tape.log_prob.shape)
    assert made.tape.gradient[~made.alive].isnan().all()  # none of it was written
    results = []
    for garbage in (torch.nan, torch.inf, 0.0):
        spoilt = {name: getattr(made.tape, name).clone() for name in ("gradient", "attended", "logsum", "loads")}
        for each in spoilt.values():
            each[~made.alive] = garbage
        results.append(replace(made.tape, **spoilt).score(weights)[1])
    assert all(each.isfinite().all() for each in results[0])
    assert_same(results[0], results[2])
    assert_same(results[1], results[2])
