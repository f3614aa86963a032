"""The hand-written gradients of the encoder against finite differences, and its norm against the library's."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck
from torch.func import functional_call
from torch.nn import functional

from dree.solvers.layers import BatchNorm, NodeNorm, self_attention


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("kind", [NodeNorm, BatchNorm])
def test_the_gradient_of_a_norm_is_right(kind):
    def normed(nodes, change, gain, bias):
        return functional_call(kind(3), {"gain": gain, "bias": bias}, (nodes, change))

    inputs = (draw(2, 5, 3), draw(2, 5, 3).flip(1), draw(3), draw(3) + 1)
    assert gradcheck(normed, [each.requires_grad_() for each in inputs])


def test_the_gradient_of_self_attention_is_right():
    assert gradcheck(lambda x: self_attention(x, 2), draw(2, 4, 12).requires_grad_())


def draw_padded() -> torch.Tensor:
    """Two instances, of three and of five nodes; what is not real is far off."""
    padded = draw(2, 5, 12)
    padded[0, 3:] = 1e3
    return padded


SIZES = torch.tensor([3, 5], dtype=torch.int32)


@pytest.mark.parametrize(
    "layer", [lambda x, sizes=None: self_attention(x, 2, sizes), lambda x, sizes=None: NodeNorm(12)(x, x / 3, sizes)]
)
def test_of_padded_instances_only_nodes_that_are_real_count_and_have_gradient(layer):
    nodes = draw_padded().requires_grad_()
    results = layer(nodes, SIZES)
    assert results.isfinite().all()
    for row, size in enumerate(SIZES.tolist()):
        ours = results[row, :size]
        theirs = layer(nodes[[row], :size])[0]
        torch.testing.assert_close(ours, theirs)
        upstream = draw(size, ours.shape[-1])
        torch.testing.assert_close(
            *(torch.autograd.grad(each, nodes, upstream, retain_graph=True) for each in (ours, theirs))
        )


def test_batch_norm_refuses_padded_instances():
    with pytest.raises(AssertionError, match="nodes that do not exist"):
        BatchNorm(12).double()(draw_padded(), draw_padded(), SIZES)


def test_node_norm_is_the_librarys_instance_norm_over_nodes():
    nodes, change = draw(2, 3, 6, 4)
    norm = NodeNorm(4).double()
    norm.gain.data, norm.bias.data = draw(4), draw(4) + 1
    library = functional.instance_norm((nodes + change).transpose(1, 2), weight=norm.gain, bias=norm.bias).transpose(
        1, 2
    )
    torch.testing.assert_close(norm(nodes, change), library)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_is_the_librarys_without_running_statistics_over_all_nodes_of_the_batch(training):
    norm = BatchNorm(4).double().train(training)
    norm.gain.data, norm.bias.data = draw(4), draw(4) + 1
    library = torch.nn.BatchNorm1d(4, track_running_stats=False).double().train(training)
    library.load_state_dict({"weight": norm.gain.data, "bias": norm.bias.data})
    weights, results = draw(3, 6, 4), []
    for module in (norm, library):
        nodes, change = (each.clone().requires_grad_() for each in draw(2, 3, 6, 4))
        if module is norm:
            normed = norm(nodes, change)
        else:
            normed = library((nodes + change).view(18, 4)).view(3, 6, 4)
        gradients = torch.autograd.grad((normed * weights).sum(), [nodes, change, *module.parameters()])
        results.append((normed, *gradients))
    torch.testing.assert_close(results[0], results[1])


def test_self_attention_is_the_librarys_attention_for_few_and_for_many_nodes():
    for nodes in (7, 150):
        joint = draw(2, nodes, 24)
        query, key, value = (part.view(2, nodes, 2, 4).transpose(1, 2) for part in joint.chunk(3, dim=-1))
        library = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        torch.testing.assert_close(self_attention(joint, 2), library)
