"""A plan: which route visits which stop when, and how far that is in the customer's own unit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from dree.problems.check import check_cvrp, check_tsp, split_routes
from dree.problems.geography import Places, distances
from dree.tasks.orders import Orders

Routes = tuple[tuple[int, ...], ...]  # stops by number, from 0, in the order of visits


@dataclass(frozen=True)
class Visit:
    """One stop of a route."""

    route: int  # from 1
    position: int  # on its route, from 1
    stop: int  # among the day's, from 0
    name: str
    place: tuple[float, float]  # longitude and latitude, or x and y
    demand: float | None  # in the customer's unit
    distance: float  # on this route up to here
    recipient: str | None  # who is there, where the customer says that of any stop


@dataclass(frozen=True, eq=False)
class Plan:
    """Routes that visit every stop of a day once and carry no more than a vehicle can; others are refused."""

    orders: Orders
    routes: Routes

    def __post_init__(self) -> None:
        """Refuse what is no plan."""
        _ = self.length

    @staticmethod
    def of(orders: Orders, routes: Iterable[Sequence[int]]) -> Plan:
        """Routes in the order in which they lie around the depot, by the clock; a round trip begins with stop 0."""
        if orders.depot is None:
            (tour,) = routes
            first = list(tour).index(0)
            return Plan(orders, ((*tour[first:], *tour[:first]),))
        points = orders.frame().to_unit(orders.nodes)
        middles = [(points[np.add(route, 1)].mean(0) - points[0], tuple(route)) for route in routes if len(route)]
        around = sorted(middles, key=lambda each: (float(np.arctan2(*each[0])) % (2 * np.pi), each[1]))
        return Plan(orders, tuple(route for _, route in around))

    @staticmethod
    def of_actions(orders: Orders, actions: Sequence[int]) -> Plan:
        """The plan that a solver's actions on the day's instance describe."""
        if orders.depot is None:
            return Plan.of(orders, [actions])
        if orders.problem == "tsp":
            first = list(actions).index(0)
            actions = [*actions[first:], *actions[:first]]
        return Plan.of(orders, [[node - 1 for node in route] for route in split_routes(actions)])

    @cached_property
    def length(self) -> float:
        """The whole length, by the independent referee: kilometres along great circles, or the unit of x and y."""
        orders, metric = self.orders, partial(distances, geographic=self.orders.geographic)
        if orders.demands is not None and orders.capacity is not None:
            demands = np.concatenate(([0], orders.demands))
            actions = [node for route in self.routes for node in (*np.add(route, 1).tolist(), 0)]
            return check_cvrp(orders.nodes, demands, orders.capacity, actions, metric=metric)
        (route,) = self.routes
        tour = list(route) if orders.depot is None else [0, *np.add(route, 1).tolist()]
        return check_tsp(orders.nodes, tour, metric=metric)

    @cached_property
    def lengths(self) -> list[float]:
        """Of each route."""
        return [float(self._legs(route).sum()) for route in self.routes]

    @cached_property
    def loads(self) -> list[float] | None:
        """What each route carries, in the customer's unit; None where nothing has a demand."""
        demands = self.orders.demands
        return None if demands is None else [self.amount(demands[list(route)].sum()) for route in self.routes]

    @property
    def capacity(self) -> float | None:
        """What a vehicle can carry, in the customer's unit."""
        return None if self.orders.capacity is None else self.amount(self.orders.capacity)

    @property
    def unit(self) -> str:
        """Of lengths: `km`, or empty where only the customer knows it."""
        return "km" if self.orders.geographic else ""

    @property
    def visits(self) -> Iterator[Visit]:
        """All stops, route by route, in the order in which they are visited."""
        orders = self.orders
        for number, route in enumerate(self.routes, start=1):
            so_far = np.concatenate(([0.0], self._legs(route).cumsum())).tolist()
            for index, stop in enumerate(route):
                x, y = orders.places[stop].tolist()
                demand = None if orders.demands is None else self.amount(orders.demands[stop])
                travelled = so_far[index + (orders.depot is not None)]
                recipient = None if orders.recipients is None else orders.recipients[stop]
                yield Visit(number, index + 1, stop, orders.names[stop], (x, y), demand, travelled, recipient)

    def walk(self, route: Sequence[int]) -> Places:
        """The places of a route in the order of travel, from the depot or the first stop and back to it."""
        places = self.orders.places[list(route)]
        first = places[:1] if self.orders.depot is None else np.array([self.orders.depot])
        return np.concatenate((places, first) if self.orders.depot is None else (first, places, first))

    def amount(self, units: int | np.int64) -> float:
        """So many units as a number of the customer's own; whole where it is."""
        amount = int(units) / self.orders.units
        return int(amount) if amount.is_integer() else amount

    def _legs(self, route: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        walk = self.walk(route)
        return distances(walk[:-1], walk[1:], self.orders.geographic)


class Share(NamedTuple):
    """What one solver contributed to a plan: who it was, how long the routes were afterwards, and its time."""

    by: str
    length: float
    seconds: float
    note: str = ""  # why it contributed nothing
    stopped: bool = False  # early, by Ctrl-C
