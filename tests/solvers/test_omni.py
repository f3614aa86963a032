"""Omni is POMO with another norm: held to the same twin, and to what that norm says about batches."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import random_instances
from dree.problems import Instances
from dree.solvers import POMO, Omni, POMOSettings
from dree.solvers.layers import BatchNorm
from dree.solvers.pomo_twin import log_probability, rollout

PROBLEMS = st.sampled_from(["tsp", "cvrp"])


def small_omni(problem: str, seed: int = 0, kind: type[POMO] = Omni, **changes: int) -> POMO:
    torch.manual_seed(seed)
    chosen = {"width": 16, "heads": 2, "layers": 2, "feed_forward": 32, **changes}
    solver = kind(problem, POMOSettings(**chosen)).double()
    for layer in solver.layers:  # a norm that leaves its gain at one would hide mistakes
        for norm in (layer.norm1, layer.norm2):
            torch.nn.init.uniform_(norm.gain, 0.5, 1.5)
            torch.nn.init.uniform_(norm.bias, -0.5, 0.5)
    return solver


def double(problem: str, batch: int, customers: int, seed: int) -> Instances:
    instances = random_instances(problem, batch, customers, seed)
    return replace(instances, coords=instances.coords.double())


def nodes(solver: POMO, instances: Instances) -> torch.Tensor:
    encoded = solver.embedding(instances)
    for layer in solver.layers:
        encoded = layer(encoded)
    return encoded


def test_omni_has_pomos_weights_under_pomos_names(problem):
    shapes = [{name: value.shape for name, value in kind(problem).state_dict().items()} for kind in (Omni, POMO)]
    assert shapes[0] == shapes[1]


@given(
    problem=PROBLEMS,
    customers=st.integers(2, 10),
    batch=st.integers(1, 4),
    seed=st.integers(0, 999),
    chunk_bytes=st.sampled_from([1, 3_000, 10**9]),
)
@settings(max_examples=30)
def test_log_probabilities_and_gradients_are_the_twins(problem, customers, batch, seed, chunk_bytes):
    instances = double(problem, batch, customers, seed)
    solver = small_omni(problem, seed, chunk_bytes=chunk_bytes)
    tours, log_prob = rollout(solver, instances, generator=torch.Generator().manual_seed(seed))
    weights = torch.randn(log_prob.shape, generator=torch.Generator().manual_seed(1)).double()
    score = solver.score(instances, tours, weights)
    torch.testing.assert_close(score.per_tour, log_prob.detach(), rtol=0, atol=1e-9)
    torch.testing.assert_close(log_probability(solver, instances, tours.actions), log_prob, rtol=0, atol=1e-9)
    parameters = list(solver.parameters())
    found, reference = (
        torch.cat([each.flatten() for each in torch.autograd.grad(value, parameters, materialize_grads=True)])
        for value in (score.weighted, (weights * log_prob).sum())
    )
    torch.testing.assert_close(found, reference, rtol=0, atol=1e-10)


def test_greedy_tours_are_the_twins(problem):
    instances, solver = double(problem, 6, 9, seed=4), small_omni(problem)
    with torch.no_grad():
        reference, _ = rollout(solver, instances)
    assert solver.solve(instances).actions.equal(reference.actions)


def test_it_computes_the_same_in_evaluation_and_in_training(problem):
    instances, solver = double(problem, 3, 6, seed=1), small_omni(problem)
    assert nodes(solver.train(), instances).equal(nodes(solver.eval(), instances))


@given(problem=PROBLEMS, customers=st.integers(2, 9), batch=st.integers(1, 5), seed=st.integers(0, 999))
@settings(max_examples=20)
def test_encodings_depend_on_the_batch_only_as_the_norm_implies(problem, customers, batch, seed):
    instances, solver = double(problem, batch, customers, seed), small_omni(problem, seed)
    encoded = nodes(solver, instances)
    order = torch.randperm(batch, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(nodes(solver, instances[order]), encoded[order])
    twice = nodes(solver, Instances.cat([instances, instances]))
    torch.testing.assert_close(twice, torch.cat([encoded, encoded]))
    other = double(problem, 1, customers, seed + 1000)
    with_another = nodes(solver, Instances.cat([instances, other]))[:batch]
    assert (with_another - encoded).abs().max() > 1e-4


def test_a_batch_of_one_is_encoded_as_by_instance_norm(problem):
    solver, pomo = small_omni(problem), small_omni(problem, kind=POMO)
    pomo.load_state_dict(solver.state_dict())
    instances = double(problem, 3, 7, seed=2)
    torch.testing.assert_close(nodes(solver, instances[:1]), nodes(pomo, instances[:1]))
    assert (nodes(solver, instances) - nodes(pomo, instances)).abs().max() > 1e-3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_statistics_have_single_precision_at_least(dtype):
    norm, (nodes, change) = BatchNorm(4).to(dtype), torch.randn(2, 200, 50, 4) + 30
    normed = norm(nodes.to(dtype), change.to(dtype))
    assert normed.dtype == dtype
    exact = BatchNorm(4)(nodes.to(dtype).float(), change.to(dtype).float())
    torch.testing.assert_close(normed, exact.to(dtype))
