"""Days of orders for tests of plans."""

from __future__ import annotations

import math

import numpy as np

from dree.tasks.orders import Orders

BERLIN = (13.4, 52.5)


def a_day(stops=12, seed=0, *, geographic=True, capacity=None, depot=True, units=1, name="2026-03-04") -> Orders:
    """A day around Berlin, or in a plane; with a capacity it has demands of 1 to 9 and a depot."""
    generator = np.random.default_rng(seed)
    scale, corner = ((0.2, 0.1), BERLIN) if geographic else ((40.0, 25.0), (-10.0, 300.0))
    places = generator.random((stops, 2)) * scale + corner
    names = tuple(f"stop {number}" for number in range(stops))
    start = tuple((np.array(corner) + np.multiply(scale, 0.4)).tolist()) if depot else None
    if capacity is None:
        return Orders(name, places, names, geographic, start)
    demands = generator.integers(1, 10, stops)
    return Orders(name, places, names, geographic, start, demands, capacity, units)


def kilometres(one, other) -> float:
    """The great-circle distance of two places, longitude first, by the angle between them as vectors."""
    (lng, lat), (other_lng, other_lat) = (tuple(map(math.radians, place)) for place in (one, other))
    first = (math.cos(lat) * math.cos(lng), math.cos(lat) * math.sin(lng), math.sin(lat))
    second = (math.cos(other_lat) * math.cos(other_lng), math.cos(other_lat) * math.sin(other_lng), math.sin(other_lat))
    return 6371.0088 * math.atan2(math.hypot(*np.cross(first, second)), float(np.dot(first, second)))


def length_of(plan) -> float:
    """The length of a plan, leg by leg."""
    between = kilometres if plan.orders.geographic else math.dist
    total = 0.0
    for route in plan.routes:
        places = [tuple(plan.orders.places[stop]) for stop in route]
        walk = [plan.orders.depot, *places] if plan.orders.depot else places
        total += sum(between(a, b) for a, b in zip(walk, [*walk[1:], walk[0]], strict=True))
    return total
