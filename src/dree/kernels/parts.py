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
def numbered(TILES: tl.constexpr):  # type: ignore[no-untyped-def]
    """The numbers of the nodes in each tile."""
    numbers = ()
    begin: tl.constexpr = 0
    for part in tl.static_range(len(TILES)):
        numbers = numbers + (begin + tl.arange(0, TILES[part]),)
        begin = begin + TILES[part]
    return numbers


@triton.jit
def state_scores(  # type: ignore[no-untyped-def]
    nodes_ptr,  # [B, N, G, D]
    load_query_ptr,  # [B, 1, D], the same for all (CVRP)
    offset_ptr,  # [B, N]
    instance,
    current,  # [states]: where the vehicle is
    context,  # [states]: its load as a share of the capacity (CVRP), or its start (TSP)
    mask,  # tiles [states, nodes]: minus infinity (or hardly more) where blocked, else nought
    logsum_ptr,  # out [states, H]: of the exponentials (to base 2) of the attention scores, with RECORD
    real,  # [states]: which of them to record
    nodes,
    CVRP: tl.constexpr,
    RECORD: tl.constexpr,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    GROUPS: tl.constexpr,
    TILES: tl.constexpr,
    DOT: tl.constexpr,
):
    """The scores of the next node, for some states of one instance: tiles [states, nodes]."""
    node = numbered(TILES)
    row_width = GROUPS * HEADS * WIDTH
    nodes_ptr += instance * nodes * row_width
    offset_ptr += instance * nodes
    scores = ()
    for part in tl.static_range(len(TILES)):
        offset = tl.load(offset_ptr + node[part], mask=node[part] < nodes, other=0.0)
        scores = scores + (tl.zeros(mask[part].shape, tl.float32) + offset[None, :],)
    for head in range(HEADS):
        query = head_rows(nodes_ptr, current, 0, head, row_width, HEADS, WIDTH)
        if CVRP:
            lane = head * WIDTH + tl.arange(0, WIDTH)
            query += context[:, None] * tl.load(load_query_ptr + lane).to(tl.float32)[None, :]
        else:
            query += head_rows(nodes_ptr, context, 4, head, row_width, HEADS, WIDTH)
        matches = ()
        highest = tl.full(current.shape, -1e30, tl.float32)
        for part in tl.static_range(len(TILES)):
            key = node_tile(nodes_ptr, 1, head, node[part], nodes, row_width, HEADS, WIDTH)
            match = tl.dot(query.to(key.dtype), tl.trans(key), input_precision=DOT) * LOG2_E + mask[part]
            matches = matches + (match,)
            highest = tl.maximum(highest, tl.max(match, 1))
        total = tl.full(current.shape, 1e-30, tl.float32)
        attended = tl.zeros(query.shape, tl.float32)
        for part in tl.static_range(len(TILES)):
            value = node_tile(nodes_ptr, 2, head, node[part], nodes, row_width, HEADS, WIDTH)
            attention = tl.exp2(matches[part] - highest[:, None])
            total += tl.sum(attention, 1)
            attended = tl.dot(attention.to(value.dtype), value, attended, input_precision=DOT)
        if RECORD:
            tl.store(logsum_ptr + head, highest + tl.log2(total), mask=real)
        attended = (attended * (1 / total)[:, None]).to(nodes_ptr.dtype.element_ty)
        before, scores = scores, ()
        for part in tl.static_range(len(TILES)):
            pointer = node_tile(nodes_ptr, 3, head, node[part], nodes, row_width, HEADS, WIDTH)
            scores = scores + (tl.dot(attended, tl.trans(pointer), before[part], input_precision=DOT),)
    return scores


@triton.jit
def clipped(scores, mask, clip):  # type: ignore[no-untyped-def]
    """How far below one the scores' hyperbolic tangents are, and the policy times a constant of each state."""
    root = tl.rsqrt(1 + tl.exp2(scores * (2 * LOG2_E)))
    below = 2 * root * root
    return below, tl.exp2(mask - below * (clip * LOG2_E))


@triton.jit
def is_blocked(gradient):  # type: ignore[no-untyped-def]
    """Where a gradient is minus zero, the mark of a blocked node."""
    if gradient.dtype == tl.float32:
        blocked = gradient.to(tl.int32, bitcast=True) == -2147483648
    else:
        blocked = gradient.to(tl.int16, bitcast=True) == -32768
    return blocked


@triton.jit
def marked(gradient, blocked):  # type: ignore[no-untyped-def]
    """A gradient that is minus zero, the mark of a blocked node, where one is, and nowhere else.

    By bits, for the compiler makes a plain zero of a minus zero that is written as a number.
    """
    gradient = tl.where(gradient == 0, 0.0, gradient)
    if gradient.dtype == tl.float32:
        bits = tl.where(blocked, -2147483648, gradient.to(tl.int32, bitcast=True)).to(tl.int32)
    else:
        bits = tl.where(blocked, -32768, gradient.to(tl.int16, bitcast=True)).to(tl.int16)
    return bits.to(gradient.dtype, bitcast=True)


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
    node,  # [some]: which
    nodes,  # how many there are
    row_width,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """One head's part of some nodes, zero where there is none: [some, WIDTH]."""
    lane = (GROUP * HEADS + head) * WIDTH + tl.arange(0, WIDTH)
    cells = nodes_ptr + node[:, None] * row_width + lane[None, :]
    return tl.load(cells, mask=node[:, None] < nodes, other=0.0)
