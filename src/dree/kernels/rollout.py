"""A whole rollout in one kernel: each program takes some tours of one instance from their starts to their ends.

What the nodes are to the decoder lies in one tensor `nodes` [B, N, G, D]: query as last node, key (scaled), value and
pointer, and for TSP the query as start. Padded nodes and tours exist in registers only.
"""

from __future__ import annotations

import triton
import triton.language as tl

from dree.kernels.parts import clipped, state_scores

FULL = tl.constexpr(-1e30)  # blocks as well as minus infinity does


@triton.jit(do_not_specialize=["tours", "nodes", "longest"])  # one kernel for all sizes
def rollout_kernel(  # type: ignore[no-untyped-def]
    nodes_ptr,  # [B, N, G, D]
    load_query_ptr,  # [B, 1, D], the same for all: what a full load adds to the query (CVRP)
    offset_ptr,  # [B, N]
    demands_ptr,  # [B, N] (CVRP)
    capacity_ptr,  # [B] (CVRP)
    starts_ptr,  # [B, P]
    seed_ptr,  # [1]
    actions_ptr,  # out [B, P, T], zero before
    log_prob_ptr,  # out [B, P]
    lengths_ptr,  # out [B, P]: actions of each tour; zero if it did not end
    tape_ptr,  # out [B, P, T - 1, NODES]: gradients of the log-probabilities for the scores; minus zero where blocked
    logsum_ptr,  # out [B, P, T - 1, H]: of the exponentials (to base 2) of the attention scores
    loads_ptr,  # out [B, P, T - 1]: as shares of the capacity (CVRP); all three are zero after a tour's end
    tours,
    nodes,
    longest,
    clip,
    CVRP: tl.constexpr,
    SAMPLE: tl.constexpr,
    RECORD: tl.constexpr,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    GROUPS: tl.constexpr,
    NODES: tl.constexpr,
    TOURS: tl.constexpr,
    DOT: tl.constexpr,
):
    """Tours of one instance, step by step."""
    instance = tl.program_id(1).to(tl.int64)
    tour = tl.program_id(0) * TOURS + tl.arange(0, TOURS)
    real = tour < tours
    node = tl.arange(0, NODES)
    exists = node < nodes
    place = instance * tours + tour
    current = tl.load(starts_ptr + place, mask=real, other=1).to(tl.int32)
    start = current
    tl.store(actions_ptr + place * longest, current.to(tl.int64), mask=real)
    left = tl.full([TOURS], nodes - 1, tl.int32)  # customers to serve
    log_prob = tl.zeros([TOURS], tl.float32)
    length = tl.full([TOURS], 1, tl.int32)
    sound = tour >= 0
    load = tl.zeros([TOURS], tl.int32)
    seed = tl.load(seed_ptr)
    going = nodes > 1
    if CVRP:
        demands_ptr += instance * nodes
        capacity = tl.load(capacity_ptr + instance).to(tl.int32)
        load = capacity - tl.load(demands_ptr + current).to(tl.int32)
        left -= 1
        going = longest > 1
    # Minus infinity where a customer was served, FULL where one does not fit now; the depot's is never infinite.
    mask = tl.where((node[None, :] == current[:, None]) | (node[None, :] >= nodes), -float("inf"), 0.0)
    triangle = (node[:, None] <= node[None, :]).to(nodes_ptr.dtype.element_ty)  # a product with it cumulates
    step = 1
    while going:
        if CVRP:
            share = load.to(tl.float32) / capacity
            demand = tl.load(demands_ptr + node, mask=exists, other=0).to(tl.int32)
            home = tl.where((current == 0) & (left > 0), FULL, 0.0)
            fits = tl.where(demand[None, :] > load[:, None], FULL, 0.0)
            fits = tl.where(node[None, :] == 0, home[:, None], fits)
            mask = tl.where(mask == -float("inf"), mask, fits)
        at = place * (longest - 1) + step - 1
        scores = state_scores(
            nodes_ptr,
            load_query_ptr,
            offset_ptr,
            instance,
            current,
            share if CVRP else start,
            mask,
            logsum_ptr + at * HEADS,
            real,
            nodes,
            CVRP,
            RECORD,
            HEADS,
            WIDTH,
            GROUPS,
            NODES,
            DOT,
        )
        below, policy = clipped(scores, mask, clip)
        if SAMPLE:
            # The first allowed node whose cumulated probability passes a uniform number, clear of rounding at the end.
            uniform = tl.rand(seed, (place * longest + step).to(tl.int32))
            high = policy.to(triangle.dtype)
            cumulated = tl.dot(high, triangle, input_precision=DOT)
            cumulated = tl.dot(
                (policy - high.to(tl.float32)).to(triangle.dtype), triangle, cumulated, input_precision=DOT
            )
            total = tl.max(cumulated, 1)
            passed = (cumulated > (uniform * total * (1 - 2e-6))[:, None]) & (policy > 0)
            action = tl.min(tl.where(passed, node[None, :], nodes - 1), 1)
        else:
            total = tl.sum(policy, 1)
            action = tl.argmax(tl.where(policy > 0, policy, 0.0), 1).to(tl.int32)
        sound = sound & (total > 0)  # not where all nodes are blocked, or weights are no numbers
        action = tl.where(sound, action, 0)
        taken = node[None, :] == action[:, None]
        mask = tl.where(taken & (node[None, :] >= CVRP), -float("inf"), mask)
        # A finished CVRP tour stays at the depot.
        waiting = left < 0
        if CVRP:
            waiting = (left == 0) & (current == 0)
        if RECORD:
            slope = below * (2 - below) * clip + 1e-20  # not zero, so that allowed nodes never have minus zero
            share_of_slope = policy * (1 / total)[:, None] * slope
            gradient = tl.where(taken, slope - share_of_slope, share_of_slope * -1.0)
            cell = at[:, None] * NODES + node[None, :]
            tl.store(tape_ptr + cell, gradient.to(tape_ptr.dtype.element_ty), mask=real[:, None])
            chosen = -clip * tl.sum(tl.where(taken, below, 0.0), 1) - tl.log(total)
            log_prob += tl.where(waiting, 0.0, chosen)
            if CVRP:
                tl.store(loads_ptr + at, share, mask=real)
        length += tl.where(waiting, 0, 1)
        tl.store(actions_ptr + place * longest + step, action.to(tl.int64), mask=real)
        current = action
        step += 1
        if CVRP:
            left -= tl.where(current == 0, 0, 1)
            load = tl.where(current == 0, capacity, load - tl.load(demands_ptr + current).to(tl.int32))
            unfinished = real & ((left > 0) | (current > 0))
            going = (tl.max(unfinished.to(tl.int32), 0) > 0) & (step < longest)
        else:
            going = step < nodes
    tl.store(log_prob_ptr + place, log_prob, mask=real)
    if CVRP:
        sound = sound & (left == 0) & (current == 0)
    tl.store(lengths_ptr + place, tl.where(sound, length, 0), mask=real)
