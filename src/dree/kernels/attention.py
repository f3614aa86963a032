"""Attention of few nodes in one kernel each way: a program takes one head of one instance.

It reads queries, keys and values where one product left them, [B, N, 3, H, d], or two products, [B, M, H, d] and
[B, N, 2, H, d], where only some nodes ask; and it writes heads side by side. Nodes that do not exist, where instances
are padded, are not read.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from dree.kernels.layout import padded
from dree.kernels.parts import LOG2_E, real_nodes


def attend(
    joint: Tensor,
    heads: int,
    sizes_B: Tensor | None = None,
    *,
    query_BMD: Tensor | None = None,
    empty_BN: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Multi-head attention without its output projection: [B, M, D].

    `joint` has queries, keys and values side by side, [B, N, 3 D], or keys and values, where queries are given. Nobody
    sees a node that is empty. The scale of scores is that of a head's width unless given.
    """
    assert query_BMD is None or sizes_B is None, "where only some nodes ask, all are real"
    attended: Tensor = _Attention.apply(joint, query_BMD, heads, sizes_B, empty_BN, scale)  # type: ignore[no-untyped-call]
    return attended


class _Attention(torch.autograd.Function):
    """The scores are computed again in the backward pass, never kept."""

    @staticmethod
    def forward(
        ctx: Any,
        joint: Tensor,
        query: Tensor | None,
        heads: int,
        sizes_B: Tensor | None,
        empty_BN: Tensor | None,
        scale: float | None,
    ) -> Tensor:
        joint, query = joint.contiguous(), None if query is None else query.contiguous()
        empty = None if empty_BN is None else empty_BN.contiguous().view(torch.uint8)
        asking = joint if query is None else query
        width = joint.shape[2] // (3 if query is None else 2)
        attended = joint.new_empty(*asking.shape[:2], width)
        ctx.shape = _shape(asking, joint, width // heads, heads, scale)
        _forward_kernel[(heads * len(joint),)](
            asking, joint, attended, sizes_B, empty, asking.shape[1], joint.shape[1], **ctx.shape
        )
        ctx.save_for_backward(joint, query, sizes_B, empty)
        return attended

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        joint, query, sizes_B, empty = ctx.saved_tensors
        asking = joint if query is None else query
        to_joint = torch.empty_like(joint)
        to_asking = to_joint if query is None else torch.empty_like(query)
        _backward_kernel[(ctx.shape["HEADS"] * len(joint),)](
            asking,
            joint,
            upstream[0].contiguous(),
            to_asking,
            to_joint,
            sizes_B,
            empty,
            asking.shape[1],
            joint.shape[1],
            **ctx.shape,
        )
        return to_joint, None if query is None else to_asking, None, None, None, None


def _shape(asking: Tensor, joint: Tensor, width: int, heads: int, scale: float | None) -> dict[str, Any]:
    nodes = padded(joint.shape[1])
    return {
        "HEADS": heads,
        "WIDTH": width,
        "QUERIES": padded(asking.shape[1]),
        "NODES": nodes,
        "ASKING": asking.shape[2] // (heads * width),
        "GROUPS": joint.shape[2] // (heads * width),
        "SCALE": width**-0.5 if scale is None else scale,
        "DOT": "tf32x3" if joint.dtype == torch.float32 else "tf32",
        "num_warps": max(1, nodes // 16),
    }


@triton.jit
def _cells(  # type: ignore[no-untyped-def]
    instance, nodes, part, GROUPS: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, NODES: tl.constexpr
):
    """Where one head's part of all nodes is, among so many parts of theirs: [NODES, WIDTH]."""
    cell = ((instance * nodes + tl.arange(0, NODES)) * GROUPS + part) * HEADS + tl.program_id(0) % HEADS
    return cell[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]


@triton.jit
def _weights(  # type: ignore[no-untyped-def]
    query, key, empty_ptr, instance, nodes, real, NODES: tl.constexpr, SCALE: tl.constexpr, DOT: tl.constexpr
):
    """How much each query attends to each node: [QUERIES, NODES]."""
    node = tl.arange(0, NODES)
    scores = tl.dot(query, tl.trans(key), input_precision=DOT) * (SCALE * LOG2_E)
    seen = node < real
    if empty_ptr is not None:
        seen = seen & (tl.load(empty_ptr + instance * nodes + node, mask=seen, other=1) == 0)
    scores = tl.where(seen[None, :], scores, -float("inf"))
    weights = tl.exp2(scores - tl.max(scores, 1)[:, None])
    return weights * (1 / tl.sum(weights, 1))[:, None]


@triton.jit(do_not_specialize=["queries", "nodes"])
def _forward_kernel(  # type: ignore[no-untyped-def]
    asking_ptr,  # [B, M, ASKING, H, d]: the queries come first
    joint_ptr,  # [B, N, GROUPS, H, d]: keys and values come last
    attended_ptr,  # out [B, M, H, d]
    sizes_ptr,  # [B], or None
    empty_ptr,  # [B, N], or None
    queries,
    nodes,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    NODES: tl.constexpr,
    ASKING: tl.constexpr,
    GROUPS: tl.constexpr,
    SCALE: tl.constexpr,
    DOT: tl.constexpr,
):
    if ASKING == GROUPS:
        queries = nodes  # so that the compiler knows
    instance = (tl.program_id(0) // HEADS).to(tl.int64)
    real = real_nodes(sizes_ptr, instance, nodes)
    asks = tl.arange(0, QUERIES)[:, None]
    exists = tl.arange(0, NODES)[:, None] < real
    asking = asking_ptr + _cells(instance, queries, 0, ASKING, HEADS, WIDTH, QUERIES)
    query = tl.load(asking, mask=asks < real_nodes(sizes_ptr, instance, queries), other=0.0)
    keys = joint_ptr + _cells(instance, nodes, GROUPS - 2, GROUPS, HEADS, WIDTH, NODES)
    key = tl.load(keys, mask=exists, other=0.0)
    values = joint_ptr + _cells(instance, nodes, GROUPS - 1, GROUPS, HEADS, WIDTH, NODES)
    value = tl.load(values, mask=exists, other=0.0)
    weights = _weights(query, key, empty_ptr, instance, nodes, real, NODES, SCALE, DOT)
    attended = tl.dot(weights.to(value.dtype), value, input_precision=DOT)
    out = attended_ptr + _cells(instance, queries, 0, 1, HEADS, WIDTH, QUERIES)
    tl.store(out, attended.to(value.dtype), mask=asks < queries)


@triton.jit(do_not_specialize=["queries", "nodes"])
def _backward_kernel(  # type: ignore[no-untyped-def]
    asking_ptr,
    joint_ptr,
    upstream_ptr,  # [B, M, H, d]
    to_asking_ptr,  # out, shaped like what it is the gradient of
    to_joint_ptr,  # out, likewise
    sizes_ptr,  # [B], or None
    empty_ptr,  # [B, N], or None
    queries,
    nodes,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    NODES: tl.constexpr,
    ASKING: tl.constexpr,
    GROUPS: tl.constexpr,
    SCALE: tl.constexpr,
    DOT: tl.constexpr,
):
    if ASKING == GROUPS:
        queries = nodes  # so that the compiler knows
    instance = (tl.program_id(0) // HEADS).to(tl.int64)
    real = real_nodes(sizes_ptr, instance, nodes)
    asks = tl.arange(0, QUERIES)[:, None]
    ask = asks < real_nodes(sizes_ptr, instance, queries)
    node = tl.arange(0, NODES)[:, None]
    asking_cells = _cells(instance, queries, 0, ASKING, HEADS, WIDTH, QUERIES)
    key_cells = _cells(instance, nodes, GROUPS - 2, GROUPS, HEADS, WIDTH, NODES)
    value_cells = _cells(instance, nodes, GROUPS - 1, GROUPS, HEADS, WIDTH, NODES)
    query = tl.load(asking_ptr + asking_cells, mask=ask, other=0.0)
    key = tl.load(joint_ptr + key_cells, mask=node < real, other=0.0)
    value = tl.load(joint_ptr + value_cells, mask=node < real, other=0.0)
    upstream = tl.load(upstream_ptr + _cells(instance, queries, 0, 1, HEADS, WIDTH, QUERIES), mask=ask, other=0.0)
    weights = _weights(query, key, empty_ptr, instance, nodes, real, NODES, SCALE, DOT)
    to_value = tl.dot(tl.trans(weights.to(value.dtype)), upstream, input_precision=DOT)
    to_weights = tl.dot(upstream, tl.trans(value), input_precision=DOT)
    to_scores = weights * (to_weights - tl.sum(weights * to_weights, 1)[:, None])
    to_scores = (to_scores * SCALE).to(value.dtype)
    to_query = tl.dot(to_scores, key, input_precision=DOT)
    to_key = tl.dot(tl.trans(to_scores), query, input_precision=DOT)
    tl.store(to_asking_ptr + asking_cells, to_query.to(value.dtype), mask=asks < queries)
    tl.store(to_joint_ptr + key_cells, to_key.to(value.dtype), mask=node < nodes)
    tl.store(to_joint_ptr + value_cells, to_value.to(value.dtype), mask=node < nodes)
