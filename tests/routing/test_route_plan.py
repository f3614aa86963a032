"""A plan says who is visited when and how far that is, and is never one that cannot be driven."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dree.errors import DreeError
from dree.routing import Plan
from dree.tasks.orders import Orders
from order_days import a_day, length_of

EQUATOR = Orders("d", np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), ("a", "b", "c"), geographic=True)
DEGREE = 111.195080  # kilometres of a great circle


def test_a_round_trip_is_measured_along_great_circles():
    plan = Plan(EQUATOR, ((0, 1, 2),))
    diagonal = 157.249598  # between (0, 0) and (1, 1), by hand: R acos(cos² 1°)
    assert plan.length == pytest.approx(2 * DEGREE + diagonal, abs=1e-4)
    assert [visit.distance for visit in plan.visits] == pytest.approx([0, DEGREE, 2 * DEGREE], abs=1e-4)
    assert plan.unit == "km"


def test_in_a_plane_it_is_measured_in_the_unit_of_the_file():
    orders = Orders("d", np.array([[3.0, 4.0], [3.0, 0.0]]), ("a", "b"), False, (0.0, 0.0), np.array([20, 5]), 20, 10)
    plan = Plan(orders, ((0,), (1,)))
    assert (plan.length, plan.lengths, plan.unit) == (16.0, [10.0, 6.0], "")
    assert (plan.loads, plan.capacity) == ([2, 0.5], 2)
    assert [(visit.route, visit.position, visit.demand, visit.distance) for visit in plan.visits] == [
        (1, 1, 2, 5.0),
        (2, 1, 0.5, 3.0),
    ]


@given(
    st.integers(1, 30),
    st.integers(0, 5),
    st.booleans(),
    st.sampled_from([(None, False), (None, True), (9, True), (25, True)]),
)
def test_lengths_are_the_sum_of_their_legs(stops, seed, geographic, kind):
    capacity, depot = kind
    orders = a_day(stops, seed, geographic=geographic, capacity=capacity, depot=depot)
    order = np.random.default_rng(seed).permutation(stops).tolist()
    plan = Plan.of(orders, [[stop] for stop in order] if capacity else [order])
    assert sorted(visit.stop for visit in plan.visits) == list(range(stops))
    assert plan.length == pytest.approx(length_of(plan), rel=1e-9, abs=1e-9)
    assert sum(plan.lengths) == pytest.approx(plan.length, rel=1e-9)


@pytest.mark.parametrize(
    ("routes", "message"),
    [
        (((0, 1),), r"missing \[3\]"),
        (((0, 1, 2), (2,)), r"more than once \[3\]"),
        (((0, 1, 2),), "over the capacity 9"),
    ],
)
def test_what_is_no_plan_is_refused(routes, message):
    orders = replace(a_day(3, capacity=9), demands=np.array([4, 4, 4]))
    with pytest.raises(DreeError, match=message):
        Plan(orders, routes)


def test_routes_are_numbered_by_the_clock_from_north():
    compass = np.array([[0.0, -5.0], [-5.0, 0.1], [5.0, 0.1], [0.1, 5.0]])  # south, west, east, north
    orders = Orders("d", compass, ("S", "W", "E", "N"), False, (0.0, 0.0), np.ones(4, np.int64), 1)
    plan = Plan.of(orders, [[0], [1], [2], [3]])
    assert [visit.name for visit in plan.visits] == ["N", "E", "S", "W"]


@pytest.mark.parametrize("depot", [False, True])
def test_a_solvers_actions_become_a_round_trip_from_the_first_stop_or_the_depot(depot):
    orders = a_day(3, depot=depot)
    plan = Plan.of_actions(orders, [2, 3, 0, 1] if depot else [2, 0, 1])
    assert plan.routes == ((0, 1, 2),)


def test_actions_with_visits_of_the_depot_become_routes():
    orders = replace(a_day(3, capacity=9, geographic=False), demands=np.array([4, 4, 4]))
    plan = Plan.of_actions(orders, [2, 1, 0, 3, 0, 0])
    assert set(plan.routes) == {(1, 0), (2,)}
