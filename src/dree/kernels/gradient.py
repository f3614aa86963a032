"""Scores of the next node and their gradient, for many states of one instance.

`nodes` is laid out as in `rollout`. States lie tour after tour, `steps` of each; a state knows where the vehicle is
and what its load is. Blocked nodes are marked by minus zero in the gradient, so that it says all that is needed of a
state.
"""

from __future__ import annotations

import triton
import triton.language as tl

from dree.kernels.parts import LOG2_E, head_rows, is_blocked, node_tile, numbered, state_scores


@triton.jit(do_not_specialize=["tours", "steps", "nodes"])  # one kernel for all sizes
def scores_kernel(  # type: ignore[no-untyped-def]
    nodes_ptr,  # [B, N, G, D]
    load_query_ptr,  # [B, 1, D], the same for all (CVRP)
    offset_ptr,  # [B, N]
    current_ptr,  # [B, P, S]
    starts_ptr,  # [B, P] (TSP)
    loads_ptr,  # [B, P, S] (CVRP)
    mask_ptr,  # [B, P, S, N]: minus infinity where blocked, else nought
    scores_ptr,  # out [B, P, S, N]
    logsum_ptr,  # out [B, P, S, H]: of the exponentials (to base 2) of the attention scores
    tours,
    steps,
    nodes,
    CVRP: tl.constexpr,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    GROUPS: tl.constexpr,
    NODES: tl.constexpr,
    TILES: tl.constexpr,
    STATES: tl.constexpr,
    DOT: tl.constexpr,
):
    """The scores of some states."""
    instance = tl.program_id(1).to(tl.int64)
    state = tl.program_id(0) * STATES + tl.arange(0, STATES)
    real = state < tours * steps
    node = numbered(TILES)
    place = instance * tours * steps + state
    current = tl.load(current_ptr + place, mask=real, other=0).to(tl.int32)
    mask = ()
    for part in tl.static_range(len(TILES)):
        inside = real[:, None] & (node[part] < nodes)[None, :]
        there = tl.load(mask_ptr + place[:, None] * nodes + node[part][None, :], mask=inside, other=-float("inf"))
        mask = mask + (tl.where(real[:, None], there, 0.0),)
    if CVRP:
        share = tl.load(loads_ptr + place, mask=real, other=0.0).to(tl.float32)
    else:
        start = tl.load(starts_ptr + instance * tours + state // steps, mask=real, other=0).to(tl.int32)
    scores = state_scores(
        nodes_ptr,
        load_query_ptr,
        offset_ptr,
        instance,
        current,
        share if CVRP else start,
        mask,
        logsum_ptr + place * HEADS,
        real,
        nodes,
        CVRP,
        True,
        HEADS,
        WIDTH,
        GROUPS,
        TILES,
        DOT,
    )
    for part in tl.static_range(len(TILES)):
        inside = real[:, None] & (node[part] < nodes)[None, :]
        tl.store(scores_ptr + place[:, None] * nodes + node[part][None, :], scores[part], mask=inside)


@triton.jit(do_not_specialize=["tours", "current_stride", "stride", "nodes"])
def gradient_kernel(  # type: ignore[no-untyped-def]
    nodes_ptr,  # [B, N, G, D]
    load_query_ptr,  # [B, 1, D], the same for all (CVRP)
    current_ptr,  # [B, P, T]: where the vehicle is before each decision (T >= S)
    starts_ptr,  # [B, P] (TSP)
    loads_ptr,  # [B, P, S] (CVRP)
    weights_ptr,  # [B, P]
    gradient_ptr,  # [B, P, S, NODES]: for the scores, before weighting; minus zero where blocked, a zero after the end
    logsum_ptr,  # [B, P, S, H]: of the exponentials (to base 2) of the attention scores
    steps_ptr,  # [B, P]: decisions of each tour
    most_ptr,  # [B]: of each instance's longest tour
    to_nodes_ptr,  # out [B, N, G, D], but for queries
    to_last_ptr,  # out [B, N, D], zero before
    to_start_ptr,  # out [B, N, D], zero before (TSP)
    to_load_query_ptr,  # out [B, D] (CVRP)
    tours,
    current_stride,  # T
    stride,  # S
    nodes,
    CVRP: tl.constexpr,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    GROUPS: tl.constexpr,
    NODES: tl.constexpr,
    TILES: tl.constexpr,
    STATES: tl.constexpr,
    DOT: tl.constexpr,
):
    """The gradient of one head's part of one instance's nodes, over all states."""
    instance = tl.program_id(1).to(tl.int64)
    head = tl.program_id(0)
    node = numbered(TILES)
    lane = tl.arange(0, WIDTH)
    row_width = GROUPS * HEADS * WIDTH
    group = HEADS * WIDTH
    nodes_ptr += instance * nodes * row_width
    to_last_ptr += instance * nodes * group + head * WIDTH
    to_start_ptr += instance * nodes * group + head * WIDTH
    kind: tl.constexpr = nodes_ptr.dtype.element_ty
    key = ()
    value = ()
    pointer = ()
    to_key = ()
    to_value = ()
    to_pointer = ()
    for part in tl.static_range(len(TILES)):
        key = key + (node_tile(nodes_ptr, 1, head, node[part], nodes, row_width, HEADS, WIDTH),)
        value = value + (node_tile(nodes_ptr, 2, head, node[part], nodes, row_width, HEADS, WIDTH),)
        pointer = pointer + (node_tile(nodes_ptr, 3, head, node[part], nodes, row_width, HEADS, WIDTH),)
        to_key = to_key + (tl.zeros(key[part].shape, tl.float32),)
        to_value = to_value + (tl.zeros(key[part].shape, tl.float32),)
        to_pointer = to_pointer + (tl.zeros(key[part].shape, tl.float32),)
    to_load_query = tl.zeros([WIDTH], tl.float32)
    if CVRP:
        load_query = tl.load(load_query_ptr + head * WIDTH + lane).to(tl.float32)
    most = tl.load(most_ptr + instance).to(tl.int32)
    starts_ptr += instance * tours
    weights_ptr += instance * tours
    steps_ptr += instance * tours
    current_ptr += instance * tours * current_stride
    loads_ptr += instance * tours * stride
    logsum_ptr += instance * tours * stride * HEADS
    gradient_ptr += instance * tours * stride * NODES
    for base in range(0, tours * most, STATES):
        state = base + tl.arange(0, STATES)
        step = ((state.to(tl.float32) + 0.5) * (1 / tours)).to(tl.int32)  # state // tours, for less
        tour = state - step * tours
        step = tl.minimum(step, stride - 1)  # the last tile may have too many states; they get no weight
        current = tl.load(current_ptr + tour * current_stride + step).to(tl.int32)
        place = tour * stride + step
        query = head_rows(nodes_ptr, current, 0, head, row_width, HEADS, WIDTH)
        if CVRP:
            share = tl.load(loads_ptr + place)
            query += share[:, None] * load_query[None, :]
        else:
            start = tl.load(starts_ptr + tour).to(tl.int32)
            query += head_rows(nodes_ptr, start, 4, head, row_width, HEADS, WIDTH)
        query = query.to(kind)
        real = (state < tours * most) & (step < tl.load(steps_ptr + tour))
        weight = tl.where(real, tl.load(weights_ptr + tour), 0.0)
        logsum = tl.load(logsum_ptr + place * HEADS + head)
        upstream = ()
        attention = ()
        attended = tl.zeros([STATES, WIDTH], tl.float32)
        to_attended = tl.zeros([STATES, WIDTH], tl.float32)
        for part in tl.static_range(len(TILES)):
            given = tl.load(gradient_ptr + place[:, None] * NODES + node[part][None, :])
            match = tl.dot(query, tl.trans(key[part]), input_precision=DOT)
            shares = tl.exp2(tl.where(is_blocked(given), -float("inf"), match * LOG2_E - logsum[:, None]))
            attended = tl.dot(shares.to(kind), value[part], attended, input_precision=DOT)
            to_attended = tl.dot(given, pointer[part], to_attended, input_precision=DOT)
            upstream = upstream + (given,)
            attention = attention + (shares,)
        attended *= weight[:, None]
        shift = tl.sum(attended * to_attended, 1)
        to_attended = (to_attended * weight[:, None]).to(kind)
        attended = attended.to(kind)
        to_query = tl.zeros([STATES, WIDTH], tl.float32)
        so_far = (to_key, to_value, to_pointer)
        to_key = ()
        to_value = ()
        to_pointer = ()
        for part in tl.static_range(len(TILES)):
            shares = attention[part]
            to_match = tl.dot(to_attended, tl.trans(value[part]), input_precision=DOT)
            to_match = (shares * (to_match - shift[:, None])).to(kind)
            to_query = tl.dot(to_match, key[part], to_query, input_precision=DOT)
            to_key = to_key + (tl.dot(tl.trans(to_match), query, so_far[0][part], input_precision=DOT),)
            turned = tl.trans(shares.to(kind))
            to_value = to_value + (tl.dot(turned, to_attended, so_far[1][part], input_precision=DOT),)
            turned = tl.trans(upstream[part])
            to_pointer = to_pointer + (tl.dot(turned, attended, so_far[2][part], input_precision=DOT),)
        tl.atomic_add(
            to_last_ptr + current[:, None] * group + lane[None, :], to_query, mask=real[:, None], sem="relaxed"
        )
        if CVRP:
            to_load_query += tl.sum(to_query * share[:, None], 0)
        else:
            tl.atomic_add(
                to_start_ptr + start[:, None] * group + lane[None, :], to_query, mask=real[:, None], sem="relaxed"
            )
    for part in tl.static_range(len(TILES)):
        exists = (node[part] < nodes)[:, None]
        cells = to_nodes_ptr + (instance * nodes + node[part])[:, None] * row_width + (head * WIDTH + lane)[None, :]
        tl.store(cells + group, to_key[part].to(kind), mask=exists)
        tl.store(cells + 2 * group, to_value[part].to(kind), mask=exists)
        tl.store(cells + 3 * group, to_pointer[part].to(kind), mask=exists)
    if CVRP:
        tl.store(to_load_query_ptr + instance * group + head * WIDTH + lane, to_load_query)


@triton.jit(do_not_specialize=["tours", "stride", "nodes"])
def offset_gradient_kernel(  # type: ignore[no-untyped-def]
    weights_ptr,  # [B, P]
    gradient_ptr,  # [B, P, S, R]: for the scores, before weighting
    steps_ptr,  # [B, P]: decisions of each tour
    to_offset_ptr,  # out [B, N], zero before
    tours,
    stride,  # S
    nodes,
    ROW: tl.constexpr,  # R
    NODES: tl.constexpr,
    STATES: tl.constexpr,
):
    """The gradient of the offsets: the weighted sum over all states, by as many programs as there are."""
    instance = tl.program_id(1).to(tl.int64)
    node = tl.arange(0, NODES)
    total = tl.zeros([NODES], tl.float32)
    for index in range(tl.program_id(0), tours, tl.num_programs(0)):
        tour = instance * tours + index
        steps = tl.load(steps_ptr + tour).to(tl.int32)
        weight = tl.load(weights_ptr + tour)
        for base in range(0, steps, STATES):
            step = base + tl.arange(0, STATES)
            cell = (tour * stride + step)[:, None] * ROW + node[None, :]
            inside = (step < steps)[:, None] & (node < ROW)[None, :]
            gradient = tl.load(gradient_ptr + cell, mask=inside, other=0.0)
            total += weight * tl.sum(gradient.to(tl.float32), 0)
    tl.atomic_add(to_offset_ptr + instance * nodes + node, total, mask=node < nodes, sem="relaxed")
