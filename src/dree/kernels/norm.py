"""Residual and instance norm in one kernel: each program takes some channels of all nodes of one instance.

Nodes that do not exist, where instances are padded, are not read, and pass no gradient.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from dree.kernels.parts import real_nodes

CHANNELS = 32  # of one program


def residual_norm(x_BND: Tensor, y_BND: Tensor, gain: Tensor, bias: Tensor, sizes_B: Tensor | None = None) -> Tensor:
    """The sum of two tensors, standardised over the nodes, then scaled and shifted by channel."""
    normed: Tensor = _ResidualNorm.apply(x_BND, y_BND, gain, bias, sizes_B)  # type: ignore[no-untyped-call]
    return normed


class _ResidualNorm(torch.autograd.Function):
    """Statistics in single precision, whatever that of the tensors.

    All programs of the backward pass add to one gradient of gain and bias, which the forward pass has made zero.
    """

    @staticmethod
    def forward(ctx: Any, x_BND: Tensor, y_BND: Tensor, gain: Tensor, bias: Tensor, sizes_B: Tensor | None) -> Tensor:
        batch, nodes, width = x_BND.shape
        out, normed = torch.empty_like(x_BND), torch.empty_like(x_BND)
        scale = torch.empty(batch, width, device=x_BND.device)
        ctx.sums = torch.empty(2, width, device=x_BND.device)
        _forward_kernel[_grid(batch, width)](
            x_BND, y_BND.contiguous(), gain, bias, out, normed, scale, ctx.sums, sizes_B, nodes, width, **_tile(nodes)
        )
        ctx.save_for_backward(normed, scale, gain, sizes_B)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        normed, scale, gain, sizes_B = ctx.saved_tensors
        batch, nodes, width = normed.shape
        to_sum = torch.empty_like(normed)
        sums, ctx.sums = ctx.sums, None
        if sums is None:  # not the first pass through a graph that was retained
            sums = torch.zeros(2, width, device=normed.device)
        _backward_kernel[_grid(batch, width)](
            upstream[0].contiguous(), normed, scale, gain, to_sum, sums, sizes_B, nodes, width, **_tile(nodes)
        )
        to_gain, to_bias = sums
        return to_sum, to_sum, to_gain, to_bias, None


def _grid(batch: int, width: int) -> tuple[int, int]:
    return triton.cdiv(width, CHANNELS), batch


def _tile(nodes: int) -> dict[str, int]:
    padded = triton.next_power_of_2(nodes)
    return {"NODES": padded, "CHANNELS": CHANNELS, "num_warps": min(16, max(1, padded // 32))}


@triton.jit(do_not_specialize=["nodes"])
def _forward_kernel(  # type: ignore[no-untyped-def]
    x_ptr,
    y_ptr,
    gain_ptr,
    bias_ptr,
    out_ptr,
    normed_ptr,
    scale_ptr,
    sums_ptr,  # out [2, width]: zero
    sizes_ptr,  # [B], or None
    nodes,
    width,
    NODES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    instance = tl.program_id(1).to(tl.int64)
    real = real_nodes(sizes_ptr, instance, nodes)
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    node = tl.arange(0, NODES)
    wide = channel < width
    inside = (node < nodes)[:, None] & wide[None, :]
    exists = (node < real)[:, None] & wide[None, :]
    cell = (instance * nodes + node)[:, None] * width + channel[None, :]
    total = tl.load(x_ptr + cell, mask=exists, other=0.0).to(tl.float32)
    total += tl.load(y_ptr + cell, mask=exists, other=0.0).to(tl.float32)
    centred = tl.where(exists, total - (tl.sum(total, 0) / real)[None, :], 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / real + 1e-5)
    normed = centred * scale[None, :]
    gain = tl.load(gain_ptr + channel, mask=wide, other=0.0)
    bias = tl.load(bias_ptr + channel, mask=wide, other=0.0)
    out = normed * gain[None, :] + bias[None, :]
    tl.store(out_ptr + cell, out.to(out_ptr.dtype.element_ty), mask=inside)
    tl.store(normed_ptr + cell, normed.to(normed_ptr.dtype.element_ty), mask=inside)
    tl.store(scale_ptr + instance * width + channel, scale, mask=wide)
    if tl.program_id(1) == 0:
        tl.store(sums_ptr + channel, tl.zeros([CHANNELS], tl.float32), mask=wide)
        tl.store(sums_ptr + width + channel, tl.zeros([CHANNELS], tl.float32), mask=wide)


@triton.jit(do_not_specialize=["nodes"])
def _backward_kernel(  # type: ignore[no-untyped-def]
    upstream_ptr,
    normed_ptr,
    scale_ptr,
    gain_ptr,
    to_sum_ptr,
    sums_ptr,  # out [2, width], zero before: the gradients of gain and bias
    sizes_ptr,  # [B], or None
    nodes,
    width,
    NODES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    instance = tl.program_id(1).to(tl.int64)
    real = real_nodes(sizes_ptr, instance, nodes)
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    node = tl.arange(0, NODES)
    wide = channel < width
    inside = (node < nodes)[:, None] & wide[None, :]
    exists = (node < real)[:, None] & wide[None, :]
    cell = (instance * nodes + node)[:, None] * width + channel[None, :]
    upstream = tl.load(upstream_ptr + cell, mask=exists, other=0.0).to(tl.float32)
    normed = tl.load(normed_ptr + cell, mask=exists, other=0.0).to(tl.float32)
    slope = tl.sum(upstream * normed, 0)
    level = tl.sum(upstream, 0)
    scale = tl.load(scale_ptr + instance * width + channel, mask=wide, other=0.0)
    gain = tl.load(gain_ptr + channel, mask=wide, other=0.0)
    to_sum = (upstream - (level / real)[None, :] - normed * (slope / real)[None, :]) * (scale * gain)[None, :]
    if sizes_ptr is not None:
        to_sum = tl.where(exists, to_sum, 0.0)
    tl.store(to_sum_ptr + cell, to_sum.to(to_sum_ptr.dtype.element_ty), mask=inside)
    tl.atomic_add(sums_ptr + channel, slope, mask=wide, sem="relaxed")
    tl.atomic_add(sums_ptr + width + channel, level, mask=wide, sem="relaxed")
