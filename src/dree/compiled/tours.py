"""Kernels: tours as POMO's decoder makes them, and of given tours their log-probabilities, or how far the policy on
them is from another's, with the gradient of that.

Nothing of a decision outlives it. Learning goes through the tours once more, which takes less time than it would to
keep all that was computed on the way, and hardly any memory.

Shapes: B instances, P tours, T actions, N nodes, G groups of them, H heads, d width of a head, D = H * d.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from dree.compiled.decisions import (
    FIRST,
    LANES,
    LAST,
    ONE,
    ZERO,
    add,
    attend,
    compare,
    diverge,
    draw,
    likeliest,
    part,
    place,
    point,
    unattend,
    uncompare,
    unpoint,
    unweigh,
    weigh,
)
from dree.compiled.kernel import Kernel
from dree.compiled.vectors import load, splat

BELOW_ONE = np.float32(1 - 2**-20)  # a threshold clearly below the whole: no rounding passes it by

Array = np.ndarray[Any, Any]


class Batch(NamedTuple):
    """Instances as the decoder sees them, and their tours."""

    packed: Array  # [B, N, G, D]: the nodes
    query: Array  # [B, 1, D]: of a full load (CVRP)
    offset: Array  # [B, N]
    demands: Array  # [B, N]
    capacity: Array  # [B]
    actions: Array  # [B, P, T]


class Room(NamedTuple):
    """What a kernel writes for itself, of one instance, one tour and one decision."""

    nodes: Array  # [G, N, D]: vectors
    table: Array  # [N, N, H]: attention scores of all pairs of nodes
    context: Array  # [N, H]: what the start (TSP) or a full load (CVRP) adds to them
    weights: Array  # [N, H]: of attention to the open nodes
    clipped: Array  # [N, and more]: tanh of their scores
    policy: Array  # [N, and more]
    left: Array  # [N]: the customers to be served
    legal: Array  # [N, and one more]: the nodes that are open


@njit
def numbers(shape):
    """An array that begins where a line of the cache begins."""
    size = 1
    for length in shape:
        size *= length
    array = np.empty(size + LANES, np.float32)
    start = -(array.ctypes.data // 4) % LANES
    return array[start : start + size].reshape(shape)


@part
def make_room(N, H, D):
    """Room for instances of so many nodes."""
    return Room(
        numbers((FIRST + 1, N, D)),
        numbers((N, N, H)),
        numbers((N, H)),
        numbers((N, H)),
        numbers((N + LANES,)),
        numbers((N + LANES,)),
        np.empty(N, np.int64),
        np.empty(N + 1, np.int64),
    )


@part
def enter(batch, b, room, routed, H, d, D):
    """The nodes of an instance as vectors, and the table of their pairs."""
    for h in range(H):
        for i in range(d):
            for n in range(batch.packed.shape[1]):
                for g in range(batch.packed.shape[2]):
                    room.nodes[g, n, i * H + h] = batch.packed[b, n, g, h * d + i]
            if routed:
                room.nodes[FIRST, 0, i * H + h] = batch.query[b, 0, h * d + i]
    for m in range(batch.packed.shape[1]):
        compare(load(room.nodes, place(room.nodes, LAST, m), D), room.nodes, room.table, m, H, D)


@part
def leave(to_nodes, b, to_packed, to_query, routed, H, d):
    """The gradient of an instance's vectors as that of the network's nodes."""
    for h in range(H):
        for i in range(d):
            for n in range(to_packed.shape[1]):
                for g in range(to_packed.shape[2]):
                    to_packed[b, n, g, h * d + i] = to_nodes[g, n, i * H + h]
            if routed:
                to_query[b, 0, h * d + i] = to_nodes[FIRST, 0, i * H + h]


@part
def set_out(room, start, routed, H, D):
    """Begin a tour: look up what its start or the load adds, list the customers to come, and count them."""
    row = 0 if routed else start
    compare(load(room.nodes, place(room.nodes, FIRST, row), D), room.nodes, room.context, 0, H, D)
    count = 0
    for j in range(1 if routed else 0, room.nodes.shape[1]):
        room.left[count] = j
        count += j != start
    return row, count


@part
def look(room, offset, current, share, legal, count, clip, H, D):
    """Weigh the open nodes: what `attend` gives, then what `weigh` gives."""
    seen, inverse = attend(room.table, current, room.context, share, room.nodes, legal, count, room.weights, H, D)
    point(seen, room.nodes, offset, legal, count, room.clipped, D)
    whole, top = weigh(room.clipped, count, clip, room.policy)
    return seen, inverse, whole, top


@part
def spread(slopes, row, share, legal, count, to_table, to_context, H):
    """Add the gradient of attention scores to that of a row of the table, and of what the start or the load adds."""
    for i in range(count):
        slope = load(slopes, i * H, H)
        add(to_table, (row + legal[i]) * H, slope, H)
        add(to_context, legal[i] * H, splat(share, H) * slope, H)


@part
def choices(room, remaining, current, demands, load_left, routed):
    """List the nodes that are open now, and count them."""
    count = 0
    if routed and current != 0:
        room.legal[0] = 0
        count = 1
    for i in range(remaining):
        room.legal[count] = room.left[i]
        count += not routed or demands[room.left[i]] <= load_left
    return count


@part
def move(room, remaining, node, demands, load_left, capacity, routed):
    """Go to a node: how many customers remain, and how much the vehicle can take then."""
    if routed and node == 0:
        return remaining, capacity
    i = 0
    while room.left[i] != node:
        i += 1
    for k in range(i + 1, remaining):
        room.left[k - 1] = room.left[k]
    return remaining - 1, load_left - demands[node]


@cache
def rollout_kernel(H: int, d: int, routed: bool) -> Kernel:
    """Makes some tours of some instances; a length is zero if a tour cannot end, negative if scores were no numbers."""
    D = H * d

    def rollout(batch, uniform, lengths, clip, rows, tours):
        room = make_room(batch.packed.shape[1], H, D)
        for b in range(rows[0], rows[1]):
            enter(batch, b, room, routed, H, d, D)
            demands, offset, capacity = batch.demands[b], batch.offset[b], batch.capacity[b]
            for p in range(tours[0], tours[1]):
                current = batch.actions[b, p, 0]
                _, remaining = set_out(room, current, routed, H, D)
                load_left, sound, t = capacity - demands[current], True, 1
                while remaining > 0 or (routed and current != 0):
                    count = choices(room, remaining, current, demands, load_left, routed)
                    if count == 0 or t == batch.actions.shape[2]:
                        t = 0
                        break
                    pick = 0
                    if count > 1:
                        share = np.float32(load_left / capacity) if routed else ONE
                        seen, _ = attend(
                            room.table, current, room.context, share, room.nodes, room.legal, count, room.weights, H, D
                        )
                        point(seen, room.nodes, offset, room.legal, count, room.clipped, D)
                        if uniform.shape[0] > 0:
                            whole, _ = weigh(room.clipped, count, clip, room.policy)
                            pick = draw(room.policy, count, uniform[b, p, t - 1] * whole * BELOW_ONE)
                            sound = sound and math.isfinite(whole)
                        else:
                            pick = likeliest(room.clipped, count)
                            sound = sound and math.isfinite(room.clipped[pick])
                    current = room.legal[pick]
                    batch.actions[b, p, t] = current
                    remaining, load_left = move(room, remaining, current, demands, load_left, capacity, routed)
                    t += 1
                lengths[b, p] = t if sound else -t

    return Kernel(rollout, H, d, routed)


@cache
def learning_kernel(H: int, d: int, routed: bool, taught: bool) -> Kernel:
    """Log-probabilities of the tours of some instances, and the gradient of their weighted sum.

    With a teacher, the distance of its policies to ours instead; without one, `teacher` is the batch once more.
    """
    D = H * d

    def learn(batch, teacher, advantage, measured, to_packed, to_query, to_offset, clip, rows):
        N, actions = batch.packed.shape[1], batch.actions
        room = make_room(N, H, D)
        other = make_room(N, H, D) if taught else room
        to_nodes, to_table = numbers((FIRST + 1, N, D)), numbers((N, N, H))
        to_context, slopes = numbers((N, H)), numbers((N, H))
        for b in range(rows[0], rows[1]):
            enter(batch, b, room, routed, H, d, D)
            if taught:
                enter(teacher, b, other, routed, H, d, D)
            demands, offset, capacity = batch.demands[b], batch.offset[b], batch.capacity[b]
            hints = teacher.offset[b]
            to_nodes[:], to_table[:] = ZERO, ZERO
            for p in range(actions.shape[1]):
                current = actions[b, p, 0]
                first, remaining = set_out(room, current, routed, H, D)
                if taught:
                    set_out(other, current, routed, H, D)
                load_left, value, t = capacity - demands[current], 0.0, 1
                to_context[:] = ZERO
                while t < actions.shape[2] and (remaining > 0 or (routed and current != 0)):
                    count, pick = choices(room, remaining, current, demands, load_left, routed), 0
                    while pick < count and room.legal[pick] != actions[b, p, t]:
                        pick += 1
                    if pick == count:
                        value = -math.inf
                        break
                    if count > 1:
                        share = np.float32(load_left / capacity) if routed else ONE
                        seen, inverse, whole, top = look(room, offset, current, share, room.legal, count, clip, H, D)
                        if taught:
                            _, _, sum_, best = look(other, hints, current, share, room.legal, count, clip, H, D)
                            value += clip * (top - best) + math.log(whole) - math.log(sum_)
                            value += diverge(
                                room.clipped, room.policy, whole, other.clipped, other.policy, sum_, count, clip
                            )
                        else:
                            value += clip * (room.clipped[pick] - top) - math.log(whole)
                            unweigh(room.clipped, room.policy, count, pick, whole, clip * advantage[b, p])
                        to_seen = unpoint(room.policy, seen, room.nodes, to_nodes, to_offset[b], room.legal, count, D)
                        unattend(to_seen, inverse, room.weights, room.nodes, to_nodes, slopes, room.legal, count, H, D)
                        spread(slopes, current * N, share, room.legal, count, to_table, to_context, H)
                    current = room.legal[pick]
                    remaining, load_left = move(room, remaining, current, demands, load_left, capacity, routed)
                    t += 1
                measured[b, p] = value
                uncompare(to_context, 0, room.nodes, to_nodes, FIRST, first, H, D)
            for m in range(N):
                uncompare(to_table, m, room.nodes, to_nodes, LAST, m, H, D)
            leave(to_nodes, b, to_packed, to_query, routed, H, d)

    return Kernel(learn, H, d, routed, taught)
