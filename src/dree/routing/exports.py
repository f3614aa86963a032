"""A plan for other programs: plain values, rows of a table, and GeoJSON."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from dree.errors import DreeError
from dree.problems.geography import Places
from dree.routing.plan import Plan
from dree.tasks.orders import Orders

METRES = 3  # decimals of a kilometre
PLACE = 7  # decimals of a degree, about a centimetre


def as_plain(plan: Plan) -> dict[str, Any]:
    """Plain values: `routes` lists node numbers, and `nodes` says what they are; with a depot, node 0 is the depot."""
    orders, first = plan.orders, plan.orders.depot is not None
    nodes = [{"name": name, **_place(place, plan)} for name, place in zip(orders.names, orders.places, strict=True)]
    if orders.recipients is not None:
        nodes = [{**node, "recipient": each} for node, each in zip(nodes, orders.recipients, strict=True)]
    if orders.demands is not None:
        nodes = [{**node, "demand": plan.amount(each)} for node, each in zip(nodes, orders.demands, strict=True)]
    depot = [{"name": "depot", **_place(orders.nodes[0], plan)}] if first else []
    content: dict[str, Any] = {
        "problem": orders.problem,
        "day": orders.day,
        "unit": plan.unit or None,
        "cost": plan.length,
        "routes": [[stop + first for stop in route] for route in plan.routes],
        "lengths": plan.lengths,
        "at_depot": list(orders.at_depot),
    }
    if plan.loads is not None:
        content |= {"loads": plan.loads, "capacity": plan.capacity}
    return {**content, "nodes": [*depot, *nodes]}


def as_rows(plan: Plan) -> list[dict[str, Any]]:
    """A row for each stop, in the order in which they are visited."""
    rows = []
    for visit in plan.visits:
        row: dict[str, Any] = {"route": visit.route, "position": visit.position, "name": visit.name}
        row |= {} if visit.recipient is None else {"recipient": visit.recipient}
        row |= _place(np.array(visit.place), plan)
        if visit.demand is not None:
            row["demand"] = visit.demand
        rows.append({**row, "distance": round(visit.distance, METRES) if plan.orders.geographic else visit.distance})
    return rows


def as_geojson(plan: Plan) -> dict[str, Any]:
    """A feature collection (RFC 7946): a line for each route, then a point for each stop and the depot."""
    check_geographic(plan.orders)
    lines = [
        _feature(
            _line(plan.walk(route)),
            {"kind": "route", "route": number, "stops": len(route), "length_km": round(length, METRES)}
            | ({} if plan.loads is None else {"load": plan.loads[number - 1]}),
        )
        for number, (route, length) in enumerate(zip(plan.routes, plan.lengths, strict=True), start=1)
    ]
    points = [
        _feature(
            {"type": "Point", "coordinates": _position(np.array(visit.place))},
            {"kind": "stop", "route": visit.route, "position": visit.position, "name": visit.name}
            | ({} if visit.recipient is None else {"recipient": visit.recipient})
            | ({} if visit.demand is None else {"demand": visit.demand})
            | {"distance_km": round(visit.distance, METRES)},
        )
        for visit in plan.visits
    ]
    if plan.orders.depot is not None:
        place = {"type": "Point", "coordinates": _position(plan.orders.nodes[0])}
        points.append(_feature(place, {"kind": "depot", "name": "depot"}))
    return {"type": "FeatureCollection", "features": [*lines, *points]}


def check_geographic(orders: Orders) -> None:
    """Refuse what GeoJSON cannot say."""
    if not orders.geographic:
        raise DreeError(
            "GeoJSON is for longitudes and latitudes, and this file has plain x and y, whose place on the earth nobody "
            "knows. Take --csv or --json."
        )


def _place(place: Places, plan: Plan) -> dict[str, float]:
    """A place by the names of its coordinates."""
    first, second = place.tolist()
    return {"lat": second, "lon": first} if plan.orders.geographic else {"x": first, "y": second}


def _feature(geometry: dict[str, Any], properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Feature", "geometry": geometry, "properties": properties}


def _position(place: Places) -> list[float]:
    return [round(value, PLACE) for value in place.tolist()]


def _line(walk: Places) -> dict[str, Any]:
    """A line through places; cut where it crosses the 180th meridian, as the standard asks."""
    parts: list[list[list[float]]] = [[_position(walk[0])]]
    for first, second in pairwise(walk):
        for leaving, entering in _crossing(first, second):
            parts[-1].append(leaving)
            parts.append([entering])
        parts[-1].append(_position(second))
    # A part of one place alone is none: a stop on that meridian itself has one on its other side.
    lines = [part for part in parts if any(place != part[0] for place in part)] or parts[:1]
    if len(lines) == 1:
        return {"type": "LineString", "coordinates": lines[0]}
    return {"type": "MultiLineString", "coordinates": lines}


def _crossing(first: Places, second: Places) -> Iterator[tuple[list[float], list[float]]]:
    """Where a leg leaves one side of the 180th meridian and enters the other; nothing for all other legs."""
    (lng, lat), (other_lng, other_lat) = first.tolist(), second.tolist()
    if abs(other_lng - lng) <= 180:
        return
    side = 180.0 if lng > 0 else -180.0
    whole = abs(side - lng) + abs(-side - other_lng)
    at = round(lat + (other_lat - lat) * (abs(side - lng) / whole if whole else 0.0), PLACE)
    yield [side, at], [-side, at]
