"""How far one policy is from another at many states of finished tours, and the gradient of that for the scores.

`nodes` is laid out as in `rollout`. States lie tour after tour, `steps` of each. What is blocked at a state follows
from the step at which each node of the tour is visited.
"""

from __future__ import annotations

import triton
import triton.language as tl

from dree.kernels.parts import clipped, marked, numbered, state_scores


@triton.jit(do_not_specialize=["tours", "steps", "nodes"])  # one kernel for all sizes
def imitation_kernel(  # type: ignore[no-untyped-def]
    nodes_ptr,  # [B, N, G, D]
    load_query_ptr,  # [B, 1, D], the same for all (CVRP)
    offset_ptr,  # [B, N]
    teacher_nodes_ptr,  # [B, N, G, D]
    teacher_load_query_ptr,  # [B, 1, D], the same for all (CVRP)
    teacher_offset_ptr,  # [B, N]
    actions_ptr,  # [B, P, S + 1]
    visited_at_ptr,  # [B, P, N]: the step at which each node is visited
    decisions_ptr,  # [B, P]: of each tour
    demands_ptr,  # [B, N] (CVRP)
    loads_ptr,  # [B, P, S]: what the vehicle can still take (CVRP)
    shares_ptr,  # [B, P, S]: as a share of the capacity (CVRP)
    distance_ptr,  # out [B, P, S]: KL(teacher || policy), zero after a tour's end
    gradient_ptr,  # out [B, P, S, NODES]: of the distance for the scores; minus zero where blocked
    logsum_ptr,  # out [B, P, S, H]: of the exponentials (to base 2) of the attention scores
    tours,
    steps,  # S
    nodes,
    clip,
    CVRP: tl.constexpr,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    GROUPS: tl.constexpr,
    NODES: tl.constexpr,
    TILES: tl.constexpr,
    STATES: tl.constexpr,
    DOT: tl.constexpr,
):
    """Some states of one instance. Where all tours have ended, every node is marked as blocked, and no logsum read."""
    instance = tl.program_id(1).to(tl.int64)
    state = tl.program_id(0) * STATES + tl.arange(0, STATES)
    real = state < tours * steps
    state = tl.minimum(state, tours * steps - 1)  # the last tile may have too many: they are the last state again
    step = state % steps
    tour = instance * tours + state // steps
    place = instance * tours * steps + state
    going = step < tl.load(decisions_ptr + tour)
    node = numbered(TILES)
    gradient_ptr += place[:, None] * NODES
    if tl.max(going.to(tl.int32), 0) == 0:
        tl.store(distance_ptr + place, 0.0, mask=real)
        for part in tl.static_range(len(TILES)):
            nothing = tl.zeros([STATES, node[part].shape[0]], gradient_ptr.dtype.element_ty)
            tl.store(gradient_ptr + node[part][None, :], marked(nothing, nothing == 0), mask=real[:, None])
    else:
        current = tl.load(actions_ptr + tour * (steps + 1) + step).to(tl.int32)
        if CVRP:
            load = tl.load(loads_ptr + place).to(tl.int32)
            context = tl.load(shares_ptr + place)
            home = (current == 0) & going
        else:
            context = tl.load(actions_ptr + tour * (steps + 1)).to(tl.int32)
        mask = ()
        for part in tl.static_range(len(TILES)):
            exists = node[part] < nodes
            visits = visited_at_ptr + tour[:, None] * nodes + node[part][None, :]
            blocked = tl.load(visits, mask=exists[None, :], other=-1) <= step[:, None]
            if CVRP:
                demand = tl.load(demands_ptr + instance * nodes + node[part], mask=exists, other=0).to(tl.int32)
                blocked = blocked | (demand[None, :] > load[:, None])
                blocked = tl.where(node[part][None, :] == 0, home[:, None], blocked)
            mask = mask + (tl.where(blocked, -float("inf"), 0.0),)
        scores = state_scores(
            teacher_nodes_ptr,
            teacher_load_query_ptr,
            teacher_offset_ptr,
            instance,
            current,
            context,
            mask,
            logsum_ptr,
            real,
            nodes,
            CVRP,
            False,
            HEADS,
            WIDTH,
            GROUPS,
            TILES,
            DOT,
        )
        target = ()
        target_total = tl.zeros([STATES], tl.float32)
        expected = tl.zeros([STATES], tl.float32)
        for part in tl.static_range(len(TILES)):
            away, chances = clipped(scores[part], mask[part], clip)
            target = target + (chances,)
            target_total += tl.sum(chances, 1)
            expected += tl.sum(chances * away, 1)
        scores = state_scores(
            nodes_ptr,
            load_query_ptr,
            offset_ptr,
            instance,
            current,
            context,
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
        below = ()
        policy = ()
        total = tl.zeros([STATES], tl.float32)
        found = tl.zeros([STATES], tl.float32)
        for part in tl.static_range(len(TILES)):
            away, chances = clipped(scores[part], mask[part], clip)
            below = below + (away,)
            policy = policy + (chances,)
            total += tl.sum(chances, 1)
            found += tl.sum(target[part] * away, 1)
        divergence = clip * (found - expected) / target_total + tl.log(total) - tl.log(target_total)
        tl.store(distance_ptr + place, tl.where(going, divergence, 0.0), mask=real)
        for part in tl.static_range(len(TILES)):
            gradient = policy[part] * (1 / total)[:, None] - target[part] * (1 / target_total)[:, None]
            gradient = (gradient * below[part] * (2 - below[part]) * clip).to(gradient_ptr.dtype.element_ty)
            tl.store(gradient_ptr + node[part][None, :], marked(gradient, mask[part] != 0), mask=real[:, None])
