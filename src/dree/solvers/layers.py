"""The encoder's building blocks, with hand-written gradients where autograd's detours cost more than the work.

Shapes: B instances, N nodes, D width, H heads, d = D / H.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from dree import kernels
from dree.solvers.base import existing
from dree.solvers.precision import autocast_precision
from dree.solvers.products import Linear, linear

ATTENTION_NODES = 128  # up to this many nodes, a kernel attends to what is on a CUDA device
NORM_NODES = 1024  # up to this many nodes, a kernel normalises what is on a CUDA device
SMALL = 128  # up to this many nodes, plain batched products beat the fused attention of the CPU


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward block, each followed by a residual and a norm."""

    def __init__(self, width: int, heads: int, feed_forward: int, norm: type[NodeNorm]) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = Linear(width, 3 * width, bias=False)
        self.combine = Linear(width, width)
        self.norm1 = norm(width)
        self.expand = Linear(width, feed_forward)
        self.contract = Linear(feed_forward, width)
        self.norm2 = norm(width)

    def forward(self, nodes_BND: Tensor, sizes_B: Tensor | None = None) -> Tensor:
        """One layer of the encoder. Under autocast its matrix products are in low precision, the rest as given.

        Where there are sizes, only so many nodes of an instance are real. The others are never looked at: what comes
        out for them is finite, means nothing, and must be given no gradient.
        """
        exact = nodes_BND.dtype
        joint, nodes_BND = _branch(nodes_BND, self.query_key_value)
        attended = self_attention(joint.to(exact), self.heads, sizes_B)
        nodes_BND = self.norm1(nodes_BND, _before_norm(self.combine, attended).to(exact), sizes_B)
        hidden, nodes_BND = _branch(nodes_BND, self.expand, positive=True)
        change = _before_norm(self.contract, hidden).view_as(nodes_BND)
        normed: Tensor = self.norm2(nodes_BND, change.to(exact), sizes_B)
        return normed

    def products(self) -> dict[str, Tensor]:
        """The weights of its matrix products, by name."""
        return {name: weight for name, weight in self.named_parameters() if not name.startswith("norm")}


def _branch(nodes_BND: Tensor, to: nn.Linear, *, positive: bool = False) -> tuple[Tensor, Tensor]:
    """Where a residual block begins: a linear map, or its positive part, and the nodes themselves."""
    low = autocast_precision(nodes_BND.device)
    if kernels.serve(nodes_BND.device) and nodes_BND.dtype == to.weight.dtype and low in (None, nodes_BND.dtype):
        from dree.kernels.branch import branch

        return branch(nodes_BND, to.weight, to.bias if positive else None)
    if not positive:
        return to(nodes_BND), nodes_BND
    hidden: Tensor = _Relu.apply(to(nodes_BND.flatten(0, 1)))  # type: ignore[no-untyped-call]
    return hidden, nodes_BND


def _before_norm(of: nn.Linear, x: Tensor) -> Tensor:
    """A linear map whose bias has no gradient: it shifts all nodes alike, which no norm over the nodes lets through."""
    return linear(x, of.weight, of.bias.detach())


class NodeNorm(nn.Module):
    """Residual and instance norm: each channel of each instance is standardised over the nodes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, nodes_BND: Tensor, change_BND: Tensor, sizes_B: Tensor | None = None) -> Tensor:
        """Add, standardise, then scale and shift each channel."""
        if nodes_BND.shape[1] <= NORM_NODES and kernels.serve(nodes_BND.device):
            from dree.kernels.norm import residual_norm

            return residual_norm(nodes_BND, change_BND, self.gain, self.bias, sizes_B)
        if sizes_B is not None:
            return _norm_of_real(nodes_BND + change_BND, sizes_B) * self.gain + self.bias
        normed: Tensor = _Norm.apply(nodes_BND + change_BND, self.gain, self.bias)  # type: ignore[no-untyped-call]
        return normed


class BatchNorm(NodeNorm):
    """Residual and batch norm: each channel is standardised over all nodes of all instances, in tests too."""

    def forward(self, nodes_BND: Tensor, change_BND: Tensor, sizes_B: Tensor | None = None) -> Tensor:
        """Add, standardise, then scale and shift each channel; all in single precision at least.

        The library's own function: it is faster here than one by hand, and can be captured.
        """
        assert sizes_B is None, "a batch norm would count nodes that do not exist"
        exact = torch.promote_types(nodes_BND.dtype, torch.float32)
        total = (nodes_BND.to(exact) + change_BND).flatten(0, 1)
        normed = functional.batch_norm(total, None, None, self.gain.to(exact), self.bias.to(exact), training=True)
        return normed.view_as(nodes_BND).to(nodes_BND.dtype)


def _norm_of_real(x_BND: Tensor, sizes_B: Tensor) -> Tensor:
    """Zero mean and unit (population) variance over the nodes that are real; the others are zero."""
    exists, count = existing(sizes_B, x_BND.shape[1])[..., None], sizes_B[:, None, None]
    centred = (x_BND - (x_BND * exists).sum(1, keepdim=True) / count) * exists
    return centred * (centred.square().sum(1, keepdim=True) / count + 1e-5).rsqrt()


def self_attention(query_key_value: Tensor, heads: int, sizes_B: Tensor | None = None) -> Tensor:
    """Multi-head self-attention of [B, N, 3 D], without its output projection: [B, N, D].

    Where there are sizes, to the nodes that are real.
    """
    batch, nodes, width = query_key_value.shape
    if nodes <= ATTENTION_NODES and kernels.serve(query_key_value.device, width // (3 * heads)):
        from dree.kernels.attention import attend

        return attend(query_key_value, heads, sizes_B)
    split = query_key_value.view(batch, nodes, 3, heads, width // (3 * heads)).transpose(1, 3)
    with torch.autocast(query_key_value.device.type, enabled=False):
        if query_key_value.is_cuda or nodes > SMALL or sizes_B is not None:
            query, key, value = split.unbind(2)
            mask = None if sizes_B is None else existing(sizes_B, nodes)[:, None, None]
            attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        else:
            attended = _SmallAttention.apply(split.permute(2, 0, 1, 3, 4))  # type: ignore[no-untyped-call]
    return attended.transpose(1, 2).flatten(2)


class _Norm(torch.autograd.Function):
    """Zero mean and unit (population) variance over the nodes, then gain and bias."""

    @staticmethod
    def forward(ctx: Any, x_BND: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        centred = x_BND - x_BND.mean(1, keepdim=True)
        scale = centred.square().mean(1, keepdim=True).add_(1e-5).rsqrt_()
        normed = centred.mul_(scale)
        ctx.save_for_backward(normed, scale, gain)
        return torch.addcmul(bias, normed, gain)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        normed, scale, gain = ctx.saved_tensors
        (gradient,) = upstream
        slope, level = (gradient * normed).sum(1, keepdim=True), gradient.sum(1, keepdim=True)
        to_x = gradient - level / normed.shape[1]
        to_x.addcmul_(normed, slope, value=-1 / normed.shape[1]).mul_(scale * gain)
        return to_x, slope.sum((0, 1)), level.sum((0, 1))


class _Relu(torch.autograd.Function):
    """In place, and so is its gradient: nobody else needs the widest activations or theirs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        ctx.save_for_backward(x.relu_())
        return x

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Tensor:
        (hidden,), (gradient,) = ctx.saved_tensors, upstream
        to_x: Tensor = torch.ops.aten.threshold_backward.grad_input(gradient, hidden, 0, grad_input=gradient)
        return to_x


class _SmallAttention(torch.autograd.Function):
    """Attention of [3, B, H, N, d] as six batched products: two forward, four backward."""

    @staticmethod
    def forward(ctx: Any, split: Tensor) -> Tensor:
        query, key, value = split.contiguous().flatten(1, 2)
        query = query / math.sqrt(query.shape[-1])
        weights = torch.bmm(query, key.transpose(1, 2)).softmax(-1)
        ctx.save_for_backward(query, key, value, weights)
        return torch.bmm(weights, value).view(split.shape[1:])

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Tensor:
        query, key, value, weights = ctx.saved_tensors
        gradient = upstream[0].flatten(0, 1).contiguous()
        scores = torch._softmax_backward_data(torch.bmm(gradient, value.transpose(1, 2)), weights, -1, weights.dtype)
        parts: Tensor = query.new_empty(3, *query.shape)
        torch.bmm(scores, key, out=parts[0]).div_(math.sqrt(query.shape[-1]))
        torch.bmm(scores.transpose(1, 2), query, out=parts[1])
        torch.bmm(weights.transpose(1, 2), gradient, out=parts[2])
        return parts.view(3, *upstream[0].shape)
