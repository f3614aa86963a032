"""An independent referee: feasibility and cost of tours in plain NumPy float64.

It shares no code with the rules that the solvers use, so that a mistake there cannot hide here.

Shapes: B instances, T actions of a tour, N nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dree.errors import DreeError

Rounding = Callable[[NDArray[np.float64]], NDArray[np.float64]]  # of the length of every leg, as libraries have it
Metric = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]  # from places to their partners


def straight(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Euclidean distances."""
    return np.asarray(np.sqrt(((second - first) ** 2).sum(axis=1)))


def split_routes(actions: Sequence[int]) -> list[list[int]]:
    """The routes between visits of the depot (node 0)."""
    routes: list[list[int]] = [[]]
    for node in actions:
        if node == 0:
            routes.append([])
        else:
            routes[-1].append(int(node))
    return [route for route in routes if route]


def check_tsp(
    coords: ArrayLike, tour: Sequence[int], rounding: Rounding | None = None, metric: Metric = straight
) -> float:
    """The length of a closed tour, which must visit every node exactly once."""
    points = np.asarray(coords, dtype=np.float64)
    if sorted(tour) != list(range(len(points))):
        raise DreeError(f"Not a tour of {len(points)} nodes: {_difference(tour, range(len(points)))}.")
    return _length(points, list(tour), rounding, metric)


def check_cvrp(
    coords: ArrayLike,
    demands: ArrayLike,
    capacity: int,
    actions: Sequence[int],
    rounding: Rounding | None = None,
    metric: Metric = straight,
) -> float:
    """The total length of routes from the depot that serve every customer once within capacity."""
    points = np.asarray(coords, dtype=np.float64)
    weights = np.asarray(demands, dtype=np.int64)
    routes = split_routes(actions)
    served = [node for route in routes for node in route]
    if sorted(served) != list(range(1, len(points))):
        raise DreeError(f"Customers are not served once each: {_difference(served, range(1, len(points)))}.")
    for route in routes:
        load = int(weights[route].sum())
        if load > capacity:
            raise DreeError(f"Route {route} carries {load}, over the capacity {capacity}.")
    return sum(_length(points, [0, *route], rounding, metric) for route in routes)


def check_tours(
    coords_BN2: ArrayLike,
    actions_BT: ArrayLike,
    demands_BN: ArrayLike | None = None,
    capacity_B: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """The costs of many tours [B], each of which must be one: of a CVRP where there are demands, else of a TSP."""
    points, walks = np.asarray(coords_BN2, dtype=np.float64), np.asarray(actions_BT, dtype=np.int64)
    rows, nodes = np.arange(len(points))[:, None], points.shape[1]
    known = (walks >= 0) & (walks < nodes)
    visits = np.bincount((rows * nodes + walks)[known], minlength=points[..., 0].size).reshape(-1, nodes)
    right = known.all(axis=1) & (visits[:, 1:] == 1).all(axis=1)
    if demands_BN is None or capacity_B is None:
        right &= visits[:, 0] == 1
    else:
        walks = np.pad(walks, ((0, 0), (1, 0)))  # from the depot
        demands = np.asarray(demands_BN, dtype=np.int64)[rows, np.where(right[:, None], walks, 0)]
        carried = np.where(walks == 0, 0, demands).cumsum(axis=1)
        since_depot = carried - np.maximum.accumulate(np.where(walks == 0, carried, 0), axis=1)
        right &= since_depot.max(axis=1) <= np.asarray(capacity_B)
    if not right.all():
        wrong = int(right.argmin())
        raise DreeError(f"What instance {wrong} has for a tour is none: {walks[wrong].tolist()}.")
    legs = points[rows, np.roll(walks, -1, axis=1)] - points[rows, walks]
    return np.asarray(np.sqrt((legs**2).sum(axis=2)).sum(axis=1))


def _length(points: NDArray[np.float64], walk: list[int], rounding: Rounding | None, metric: Metric) -> float:
    lengths = metric(points[walk], points[walk[1:] + walk[:1]])
    return float((lengths if rounding is None else rounding(lengths)).sum())


def _difference(seen: Sequence[int], wanted: range) -> str:
    missing = sorted(set(wanted) - set(seen))
    twice = sorted({node for node in seen if list(seen).count(node) > 1})
    strange = sorted(set(seen) - set(wanted))
    return f"missing {missing}, more than once {twice}, unknown {strange}"
