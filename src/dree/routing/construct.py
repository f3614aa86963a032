"""The routes that a neural solver makes of a day, in the time that people wait for an answer."""

from __future__ import annotations

import math

import numpy as np

from dree.errors import DreeError
from dree.evaluation.evaluate import best_tours
from dree.problems import SYMMETRIES
from dree.problems.geography import Frame
from dree.routing.groups import routes_by_groups
from dree.routing.plan import Plan
from dree.routing.segments import tour_by_segments
from dree.solvers import Solver
from dree.tasks.orders import Orders

WHOLE = 150  # stops up to which a day is solved as a whole, from all starts


def construct(solver: Solver, orders: Orders, frame: Frame | None = None) -> Plan:
    """The day's routes, in the same way every time.

    A day as large as the solver knows is solved greedily from all starts and in all symmetric copies, and the shortest
    in the unit square is taken. A larger one is solved in parts.
    """
    if solver.rules.name != orders.problem:
        raise DreeError(f"This solver was made for {solver.rules.name}, these orders are a {orders.problem}.")
    frame = frame or orders.frame()
    if not math.isfinite(frame.extent):
        raise DreeError("The coordinates lie too far apart for floating-point numbers. Use larger units.")
    if len(orders.nodes) < 2:
        return Plan.of(orders, [range(len(orders.places))])
    instance = orders.instance(frame)
    if len(orders.places) <= WHOLE:
        best = best_tours(solver, instance, SYMMETRIES, precision="fp32")
        return Plan.of_actions(orders, best.actions.flatten().tolist())
    if orders.problem == "tsp":
        return Plan.of_actions(orders, tour_by_segments(solver, frame.to_unit(orders.nodes)).tolist())
    routes = routes_by_groups(solver, instance)
    return Plan.of(orders, [np.subtract(route, 1).tolist() for route in routes])
