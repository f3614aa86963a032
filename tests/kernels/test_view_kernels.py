"""The kernels of INViT's views, run by Triton's interpreter, against the library's functions and the twin."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import settings as example_settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

pytest.importorskip("triton")

from conftest import random_instances, small_invit
from dree import kernels
from dree.kernels import layer_norm
from dree.kernels.attention import attend
from dree.kernels.layer_norm import residual_norm
from dree.solvers.invit_twin import rollout
from dree.solvers.precision import in_precision

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="`dree bench --check` does this on the device")


def assert_same(ours, theirs, inputs, **tolerance):
    """Two results and their gradients."""
    torch.testing.assert_close(ours, theirs, **tolerance)
    upstream = torch.randn_like(ours)
    fast, slow = (torch.autograd.grad(each, inputs, upstream) for each in (ours, theirs))
    torch.testing.assert_close(fast, slow, **tolerance)


@given(tokens=st.integers(2, 36), asking=st.integers(1, 36), seed=st.integers(0, 99))
@example_settings(max_examples=15)
def test_some_tokens_attend_to_those_that_are_not_empty(tokens, asking, seed):
    torch.manual_seed(seed)
    query, joint = torch.randn(3, asking, 32), torch.randn(3, tokens, 64)
    empty = torch.rand(3, tokens) < 0.4
    empty[:, 0] = False
    query, joint = query.requires_grad_(), joint.requires_grad_()
    parts = (part.unflatten(2, (2, 16)).transpose(1, 2) for part in (query, *joint.chunk(2, dim=2)))
    library = functional.scaled_dot_product_attention(*parts, attn_mask=~empty[:, None, None], scale=0.3)
    ours = attend(joint, 2, query_BMD=query, empty_BN=empty, scale=0.3)
    assert_same(ours, library.transpose(1, 2).flatten(2), [query, joint], rtol=1e-4, atol=1e-5)


def test_all_tokens_attend_to_those_that_are_not_empty():
    joint, empty = torch.randn(2, 21, 96).requires_grad_(), torch.rand(2, 21) < 0.5
    empty[:, 3] = False
    parts = (part.unflatten(2, (2, 16)).transpose(1, 2) for part in joint.chunk(3, dim=2))
    library = functional.scaled_dot_product_attention(*parts, attn_mask=~empty[:, None, None])
    assert_same(attend(joint, 2, empty_BN=empty), library.transpose(1, 2).flatten(2), [joint], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("twice", [True, False])
@pytest.mark.parametrize("programs", [1, 3, 100])
@pytest.mark.parametrize("width", [16, 40])
def test_residual_and_layer_norm_are_the_librarys(twice, programs, width, monkeypatch):
    """Whatever the number of programs that add up the gradients; also for the first tokens of a longer tensor."""
    monkeypatch.setattr(layer_norm, "PROGRAMS", programs)
    whole, y = torch.randn(7, 12, width).requires_grad_(), torch.randn(7, 9, width).requires_grad_()
    first, second = nn.LayerNorm(width, eps=1e-2), nn.LayerNorm(width)
    for parameter in (*first.parameters(), *second.parameters()):
        nn.init.normal_(parameter)
    x = whole[:, :9]
    once = first(x + y)
    inputs = [whole, y, *first.parameters(), *(second.parameters() if twice else ())]
    ours = residual_norm(x, y, first, second if twice else None)
    assert_same(ours, second(x + once) if twice else once, inputs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize("customers", [2, 7])
def test_tours_are_scored_like_the_twins(problem, customers, low):
    """All kernels of the views; in half the bits, nearly."""
    seed = customers
    instances, solver = random_instances(problem, 2, customers, seed), small_invit(problem, seed, width=32, heads=2)
    tours, log_prob = rollout(solver, instances, generator=torch.Generator().manual_seed(seed))
    weights, parameters = torch.randn(tours.costs.shape), list(solver.parameters())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "serve", lambda *_: True)
        with in_precision("fp16" if low else "fp32", instances.device, learning=False):
            encoding = solver.encode(instances)
        score = solver.score(instances, tours, weights, encoding=encoding)
        fast = torch.autograd.grad(score.weighted, parameters, materialize_grads=True)
    error = 0.01 if low else 1e-4
    torch.testing.assert_close(score.per_tour, log_prob.detach(), rtol=error, atol=error)
    slow = torch.autograd.grad((log_prob * weights).sum(), parameters, materialize_grads=True)
    fast, slow = (torch.cat([each.flatten() for each in of]) for of in (fast, slow))
    assert (fast - slow).norm() <= 5 * error * slow.norm() + 1e-5


def test_far_from_everything_nothing_is_infinite():
    """Standardising what does not differ, and attending with scores that are large."""
    same, zero = torch.full((1, 2, 16), 3.0), torch.zeros(1, 2, 16)
    assert residual_norm(same, zero, nn.LayerNorm(16), nn.LayerNorm(16)).isfinite().all()
    joint = torch.full((1, 5, 48), 1e4)
    assert math.isclose(float(attend(joint, 1).mean()), 1e4, rel_tol=1e-5)
