"""Pieces that several kernels share."""

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def real_nodes(sizes_ptr, instance, nodes):  # type: ignore[no-untyped-def]
    """How many nodes of an instance are real: all of them, unless it was padded, and there are sizes [B]."""
    real = nodes
    if sizes_ptr is not None:
        real = tl.load(sizes_ptr + instance)
    return real


@triton.jit
def normalised(match):  # type: ignore[no-untyped-def]
    """The softmax of each row, and the logarithm (to base 2) of the sum of its exponentials."""
    highest = tl.max(match, 1) * LOG2_E
    exponentials = tl.exp2(match * LOG2_E - highest[:, None])
    total = tl.sum(exponentials, 1)
    return exponentials / total[:, None], highest + tl.log2(total)


@triton.jit
def is_blocked(gradient):  # type: ignore[no-untyped-def]
    """Where a gradient is minus zero, the mark of a blocked node."""
    if gradient.dtype == tl.float32:
        blocked = gradient.to(tl.int32, bitcast=True) == -2147483648
    else:
        blocked = gradient.to(tl.int16, bitcast=True) == -32768
    return blocked


@triton.jit
def head_rows(  # type: ignore[no-untyped-def]
    nodes_ptr, index, GROUP: tl.constexpr, head, row_width, HEADS: tl.constexpr, WIDTH: tl.constexpr
):
    """One head's part of the rows that an index names, in float32: [rows, WIDTH]."""
    lane = (GROUP * HEADS + head) * WIDTH + tl.arange(0, WIDTH)
    return tl.load(nodes_ptr + index[:, None] * row_width + lane[None, :]).to(tl.float32)


@triton.jit
def node_tile(  # type: ignore[no-untyped-def]
    nodes_ptr,
    GROUP: tl.constexpr,
    head,
    nodes,
    row_width,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    NODES: tl.constexpr,
):
    """One head's part of all nodes, zero where there is none: [NODES, WIDTH]."""
    node = tl.arange(0, NODES)
    lane = (GROUP * HEADS + head) * WIDTH + tl.arange(0, WIDTH)
    cells = nodes_ptr + node[:, None] * row_width + lane[None, :]
    return tl.load(cells, mask=node[:, None] < nodes, other=0.0)
