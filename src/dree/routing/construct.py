"""The routes that a neural solver makes of a day, in the time that people wait for an answer."""

from __future__ import annotations

import math

from dree.errors import DreeError
from dree.evaluation.evaluate import best_tours
from dree.problems import SYMMETRIES
from dree.problems.geography import Frame
from dree.routing.plan import Plan
from dree.solvers import Solver
from dree.tasks.orders import Orders

STATES = 2**27  # copies x starts x nodes x nodes of a day that are decided on, about


def construct(solver: Solver, orders: Orders, frame: Frame | None = None) -> Plan:
    """The shortest of a solver's greedy tours over starts and symmetric copies; as the square shows the day."""
    if solver.rules.name != orders.problem:
        raise DreeError(f"This solver was made for {solver.rules.name}, {orders.day} is a {orders.problem}.")
    frame = frame or orders.frame()
    if not math.isfinite(frame.extent):
        raise DreeError("The coordinates lie too far apart for floating-point numbers. Use larger units.")
    if len(orders.nodes) < 2:
        return Plan.of(orders, [range(len(orders.places))])
    starts = max(1, STATES // (SYMMETRIES * len(orders.nodes) ** 2))
    best = best_tours(solver, orders.instance(frame), SYMMETRIES, precision="fp32", most_starts=starts)
    return Plan.of_actions(orders, best.actions.flatten().tolist())
