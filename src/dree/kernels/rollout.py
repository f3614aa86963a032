"""A whole rollout in one kernel: each program takes some tours of one instance from their starts to their ends.

What the nodes are to the decoder lies in one tensor `nodes` [B, N, G, D]: query as last node, key (scaled), value and
pointer, and for TSP the query as start. The nodes are cut into tiles, whose sizes are powers of two as the compiler
wants them. Padded nodes are only in registers and on the tape, padded tours in registers.
"""

from __future__ import annotations

import triton
import triton.language as tl

from dree.kernels.parts import clipped, numbered, state_scores

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
    TILES: tl.constexpr,
    TOURS: tl.constexpr,
    DOT: tl.constexpr,
):
    """Tours of one instance, step by step."""
    instance = tl.program_id(1).to(tl.int64)
    tour = tl.program_id(0) * TOURS + tl.arange(0, TOURS)
    real = tour < tours
    node = numbered(TILES)
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
    mask = ()
    triangles = ()  # products with them cumulate
    for part in tl.static_range(len(TILES)):
        here = node[part]
        gone = (here[None, :] == current[:, None]) | (here[None, :] >= nodes)
        mask = mask + (tl.where(gone, -float("inf"), 0.0),)
        triangles = triangles + ((here[:, None] <= here[None, :]).to(nodes_ptr.dtype.element_ty),)
    step = 1
    while going:
        if CVRP:
            share = load.to(tl.float32) / capacity
            home = tl.where((current == 0) & (left > 0), FULL, 0.0)
            before, mask = mask, ()
            for part in tl.static_range(len(TILES)):
                demand = tl.load(demands_ptr + node[part], mask=node[part] < nodes, other=0).to(tl.int32)
                fits = tl.where(demand[None, :] > load[:, None], FULL, 0.0)
                fits = tl.where(node[part][None, :] == 0, home[:, None], fits)
                mask = mask + (tl.where(before[part] == -float("inf"), before[part], fits),)
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
            TILES,
            DOT,
        )
        below = ()
        policy = ()
        cumulated = ()
        total = tl.zeros([TOURS], tl.float32)
        for part in tl.static_range(len(TILES)):
            away, chances = clipped(scores[part], mask[part], clip)
            below = below + (away,)
            policy = policy + (chances,)
            if SAMPLE:
                high = chances.to(triangles[part].dtype)
                low = (chances - high.to(tl.float32)).to(high.dtype)
                sums = tl.dot(high, triangles[part], input_precision=DOT)
                sums = tl.dot(low, triangles[part], sums, input_precision=DOT)
                if part > 0:
                    sums += total[:, None]
                cumulated = cumulated + (sums,)
                total = tl.max(sums, 1)
            else:
                total += tl.sum(chances, 1)
        if SAMPLE:
            # The first allowed node whose cumulated probability passes a uniform number, clear of rounding at the end.
            action = tl.full([TOURS], 0, tl.int32) + nodes - 1
            uniform = tl.rand(seed, (place * longest + step).to(tl.int32))
            threshold = uniform * total * (1 - 2e-6)
            for part in tl.static_range(len(TILES)):
                passed = (cumulated[part] > threshold[:, None]) & (policy[part] > 0)
                action = tl.minimum(action, tl.min(tl.where(passed, node[part][None, :], nodes - 1), 1))
        else:
            action = tl.zeros([TOURS], tl.int32)
            highest = tl.zeros([TOURS], tl.float32)
            for part in tl.static_range(len(TILES)):
                allowed = tl.where(policy[part] > 0, policy[part], 0.0)
                best = tl.max(allowed, 1)
                first = tl.min(tl.where(allowed == best[:, None], node[part][None, :], nodes - 1), 1)
                action = tl.where(best > highest, first, action)
                highest = tl.maximum(highest, best)
        sound = sound & (total > 0)  # not where all nodes are blocked, or weights are no numbers
        action = tl.where(sound, action, 0)
        # A finished CVRP tour stays at the depot.
        waiting = left < 0
        if CVRP:
            waiting = (left == 0) & (current == 0)
        before, mask = mask, ()
        taken_below = tl.zeros([TOURS], tl.float32)
        for part in tl.static_range(len(TILES)):
            taken = node[part][None, :] == action[:, None]
            mask = mask + (tl.where(taken & (node[part][None, :] >= CVRP), -float("inf"), before[part]),)
            if RECORD:
                slope = below[part] * (2 - below[part]) * clip + 1e-20  # so that allowed nodes never have minus zero
                share_of_slope = policy[part] * (1 / total)[:, None] * slope
                gradient = tl.where(taken, slope - share_of_slope, share_of_slope * -1.0)
                cell = at[:, None] * NODES + node[part][None, :]
                tl.store(tape_ptr + cell, gradient.to(tape_ptr.dtype.element_ty), mask=real[:, None])
                taken_below += tl.sum(tl.where(taken, below[part], 0.0), 1)
        if RECORD:
            log_prob += tl.where(waiting, 0.0, -clip * taken_below - tl.log(total))
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
