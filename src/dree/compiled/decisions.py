"""One decision of POMO's decoder and its gradient, as parts of kernels.

A decision looks at the nodes that are open to it and at no others. Whatever belongs to one node is a vector, with the
heads side by side: lanes are in the order [d, H], where tensors of the network have [H, d].

Shapes: N nodes, G groups of them, H heads, d width of a head, D = H * d.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dree.compiled.vectors import by_head, dot, exp, highest, larger, load, repeat, splat, store, total

LAST, KEY, VALUE, POINTER, FIRST = range(5)  # the groups of nodes, as POMO projects them; of CVRP the last is the load
LANES = 16  # of nodes, where heads do not matter
ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)
LOWEST = np.float32(-3e38)

part = njit(inline="always")  # of a kernel: Numba reads it as if it stood there, so that numbers of lanes are known


@part
def place(nodes_GND, group, node):
    """Where a node's vector begins."""
    return (group * nodes_GND.shape[1] + node) * nodes_GND.shape[2]


@part
def add(array, start, vector, lanes):
    """Add to the numbers of an array from a place on."""
    store(array, start, load(array, start, lanes) + vector)


@part
def compare(query, nodes, scores, row, H, D):
    """The attention scores of a query at all nodes, as a row of a table [..., N, H]."""
    for j in range(nodes.shape[1]):
        key = load(nodes, place(nodes, KEY, j), D)
        store(scores, (row * nodes.shape[1] + j) * H, by_head(query, key, H))


@part
def attend(table, current, context, share, nodes, legal, count, weights, H, D):
    """Attention to the open nodes: what was seen, and one over the sum of the weights, which are not divided by it."""
    top, shares = splat(LOWEST, H), splat(share, H)
    for i in range(count):
        j = legal[i]
        x = load(table, (current * nodes.shape[1] + j) * H, H) + shares * load(context, j * H, H)
        store(weights, i * H, x)
        top = larger(x, top)
    whole, seen = splat(ZERO, H), splat(ZERO, D)
    for i in range(count):
        weight = exp(load(weights, i * H, H) - top)
        store(weights, i * H, weight)
        whole = whole + weight
        seen = seen + repeat(weight, D) * load(nodes, place(nodes, VALUE, legal[i]), D)
    inverse = splat(ONE, H) / whole
    return seen * repeat(inverse, D), inverse


@part
def point(seen, nodes, offset, legal, count, clipped, D):
    """The tanh of the scores of the open nodes, and of nodes beyond them, which are never chosen."""
    for i in range(count):
        pointer = load(nodes, place(nodes, POINTER, legal[i]), D)
        clipped[i] = dot(seen, pointer) + offset[legal[i]]
    one, two = splat(ONE, LANES), splat(TWO, LANES)
    for i in range(0, count, LANES):
        store(clipped, i, one - two / (exp(two * load(clipped, i, LANES)) + one))
    store(clipped, count, splat(LOWEST, LANES))


@part
def weigh(clipped, count, clip, policy):
    """The probabilities of the open nodes before they are divided by their sum; the sum, and the highest score."""
    most = splat(LOWEST, LANES)
    for i in range(0, count, LANES):
        most = larger(load(clipped, i, LANES), most)
    top = highest(most)
    clips, tops, whole = splat(clip, LANES), splat(top, LANES), splat(ZERO, LANES)
    for i in range(0, count, LANES):
        chance = exp(clips * (load(clipped, i, LANES) - tops))
        store(policy, i, chance)
        whole = whole + chance
    return total(whole), top


@part
def draw(policy, count, threshold):
    """The first node with which the sum of probabilities passes a threshold."""
    passed, pick = policy[0], 0
    while pick < count - 1 and not passed > threshold:
        pick += 1
        passed += policy[pick]
    return pick


@part
def likeliest(clipped, count):
    """The first of the nodes that nothing is likelier than."""
    pick = 0
    for i in range(1, count):
        if clipped[i] > clipped[pick]:
            pick = i
    return pick


@part
def unweigh(clipped, policy, count, pick, whole, factor):
    """The gradient of the chosen node's log-probability for the scores, times a factor, in place of the policy."""
    for i in range(count):
        slope = (ONE if i == pick else ZERO) - policy[i] / whole
        policy[i] = factor * slope * (ONE - clipped[i] * clipped[i])


@part
def diverge(clipped, policy, whole, teacher_clipped, teacher_policy, teacher_whole, count, clip):
    """KL(teacher || policy), but for the difference of the sums and of the highest scores.

    The gradient of that for the scores comes in place of the policy.
    """
    distance = ZERO
    for i in range(count):
        target = teacher_policy[i] / teacher_whole
        distance += target * (teacher_clipped[i] - clipped[i])
        policy[i] = clip * (policy[i] / whole - target) * (ONE - clipped[i] * clipped[i])
    return clip * distance


@part
def unpoint(slopes, seen, nodes, to_nodes, to_offset, legal, count, D):
    """Add the gradient of scores to that of pointers and offsets; the gradient for what was seen."""
    to_seen = splat(ZERO, D)
    for i in range(count):
        slope, where = splat(slopes[i], D), place(nodes, POINTER, legal[i])
        to_seen = to_seen + slope * load(nodes, where, D)
        add(to_nodes, where, slope * seen, D)
        to_offset[legal[i]] += slopes[i]
    return to_seen


@part
def unattend(to_seen, inverse, weights, nodes, to_nodes, slopes, legal, count, H, D):
    """Add the gradient of what was seen to that of values; the gradient for attention scores, in place of slopes."""
    mean = splat(ZERO, H)
    for i in range(count):
        weight, where = load(weights, i * H, H) * inverse, place(nodes, VALUE, legal[i])
        slope = weight * by_head(to_seen, load(nodes, where, D), H)
        add(to_nodes, where, repeat(weight, D) * to_seen, D)
        store(weights, i * H, weight)
        store(slopes, i * H, slope)
        mean = mean + slope
    for i in range(count):
        store(slopes, i * H, load(slopes, i * H, H) - load(weights, i * H, H) * mean)


@part
def uncompare(slopes, row, nodes, to_nodes, group, node, H, D):
    """Add the gradient of a query's attention scores at all nodes to that of the keys and of the query."""
    query, to_query = load(nodes, place(nodes, group, node), D), splat(ZERO, D)
    for j in range(nodes.shape[1]):
        slope, where = repeat(load(slopes, (row * nodes.shape[1] + j) * H, H), D), place(nodes, KEY, j)
        to_query = to_query + slope * load(nodes, where, D)
        add(to_nodes, where, slope * query, D)
    add(to_nodes, place(nodes, group, node), to_query, D)
