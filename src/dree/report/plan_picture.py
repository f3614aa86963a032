"""A picture of a plan."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from dree.report.plan_table import write_length
from dree.report.routes import draw_routes
from dree.routing import Plan


def draw_plan(plan: Plan) -> Figure:
    """The routes as the day's frame shows them, north upwards."""
    orders = plan.orders
    frame = orders.frame()
    points = frame.to_unit(orders.nodes) * frame.extent if orders.geographic else orders.nodes
    length = write_length(plan.length, plan.unit)
    title = f"{orders.day}: {length}"
    if orders.depot is None:
        return draw_routes(points, plan.routes[0], "tsp", title, length=length)
    actions = [node for route in plan.routes for node in (*(stop + 1 for stop in route), 0)]
    if orders.demands is None or orders.units != 1:
        return draw_routes(points, actions, "cvrp", title, length=length)
    demands = np.concatenate(([0], orders.demands))
    return draw_routes(points, actions, "cvrp", title, demands, orders.capacity, length)
