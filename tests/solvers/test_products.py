"""Linear maps by another library give what PyTorch's own give, and gradients of any order."""

from __future__ import annotations

import sys

import pytest
import torch
from torch.nn import functional

from dree.randomness import named_generator
from dree.solvers import make_solver, products
from dree.solvers.products import FEW, LINEAR, Linear, linear
from dree.tasks import principal

needs_operator = pytest.mark.skipif(LINEAR is None, reason="this PyTorch has no such operator")


@pytest.fixture
def wide(monkeypatch):
    """As on a processor where oneDNN is faster; how often it was called."""
    calls, product = [], products._product

    def counted(*given):
        calls.append(given)
        return product(*given)

    monkeypatch.setattr(products, "_wide", lambda: True)
    monkeypatch.setattr(products, "_product", counted)
    return calls


def tensors(*shape, biased=True, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x, weight, bias = (torch.randn(*size, generator=generator, dtype=dtype) for size in (shape, (24, shape[-1]), (24,)))
    return [each.requires_grad_() for each in ((x, weight, bias) if biased else (x, weight))]


@needs_operator
@pytest.mark.parametrize("shape", [(FEW, 16), (7, 9, 16), (2, 3, 40, 128)])
@pytest.mark.parametrize("biased", [True, False])
def test_values_and_gradients_are_those_of_pytorch(wide, shape, biased):
    given = tensors(*shape, biased=biased)
    ours, theirs = linear(*given), functional.linear(*given)
    assert wide
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    upstream = torch.randn_like(ours)
    for our, their in zip(
        torch.autograd.grad(ours, given, upstream), torch.autograd.grad(theirs, given, upstream), strict=True
    ):
        torch.testing.assert_close(our, their, rtol=1e-5, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(linear(*given), theirs, rtol=1e-5, atol=1e-5)


@needs_operator
def test_gradients_of_gradients_are_those_of_pytorch(wide):
    """Meta-learning needs them."""
    given = tensors(40, 16)

    def curvature(function):
        slopes = torch.autograd.grad(function(*given).tanh().square().sum(), given, create_graph=True)
        return torch.autograd.grad(sum(each.square().sum() for each in slopes), given)

    for our, their in zip(curvature(linear), curvature(functional.linear), strict=True):
        torch.testing.assert_close(our, their, rtol=1e-4, atol=1e-2)
    assert len(wide) > 1


@needs_operator
def test_only_the_gradients_that_are_wanted_are_computed(wide):
    x, weight, bias = tensors(40, 16)
    product = linear(x.detach(), weight, bias.detach())
    product.sum().backward()
    assert x.grad is None
    assert bias.grad is None
    torch.testing.assert_close(weight.grad, x.detach().sum(0).expand(24, 16), rtol=1e-5, atol=1e-4)
    assert len(wide) == 1


@needs_operator
def test_tensors_need_not_be_contiguous(wide):
    x, weight, _ = tensors(16, 40)
    x, weight = x.t(), torch.randn(16, 24).t()
    torch.testing.assert_close(linear(x, weight), functional.linear(x, weight), rtol=1e-5, atol=1e-5)
    assert wide


@pytest.mark.parametrize(
    ("shape", "dtype", "autocast"),
    [((FEW - 1, 16), torch.float32, False), ((99, 16), torch.float64, False), ((99, 16), torch.float32, True)],
)
def test_few_rows_other_precisions_and_autocast_are_left_to_pytorch(wide, shape, dtype, autocast):
    given = tensors(*shape, dtype=dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        assert torch.equal(linear(*given), functional.linear(*given))
    assert not wide


def test_the_module_has_the_weights_and_the_map_of_pytorchs():
    torch.manual_seed(1)
    ours = Linear(16, 24)
    torch.manual_seed(1)
    theirs = torch.nn.Linear(16, 24)
    x = torch.randn(50, 16)
    assert {name: each.shape for name, each in ours.named_parameters()} == {"weight": (24, 16), "bias": (24,)}
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)


@needs_operator
@pytest.mark.parametrize("name", ["pomo", "omni", "invit"])
def test_every_solver_multiplies_by_it(wide, name):
    instances = principal("U", "cvrp", 10).sample(8, named_generator(0, "test"))
    make_solver("cvrp", name).solve(instances)
    assert wide


def test_without_the_compiler_that_names_the_processor_pytorch_does_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    assert products._wide.__wrapped__() is False


@needs_operator
@pytest.mark.parametrize(("processor", "expected"), [(products.HALF_USED, True), ("znver4", False), ("skylake", False)])
def test_the_processor_decides(monkeypatch, processor, expected):
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_name", lambda: processor)
    assert products._wide.__wrapped__() is expected
