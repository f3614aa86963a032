"""Round trips longer than a solver was trained for: a first tour by insertion, whose segments the solver makes again.

A segment of a tour is a path between two stops that stay where they are. The solver, which makes round trips, is told
the way from one end to the other as the first decision; the rest of its round trip is a path between them.

Shapes: B segments of n stops each, C = 8 symmetric copies, 2 directions.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dree.problems import SYMMETRIES, Instances, augment, to_unit_square
from dree.problems.geography import Places
from dree.randomness import named_seed
from dree.solvers import Solver

Tour = NDArray[np.int64]  # nodes in the order of visits

LENGTHS = (100, 50, 100, 25)  # of segments, round by round
ROUNDS = 24
SHIFT = 0.382  # of the longest segment, by which the next round's are moved: no end stays an end for long


def tour_by_segments(solver: Solver, points: Places) -> Tour:
    """A tour of many points in a plane; the same every time."""
    tour = inserted(points)
    for number in range(ROUNDS):
        length = min(LENGTHS[number % len(LENGTHS)], len(tour))
        tour = np.roll(tour, -round(SHIFT * max(LENGTHS)))
        tour = _made_again(solver, points, tour, length)
    return tour


def inserted(points: Places) -> Tour:
    """A tour to which points are added in a random order, each where it makes the tour least longer."""
    order = np.random.default_rng(named_seed(0, "segments")).permutation(len(points)).tolist()
    tour = order[:1]
    for new in order[1:]:
        places = points[tour]
        there = np.linalg.norm(places - points[new], axis=1)
        detour = there + np.roll(there, -1) - np.linalg.norm(places - np.roll(places, -1, axis=0), axis=1)
        tour.insert(int(detour.argmin()) + 1, new)
    return np.array(tour)


def _made_again(solver: Solver, points: Places, tour: Tour, length: int) -> Tour:
    """The tour, each segment of this length from its first node on as the solver makes it, if that is shorter."""
    count = len(tour) // length
    segments, rest = tour[: count * length].reshape(count, length), tour[count * length :]
    new = np.take_along_axis(segments, paths(solver, points[segments]), axis=1)
    shorter = _lengths(points[new]) < _lengths(points[segments])
    return np.concatenate((np.where(shorter[:, None], new, segments).ravel(), rest))


def _lengths(paths_Bn2: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.linalg.norm(np.diff(paths_Bn2, axis=1), axis=2).sum(axis=1))


@torch.no_grad()
def paths(solver: Solver, points_Bn2: NDArray[np.float64]) -> Tour:
    """The order of visits on a greedy path from the first to the last node of each segment: [B, n]."""
    segments, nodes = len(points_Bn2), points_Bn2.shape[1]
    if nodes < 3:
        return np.tile(np.arange(nodes), (segments, 1))
    every = augment(to_unit_square(Instances(torch.from_numpy(points_Bn2))), SYMMETRIES)
    ends = torch.tensor([nodes - 1, 0]).expand(len(every), 2)
    encoding = solver.encode(every)
    state = solver.rules.begin(every, ends)
    state = solver.rules.advance(every, state, ends.flip(1))
    actions = [ends, ends.flip(1)]
    for _ in range(nodes - 2):
        slots = solver.decide(every, ends, state, encoding=encoding).argmax(-1, keepdim=True)
        actions.append(solver.candidates(every, state).gather(-1, slots).squeeze(-1))
        state = solver.rules.advance(every, state, actions[-1])
    return _best(solver.rules.cost(every, tours := torch.stack(actions, dim=-1)), tours, segments)


def _best(costs: Tensor, tours: Tensor, segments: int) -> Tour:
    """Of each segment the shortest over copies and directions, from its first node to its last."""
    costs = costs.view(SYMMETRIES, segments, 2).transpose(0, 1).flatten(1)
    tours = tours.view(SYMMETRIES, segments, 2, -1).transpose(0, 1).flatten(1, 2)
    best = tours[torch.arange(segments), costs.argmin(1)].roll(-1, dims=1).numpy()
    return np.where(best[:, :1] == 0, best, best[:, ::-1])
