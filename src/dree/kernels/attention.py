"""Self-attention of few nodes in one kernel each way: a program takes one head of one instance.

It reads queries, keys and values where one product left them, [B, N, 3, H, d], and writes heads side by side.
Nodes that do not exist, where instances are padded, are not read.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from dree.kernels.parts import real_nodes


def attend(query_key_value: Tensor, heads: int, sizes_B: Tensor | None = None) -> Tensor:
    """Multi-head self-attention of [B, N, 3 D], without its output projection: [B, N, D]."""
    attended: Tensor = _Attention.apply(query_key_value, heads, sizes_B)  # type: ignore[no-untyped-call]
    return attended


class _Attention(torch.autograd.Function):
    """The scores are computed again in the backward pass, never kept."""

    @staticmethod
    def forward(ctx: Any, joint: Tensor, heads: int, sizes_B: Tensor | None) -> Tensor:
        batch, nodes, width = joint.shape
        joint = joint.contiguous()
        attended = joint.new_empty(batch, nodes, width // 3)
        _forward_kernel[(heads, batch)](joint, attended, sizes_B, nodes, **_shape(joint, heads))
        ctx.save_for_backward(joint, sizes_B)
        ctx.heads = heads
        return attended

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        joint, sizes_B = ctx.saved_tensors
        to_joint = torch.empty_like(joint)
        _backward_kernel[(ctx.heads, len(joint))](
            joint, upstream[0].contiguous(), to_joint, sizes_B, joint.shape[1], **_shape(joint, ctx.heads)
        )
        return to_joint, None, None


def _shape(joint: Tensor, heads: int) -> dict[str, Any]:
    padded = max(16, int(triton.next_power_of_2(joint.shape[1])))
    return {
        "HEADS": heads,
        "WIDTH": joint.shape[2] // (3 * heads),
        "NODES": padded,
        "DOT": "tf32x3" if joint.dtype == torch.float32 else "tf32",
        "num_warps": max(1, padded // 16),
    }


@triton.jit
def _load(  # type: ignore[no-untyped-def]
    joint_ptr, part, instance, nodes, real, HEADS: tl.constexpr, WIDTH: tl.constexpr, NODES: tl.constexpr
):
    """The queries (0), keys (1) or values (2) of one head: [NODES, WIDTH]."""
    node = tl.arange(0, NODES)
    cell = ((instance * nodes + node) * 3 + part) * HEADS + tl.program_id(0)
    cells = joint_ptr + cell[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    return tl.load(cells, mask=node[:, None] < real, other=0.0)


@triton.jit
def _weights(query, key, real, WIDTH: tl.constexpr, NODES: tl.constexpr, DOT: tl.constexpr):  # type: ignore[no-untyped-def]
    """How much each node attends to each: [NODES, NODES]."""
    scale = 1.4426950408889634 / (WIDTH**0.5)
    scores = tl.dot(query, tl.trans(key), input_precision=DOT) * scale
    scores = tl.where(tl.arange(0, NODES)[None, :] < real, scores, -float("inf"))
    weights = tl.exp2(scores - tl.max(scores, 1)[:, None])
    return weights * (1 / tl.sum(weights, 1))[:, None]


@triton.jit(do_not_specialize=["nodes"])
def _forward_kernel(  # type: ignore[no-untyped-def]
    joint_ptr,
    attended_ptr,
    sizes_ptr,  # [B], or None
    nodes,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    NODES: tl.constexpr,
    DOT: tl.constexpr,
):
    instance = tl.program_id(1).to(tl.int64)
    real = real_nodes(sizes_ptr, instance, nodes)
    query = _load(joint_ptr, 0, instance, nodes, real, HEADS, WIDTH, NODES)
    key = _load(joint_ptr, 1, instance, nodes, real, HEADS, WIDTH, NODES)
    value = _load(joint_ptr, 2, instance, nodes, real, HEADS, WIDTH, NODES)
    weights = _weights(query, key, real, WIDTH, NODES, DOT)
    attended = tl.dot(weights.to(value.dtype), value, input_precision=DOT)
    node = tl.arange(0, NODES)
    cell = (instance * nodes + node) * HEADS + tl.program_id(0)
    cells = attended_ptr + cell[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    tl.store(cells, attended.to(value.dtype), mask=node[:, None] < nodes)


@triton.jit(do_not_specialize=["nodes"])
def _backward_kernel(  # type: ignore[no-untyped-def]
    joint_ptr,
    upstream_ptr,
    to_joint_ptr,
    sizes_ptr,  # [B], or None
    nodes,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    NODES: tl.constexpr,
    DOT: tl.constexpr,
):
    instance = tl.program_id(1).to(tl.int64)
    real = real_nodes(sizes_ptr, instance, nodes)
    query = _load(joint_ptr, 0, instance, nodes, real, HEADS, WIDTH, NODES)
    key = _load(joint_ptr, 1, instance, nodes, real, HEADS, WIDTH, NODES)
    value = _load(joint_ptr, 2, instance, nodes, real, HEADS, WIDTH, NODES)
    node = tl.arange(0, NODES)
    lane = tl.arange(0, WIDTH)
    inside = node[:, None] < nodes
    cell = (instance * nodes + node) * HEADS + tl.program_id(0)
    upstream = tl.load(upstream_ptr + cell[:, None] * WIDTH + lane[None, :], mask=node[:, None] < real, other=0.0)
    weights = _weights(query, key, real, WIDTH, NODES, DOT)
    to_value = tl.dot(tl.trans(weights.to(value.dtype)), upstream, input_precision=DOT)
    to_weights = tl.dot(upstream, tl.trans(value), input_precision=DOT)
    to_scores = weights * (to_weights - tl.sum(weights * to_weights, 1)[:, None])
    to_scores = (to_scores * (1 / (WIDTH**0.5))).to(value.dtype)
    to_query = tl.dot(to_scores, key, input_precision=DOT)
    to_key = tl.dot(tl.trans(to_scores), query, input_precision=DOT)
    cell = (instance * nodes + node) * 3 * HEADS + tl.program_id(0)
    cells = to_joint_ptr + cell[:, None] * WIDTH + lane[None, :]
    tl.store(cells, to_query.to(value.dtype), mask=inside)
    tl.store(cells + HEADS * WIDTH, to_key.to(value.dtype), mask=inside)
    tl.store(cells + 2 * HEADS * WIDTH, to_value.to(value.dtype), mask=inside)
