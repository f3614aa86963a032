"""Many stops around a depot: sectors first, then groups of routes that lie near another, which are made again.

A group of routes is a problem of its own, of a size that the solver knows well. Its routes are replaced where the
solver makes shorter ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from dree.evaluation.evaluate import best_tours
from dree.problems import SYMMETRIES, Instances, to_unit_square
from dree.problems.check import split_routes
from dree.problems.geography import Places
from dree.randomness import named_seed
from dree.solvers import Solver

Routes = list[list[int]]  # nodes, without the depot

SIZES = (25, 50, 100)  # stops of a group, round by round
ROUNDS = (12, 6)  # up to 300 stops, and from 600 on
WORK = 3600  # rounds times stops in between
STARTS = 25  # of a group's tours, for each of its symmetric copies


def by_sectors(solver: Solver, instance: Instances) -> Routes:
    """Routes for sectors around the depot, each solved alone."""
    order = _around(instance.coords[0].double().numpy())
    sectors = np.array_split(order, -(-instance.customers // max(SIZES)))
    return [route for sector in sectors for route in _solved(solver, instance, sector)]


def shortened(solver: Solver, instance: Instances, routes: Routes) -> Routes:
    """Routes of which groups were made again where that is shorter; the same every time."""
    points = instance.coords[0].double().numpy()
    most, least = ROUNDS
    for number in range(min(most, max(least, WORK // instance.customers))):
        size = SIZES[number % len(SIZES)]
        if size < instance.customers:
            generator = np.random.default_rng(named_seed(0, "groups", number))
            groups = _near(points, routes, size, generator)
            routes = [route for group in groups for route in _shorter(solver, instance, group)]
    return routes


def _around(points: Places) -> NDArray[np.int64]:
    """The stops by their direction from the depot."""
    east, north = (points[1:] - points[0]).T
    return np.argsort(np.arctan2(north, east), kind="stable") + 1


def _near(points: Places, routes: Routes, size: int, generator: np.random.Generator) -> list[Routes]:
    """Groups of up to so many stops: routes whose middles are near that of a random one."""
    middles = np.array([points[route].mean(0) for route in routes])
    left, groups = list(range(len(routes))), []
    while left:
        first = left[generator.integers(len(left))]
        left.sort(key=lambda each: (float(np.linalg.norm(middles[each] - middles[first])), each))
        sizes = np.cumsum([len(routes[each]) for each in left])
        count = max(1, int((sizes <= size).sum()))
        groups.append([routes[each] for each in left[:count]])
        left = left[count:]
    return groups


def _shorter(solver: Solver, instance: Instances, group: Routes) -> Routes:
    """The routes of a group, or the solver's own if they are shorter."""
    found = _solved(solver, instance, np.array([node for route in group for node in route]))
    return found if _length(instance, found) < _length(instance, group) else group


def _solved(solver: Solver, instance: Instances, nodes: NDArray[np.int64]) -> Routes:
    """The solver's routes over some of the stops."""
    chosen = torch.from_numpy(np.concatenate(([0], nodes)))
    assert instance.demands is not None
    part = replace(instance, coords=instance.coords[:, chosen], demands=instance.demands[:, chosen])
    best = best_tours(solver, to_unit_square(part), SYMMETRIES, precision="fp32", most_starts=STARTS)
    return [chosen[route].tolist() for route in split_routes(best.actions.flatten().tolist())]


def _length(instance: Instances, routes: Sequence[Sequence[int]]) -> float:
    points = instance.coords[0].double().numpy()
    return sum(float(np.linalg.norm(np.diff(points[[0, *route, 0]], axis=0), axis=1).sum()) for route in routes)
