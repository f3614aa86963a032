"""The routes that a neural solver makes of a day, in the time that people wait for an answer."""

from __future__ import annotations

import numpy as np

from dree.errors import DreeError
from dree.evaluation.evaluate import best_tours
from dree.problems import SYMMETRIES, Instances
from dree.problems.check import split_routes
from dree.problems.frame import FARTHEST
from dree.routing import groups, segments
from dree.routing.plan import Plan
from dree.solvers import Solver
from dree.tasks.orders import Orders

WHOLE = 100  # stops up to which a day is solved as a whole first; no solver was trained for more
PARTS = 30  # stops from which parts of the routes are made again


def construct(solver: Solver, orders: Orders) -> Plan:
    """The day's routes, in the same way every time; what is shorter is decided in the unit square.

    A day as large as solvers are trained for is solved greedily from all starts and in all symmetric copies; a larger
    one begins with an insertion or with sectors around the depot. Then parts of the routes are made again.
    """
    if solver.rules.name != orders.problem:
        raise DreeError(
            "This solver makes routes of vehicles, and no capacity is given. Add --capacity, or take another solver."
            if orders.problem == "tsp"
            else "This solver makes one round trip, and a capacity is given. Leave it out, or take another solver."
        )
    if np.abs(orders.nodes).max() > FARTHEST:
        raise DreeError("The coordinates lie too far apart for floating-point numbers. Use larger units.")
    if len(orders.nodes) < 2:
        return Plan.of(orders, [range(len(orders.places))])
    actions = _tour(solver, orders) if orders.problem == "tsp" else _routes(solver, orders.instance())
    return Plan.of_actions(orders, actions)


def _tour(solver: Solver, orders: Orders) -> list[int]:
    points = orders.frame().to_unit(orders.nodes)
    whole = len(orders.places) <= WHOLE
    tour = _whole(solver, orders.instance()) if whole else segments.inserted(points)
    return tour if len(orders.places) < PARTS else segments.shortened(solver, points, tour)


def _routes(solver: Solver, instance: Instances) -> list[int]:
    if instance.customers < PARTS:
        return _whole(solver, instance)
    whole = instance.customers <= WHOLE
    routes = split_routes(_whole(solver, instance)) if whole else groups.by_sectors(solver, instance)
    return [node for route in groups.shortened(solver, instance, routes) for node in (*route, 0)]


def _whole(solver: Solver, instance: Instances) -> list[int]:
    best: list[int] = best_tours(solver, instance, SYMMETRIES, precision="fp32").actions.flatten().tolist()
    return best
