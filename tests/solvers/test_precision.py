"""Which precision is chosen, and what it does to an encoding."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from conftest import random_instances, small_solver
from dree import kernels
from dree.solvers.precision import TEST_PRECISIONS, in_precision, lowered, precision_on

CPU = torch.device("cpu")


@pytest.mark.parametrize(("served", "learning", "chosen"), [
    (False, True, "fp32"), (False, False, "fp32"), (True, True, "bf16"), (True, False, "fp16")
])  # fmt: skip
def test_what_suits_a_device_depends_on_its_kernels_and_the_purpose(monkeypatch, served, learning, chosen):
    monkeypatch.setattr(kernels, "serve", lambda *_: served)
    assert precision_on(CPU, "auto", learning=learning) == chosen
    assert precision_on(CPU, "fp32", learning=learning) == "fp32"


@pytest.mark.parametrize("precision", TEST_PRECISIONS)
def test_fewer_bits_change_a_policy_a_little(problem, precision):
    instances, solver = random_instances(problem, 3, 6, seed=0), small_solver(problem)
    tours = solver.solve(instances).best()
    with torch.no_grad(), in_precision(precision, CPU, learning=False):
        policy = solver.behave(instances, tours, encoding=solver.encode(instances)).exp()
    difference = (policy - solver.behave(instances, tours).exp()).abs().max()
    least, most = {"auto": (0, 0), "fp32": (0, 0), "fp16": (1e-8, 2e-3), "bf16": (1e-6, 2e-2)}[precision]
    assert least <= difference <= most


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_weights_that_are_lowered_together_are_those_lowered_one_by_one_and_so_are_their_gradients(low):
    weights = [torch.randn(shape, requires_grad=True) for shape in ((3, 5), (4,), (2, 2, 2), (7,))]
    factors = [torch.randn(weight.shape).to(low) for weight in weights]
    together = lowered(weights, low)
    one_by_one = [weight.to(low) for weight in weights]
    gradients = []
    for each in (together, one_by_one):
        loss = sum((weight * factor).sum().float() for weight, factor in zip(each[:3], factors, strict=False))
        gradients.append(torch.autograd.grad(loss, weights, allow_unused=True))
    assert all(ours.equal(theirs) for ours, theirs in zip(together, one_by_one, strict=True))
    assert all(ours.equal(theirs) for ours, theirs in zip(gradients[0][:3], gradients[1][:3], strict=True))
    assert gradients[0][3] is None


def test_an_encoding_in_half_the_bits_is_what_autocast_makes_of_it(problem, monkeypatch):
    instances, solver = random_instances(problem, 3, 6, seed=0), small_solver(problem)
    tours = solver.solve(instances)

    def learned():
        with in_precision("bf16", CPU, learning=True):
            encoding = solver.encode(instances)
        score = solver.score(instances, tours, tours.costs - 1, encoding=encoding)
        return score.per_tour, torch.autograd.grad(score.weighted, list(solver.parameters()), materialize_grads=True)

    per_tour, gradients = learned()
    monkeypatch.setattr(type(solver), "_layer_weights", lambda self, low: [{} for _ in self.layers])
    by_autocast, expected = learned()
    assert per_tour.equal(by_autocast)
    assert all(ours.equal(theirs) for ours, theirs in zip(gradients, expected, strict=True))


def test_double_precision_stays_what_it_is(problem):
    instances, solver = random_instances(problem, 3, 6, seed=0), small_solver(problem).double()
    exact = replace(instances, coords=instances.coords.double())
    with torch.no_grad(), in_precision("bf16", CPU, learning=True):
        encoding = solver.encode(exact)
    with torch.no_grad():
        torch.testing.assert_close(encoding.tensors, solver.encode(exact).tensors)
