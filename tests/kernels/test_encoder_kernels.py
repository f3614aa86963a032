"""The encoder's kernels and that of costs, run by Triton's interpreter, against PyTorch's operations."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import settings as example_settings
from hypothesis import strategies as st
from torch.nn import functional

pytest.importorskip("triton")

from conftest import random_instances
from dree import kernels
from dree.kernels import branch as branch_kernel
from dree.kernels import cost as cost_kernel
from dree.kernels.branch import branch
from dree.kernels.norm import residual_norm
from dree.problems import Instances, rules
from dree.solvers.layers import BatchNorm, EncoderLayer, NodeNorm
from replayed_operations import Operations

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="`dree bench --check` does this on the device")


@pytest.fixture(autouse=True)
def _kernels(monkeypatch):
    monkeypatch.setattr(kernels, "serve", lambda *_: True)


@given(
    problem=st.sampled_from(["tsp", "cvrp"]),
    batch=st.integers(1, 3),
    tours=st.integers(1, 9),
    steps=st.integers(1, 20),
    block=st.sampled_from([(16, 64), (4, 4), (2, 8), (1, 16)]),
    seed=st.integers(0, 99),
)
@example_settings(max_examples=40)
def test_costs_are_lengths_of_closed_walks(problem, batch, tours, steps, block, seed):
    """Whatever the number of tours and steps in a block; any walks, with returns to the depot and without."""
    instances = random_instances(problem, batch, 5, seed)
    generator = torch.Generator().manual_seed(seed)
    actions = torch.randint(instances.nodes, (batch, tours, steps), generator=generator)
    law = rules(problem)
    exact = law.cost(Instances(instances.coords.double(), *instances.tensors()[1:]), actions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost_kernel, "TOURS", block[0])
        patch.setattr(cost_kernel, "STEPS", block[1])
        ours = law.cost(instances, actions)
        turned = law.cost(instances, actions.transpose(1, 2).contiguous().transpose(1, 2))
    assert exact.dtype == torch.float64
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours.double(), exact, rtol=1e-6, atol=1e-7)
    assert torch.equal(turned, ours)


@pytest.mark.parametrize("steps", [63, 64, 65, 130, 401])
def test_costs_of_long_tours_are_exact_to_six_digits(problem, steps):
    instances = random_instances(problem, 2, 101, seed=steps)
    actions = torch.randint(instances.nodes, (2, 18, steps))
    law = rules(problem)
    exact = law.cost(Instances(instances.coords.double(), *instances.tensors()[1:]), actions)
    torch.testing.assert_close(law.cost(instances, actions).double(), exact, rtol=5e-7, atol=0)


def test_costs_have_gradient_where_places_do(problem):
    instances = random_instances(problem, 2, 5, seed=0)
    places = instances.coords.requires_grad_()
    rules(problem).cost(instances, torch.tensor([[[1, 2, 3]], [[3, 0, 4]]])).sum().backward()
    assert places.grad.any()


@pytest.mark.parametrize(("batch", "nodes", "width"), [(3, 21, 40), (1, 1, 8), (5, 16, 64), (2, 33, 70)])
def test_a_norm_has_the_same_gradient_each_time(batch, nodes, width):
    """Also once more, of a graph that was retained: then the sums of the first time are no longer zero."""
    inputs = [torch.randn(*shape) for shape in [(batch, nodes, width)] * 2 + [(width,)] * 2]
    x, y, gain, bias = (each.requires_grad_() for each in inputs)
    ours, total = residual_norm(x, y, gain, bias), x + y
    centred = total - total.mean(1, keepdim=True)
    theirs = centred * (centred.square().mean(1, keepdim=True) + 1e-5).rsqrt() * gain + bias
    torch.testing.assert_close(ours, theirs)
    upstream = torch.randn_like(ours)
    expected = torch.autograd.grad(theirs, [x, y, gain, bias], upstream)
    for _ in range(3):
        found = torch.autograd.grad(ours, [x, y, gain, bias], upstream, retain_graph=True)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    (slope,) = torch.autograd.grad(ours, gain, upstream.requires_grad_(), create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


@given(
    batch=st.integers(1, 3),
    nodes=st.integers(1, 22),
    width=st.sampled_from([8, 12]),
    mapped=st.sampled_from([5, 16, 37]),
    block=st.sampled_from([(64, 128), (8, 16), (2, 4)]),
    positive=st.booleans(),
    seed=st.integers(0, 99),
)
@example_settings(max_examples=40)
def test_a_branch_is_a_linear_map_beside_a_residual(batch, nodes, width, mapped, block, positive, seed):
    """With the gradient of both, whatever the rows and columns in a block."""
    torch.manual_seed(seed)
    x, weight, bias = torch.randn(batch, nodes, width), torch.randn(mapped, width), torch.randn(mapped)
    inputs = [each.requires_grad_() for each in ((x, weight, bias) if positive else (x, weight))]
    ours, same = branch(*inputs)
    theirs = functional.linear(*inputs).relu() if positive else functional.linear(*inputs)
    torch.testing.assert_close((ours, same), (theirs, x))
    upstream = [torch.randn_like(theirs), torch.randn_like(x)]
    expected = torch.autograd.grad([theirs, x * 1], inputs, upstream)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(branch_kernel, "ROWS", block[0])
        patch.setattr(branch_kernel, "COLUMNS", block[1])
        for _ in range(2):
            given = [each.clone() for each in upstream]
            found = torch.autograd.grad([ours, same], inputs, given, retain_graph=True)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_in_half_the_bits_the_gradient_of_a_bias_is_added_up_in_single_precision(low):
    """Ones by the thousand: in half the bits adding them would end at 256, or at 2048."""
    x, weight, bias = torch.ones(3, 1001, 4), torch.zeros(8, 4), torch.ones(8)
    bias[1::2] = -1
    inputs = [each.to(low).requires_grad_() for each in (x, weight, bias)]
    mapped, _ = branch(*inputs)
    (to_bias,) = torch.autograd.grad(mapped, inputs[2:], torch.ones_like(mapped))
    assert to_bias.dtype == mapped.dtype == low
    torch.testing.assert_close(to_bias.float(), torch.tensor([3003.0, 0.0] * 4), rtol=4e-3, atol=0)


def layer_of(norm):
    layer = EncoderLayer(32, 2, 40, norm)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return layer


def passed(layers, nodes, weights, sizes):
    """What layers make of nodes, and the gradient of a weighted sum."""
    given = nodes.clone().requires_grad_()
    result = given * 1
    for layer in layers:
        result = layer(result, sizes)
    gradients = torch.autograd.grad((result * weights).sum(), [given, *layers.parameters()], materialize_grads=True)
    return result * (weights != 0), gradients


@pytest.mark.parametrize("nodes", [5, 21])
@pytest.mark.parametrize(("norm", "padded"), [(NodeNorm, False), (NodeNorm, True), (BatchNorm, False)])
def test_layers_by_kernels_are_those_without(norm, nodes, padded, monkeypatch):
    """In places: every gradient is written over where it was, and none of them too early."""
    layers = torch.nn.ModuleList(layer_of(norm) for _ in range(2))
    x, weights = torch.randn(3, nodes, 32), torch.randn(3, nodes, 32)
    sizes = torch.tensor([nodes, 3, 4], dtype=torch.int32) if padded else None
    if sizes is not None:
        weights = weights.masked_fill(torch.arange(nodes)[:, None] >= sizes[:, None, None], 0)
    ours, fast = passed(layers, x, weights, sizes)
    monkeypatch.setattr(kernels, "serve", lambda *_: False)
    theirs, slow = passed(layers, x, weights, sizes)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(fast, slow, rtol=1e-3, atol=1e-3)


def test_around_its_kernels_a_layer_only_multiplies_matrices():
    """No sum, no addition, nothing by element: each would be another launch."""
    layer, x, upstream = layer_of(NodeNorm), torch.randn(2, 6, 32).requires_grad_(), torch.randn(2, 6, 32)
    with Operations() as operations:
        torch.autograd.grad(layer(x), [x, *layer.parameters()], upstream, allow_unused=True)
    views = {"view", "t", "transpose", "detach", "_unsafe_view", "select", "unbind", "alias"}
    made = {"empty", "empty_like", "new_empty", "zeros"}
    by_interpreter = {"copy_", "_to_copy", "set_"}
    products = {"mm", "addmm", "addmm_", "_addmm_activation"}
    assert products <= operations.names
    assert operations.names <= products | views | made | by_interpreter


def test_under_autocast_products_of_other_weights_are_left_to_it():
    layer, x = layer_of(NodeNorm), torch.randn(2, 6, 32)
    with torch.autocast("cpu", torch.bfloat16), Operations() as operations:
        assert layer(x).dtype == torch.float32
    assert "_addmm_activation" not in operations.names
