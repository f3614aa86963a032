"""Long round trips: a tour whose segments the solver makes again, each of a size that it knows well.

A segment of a tour is a path between two stops that stay where they are. The solver, which makes round trips, is told
the way from one end to the other as the first decision; the rest of its round trip is a path between them.

Shapes: B segments of n stops each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from dree.problems import SYMMETRIES, Instances, Tours, augment, to_unit_square
from dree.problems.geography import Places
from dree.randomness import named_seed
from dree.solvers import Solver

Tour = NDArray[np.int64]  # nodes in the order of visits

LENGTHS = (40, 20, 10)  # of segments, round by round
ROUNDS = 100
IDLE = SYMMETRIES * len(LENGTHS)  # rounds that bring nothing, after which it ends
SHIFT = 0.382  # of the longest segment, by which the next round's are moved: no end stays an end for long
INSERTIONS = 16


def shortened(solver: Solver, points: Places, tour: Sequence[int]) -> list[int]:
    """A tour whose segments the solver has made again where that is shorter; each round in another symmetric copy."""
    nodes, last = np.array(tour), 0
    for number in range(ROUNDS):
        length = min(LENGTHS[number % len(LENGTHS)], len(nodes))
        nodes = np.roll(nodes, -round(SHIFT * max(LENGTHS)) - number % 3)
        better = _made_again(solver, points, nodes, length, number % SYMMETRIES)
        last = number if (better != nodes).any() else last
        nodes = better
        if number - last >= IDLE:
            break
    found: list[int] = nodes.tolist()
    return found


def inserted(points: Places) -> list[int]:
    """The shortest of some tours by insertion; the same every time."""
    orders = [np.random.default_rng(named_seed(0, "insertion", number)) for number in range(INSERTIONS)]
    tours = [_inserted(points, order.permutation(len(points)).tolist()) for order in orders]
    return min(tours, key=lambda tour: float(_lengths(points[[[*tour, tour[0]]]])[0]))


def _inserted(points: Places, order: Sequence[int]) -> list[int]:
    """A tour to which points are added one by one, each where it makes the tour least longer."""
    tour = [order[0]]
    for new in order[1:]:
        places = points[tour]
        there = np.linalg.norm(places - points[new], axis=1)
        detour = there + np.roll(there, -1) - np.linalg.norm(places - np.roll(places, -1, axis=0), axis=1)
        tour.insert(int(detour.argmin()) + 1, new)
    return tour


def _made_again(solver: Solver, points: Places, tour: Tour, length: int, copy: int) -> Tour:
    """The tour, each segment of this length from its first node on as the solver makes it, if that is shorter."""
    count = len(tour) // length
    segments, rest = tour[: count * length].reshape(count, length), tour[count * length :]
    new = np.take_along_axis(segments, paths(solver, points[segments], copy), axis=1)
    shorter = _lengths(points[new]) < _lengths(points[segments])
    return np.concatenate((np.where(shorter[:, None], new, segments).ravel(), rest))


def _lengths(paths_Bn2: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.linalg.norm(np.diff(paths_Bn2, axis=1), axis=2).sum(axis=1))


@torch.no_grad()
def paths(solver: Solver, points_Bn2: NDArray[np.float64], copy: int = 0) -> Tour:
    """The order of visits on the shorter of two greedy paths, there and back, between the ends of segments: [B, n]."""
    segments, nodes = len(points_Bn2), points_Bn2.shape[1]
    if nodes < 3:
        return np.tile(np.arange(nodes), (segments, 1))
    every = augment(to_unit_square(Instances(torch.from_numpy(points_Bn2))))[copy * segments : (copy + 1) * segments]
    ends = torch.tensor([nodes - 1, 0]).expand(segments, 2)
    encoding = solver.encode(every)
    state = solver.rules.begin(every, ends)
    state = solver.rules.advance(every, state, ends.flip(1))
    actions = [ends, ends.flip(1)]
    for _ in range(nodes - 2):
        slots = solver.decide(every, ends, state, encoding=encoding).argmax(-1, keepdim=True)
        actions.append(solver.candidates(every, state).gather(-1, slots).squeeze(-1))
        state = solver.rules.advance(every, state, actions[-1])
    tours = torch.stack(actions, dim=-1)
    best = Tours(tours, solver.rules.cost(every, tours)).best().actions[:, 0].roll(-1, dims=1).numpy()
    return np.where(best[:, :1] == 0, best, best[:, ::-1])
