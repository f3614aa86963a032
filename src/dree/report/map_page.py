"""A plan on a map: one page that works offline, with the routes to look into, and as tables for printing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dree.data.orders import OrderFile
from dree.files import write_bytes
from dree.report.page import template
from dree.report.plan_table import contribution, load_of, write_length, write_number
from dree.report.style import line_colour, line_style
from dree.routing import Plan, Share

MOST_ROWS = 200  # that are on no route and are listed
LONGEST = 300  # letters of such a row
AT_DEPOT = "at the depot itself, to be handed over there"
DASH = 1.6  # dashes of the map's lines are so much longer than a figure's


def write_map(path: Path, plan: Plan, shares: Sequence[Share] = (), source: OrderFile | None = None) -> Path:
    """Write the page. What must be known of the file, such as that rows are not routed, stands at its top."""
    html = template("map.html.j2").render(
        title=f"Routes of {plan.orders.day}",
        facts=_facts(plan),
        made=[
            contribution(shares[number - 1] if number else None, share, plan.unit)
            for number, share in enumerate(shares)
        ],
        warnings=_warnings(source),
        left_out=_left_out(plan, source),
        geographic=plan.orders.geographic,
        unit=plan.unit,
        loaded=plan.loads is not None,
        routes=_routes(plan),
        data=map_data(plan),
    )
    return write_bytes(path, html.encode("utf-8"))


def map_data(plan: Plan) -> dict[str, Any]:
    """What the map's script draws: points in a square whose longer side is 1, y downwards."""
    frame = plan.orders.frame()
    points = frame.to_unit(plan.orders.nodes) * (1, -1)
    stops = points if plan.orders.depot is None else points[1:]
    visits = list(plan.visits)
    return {
        "unit": plan.unit,
        "extent": frame.extent,
        "depot": None if plan.orders.depot is None else _rounded(points[0]),
        "routes": [
            {
                "colour": line_colour(number),
                "dashes": [DASH * part for part in line_style(number)[1]],
                "stops": [
                    {"at": _rounded(stops[visit.stop]), "name": visit.name, "words": _words(visit, plan)}
                    for visit in visits
                    if visit.route == number + 1
                ],
            }
            for number in range(len(plan.routes))
        ],
    }


def _warnings(source: OrderFile | None) -> list[str]:
    """What whoever looks at the map must know."""
    if source is None:
        return []
    if not source.bad:
        return list(source.notes)
    rows = "1 row" if len(source.bad) == 1 else f"{len(source.bad)} rows"
    left_out = f"{rows} of {source.path.name} could not be used; what they order is on no route: see the table below."
    return [left_out, *source.notes]


def _left_out(plan: Plan, source: OrderFile | None) -> list[tuple[str, str, str]]:
    """Line, reason and content of what is on no route; of very many rows the first ones, and how many more."""
    there = [("", AT_DEPOT, name) for name in plan.orders.at_depot]
    bad = () if source is None else source.bad
    rows = [(str(row.line), row.reason, row.text[:LONGEST]) for row in bad[:MOST_ROWS]]
    more = [("", f"and {len(bad) - MOST_ROWS} more rows, which --json lists", "")] if len(bad) > MOST_ROWS else []
    return [*there, *rows, *more]


def _rounded(point: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
    return [round(float(value), 7) for value in point]


def _words(visit: Any, plan: Plan) -> list[str]:
    """What is said of a stop below its name."""
    who = [visit.recipient] if visit.recipient else []
    demand = [] if visit.demand is None else [f"demand {write_number(visit.demand)}"]
    place = _place(visit.place, plan.orders.geographic)
    start = "the start" if plan.orders.depot is None else "the depot"
    after = f"after {write_length(visit.distance, plan.unit)} from {start}"
    return [*who, f"route {visit.route}, stop {visit.position}", *demand, after, place]


def _place(place: tuple[float, float], geographic: bool) -> str:
    first, second = place
    return f"{second:.6f}, {first:.6f}" if geographic else f"{write_number(first)}, {write_number(second)}"


def _facts(plan: Plan) -> dict[str, str]:
    facts = {"length": write_length(plan.length, plan.unit), "stops": str(len(plan.orders.places))}
    if plan.orders.depot is not None:
        facts["routes"] = str(len(plan.routes))
    if plan.loads is not None and plan.capacity is not None:
        facts |= {"load": write_number(sum(plan.loads)), "capacity of a vehicle": write_number(plan.capacity)}
    return facts


def _routes(plan: Plan) -> list[dict[str, Any]]:
    """What legend and tables say of each route."""
    visits = list(plan.visits)
    found = []
    for number, (route, length) in enumerate(zip(plan.routes, plan.lengths, strict=True), start=1):
        stops = f"{len(route)} stop{'s' * (len(route) != 1)}"
        load = [] if plan.loads is None else [f"load {load_of(plan, number)}"]
        rows = [
            {
                "position": visit.position,
                "name": f"{visit.name}, {visit.recipient}" if visit.recipient else visit.name,
                "place": _place(visit.place, plan.orders.geographic),
                "demand": None if visit.demand is None else write_number(visit.demand),
                "distance": write_length(visit.distance, plan.unit, bare=True),
            }
            for visit in visits
            if visit.route == number
        ]
        summary = ", ".join([stops, *load, write_length(length, plan.unit)])
        found.append({"number": number, "colour": line_colour(number - 1), "summary": summary, "rows": rows})
    return found
