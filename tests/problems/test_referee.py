"""The independent referee refuses what is no tour, and says why."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dree.errors import DreeError
from dree.problems import rules
from dree.problems.check import check_cvrp, check_tours, check_tsp, split_routes

POINTS = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
DEMANDS = [0, 2, 3, 4]


@pytest.mark.parametrize(
    ("tour", "why"),
    [
        ([0, 1, 2], r"missing \[3\], more than once \[\], unknown \[\]"),
        ([0, 1, 2, 3, 1], r"missing \[\], more than once \[1\], unknown \[\]"),
        ([0, 1, 1, 3], r"missing \[2\], more than once \[1\], unknown \[\]"),
        ([0, 1, 2, 4], r"missing \[3\], more than once \[\], unknown \[4\]"),
        ([0, 1, 2, 3, -1], r"missing \[\], more than once \[\], unknown \[-1\]"),
        ([], r"missing \[0, 1, 2, 3\]"),
    ],
)
def test_what_is_no_tour_of_a_tsp_is_refused(tour, why):
    with pytest.raises(DreeError, match=f"Not a tour of 4 nodes: {why}"):
        check_tsp(POINTS, tour)


@pytest.mark.parametrize(
    ("actions", "why"),
    [
        ([1, 2, 0], r"missing \[3\], more than once \[\], unknown \[\]"),
        ([1, 0, 2, 3, 0, 1, 0], r"missing \[\], more than once \[1\], unknown \[\]"),
        ([1, 2, 0, 4, 0], r"missing \[3\], more than once \[\], unknown \[4\]"),
        ([1, 2, 0, 3, 0, -3, 0], r"missing \[\], more than once \[\], unknown \[-3\]"),
        ([0, 0], r"missing \[1, 2, 3\]"),
    ],
)
def test_customers_not_served_once_each_are_named(actions, why):
    with pytest.raises(DreeError, match=f"Customers are not served once each: {why}"):
        check_cvrp(POINTS, DEMANDS, 100, actions)


def test_an_overloaded_route_is_named_with_its_load():
    with pytest.raises(DreeError, match=r"Route \[2, 3\] carries 7, over the capacity 6"):
        check_cvrp(POINTS, DEMANDS, 6, [1, 0, 2, 3, 0])
    assert check_cvrp(POINTS, DEMANDS, 7, [1, 0, 2, 3, 0]) == pytest.approx(2 + 2 + 2**0.5)


def one_by_one(actions, capacity):
    """The cost of each tour, None where it is none."""
    found = []
    for walk in actions:
        try:
            found.append(check_tsp(POINTS, walk) if capacity is None else check_cvrp(POINTS, DEMANDS, capacity, walk))
        except DreeError:
            found.append(None)
    return found


@given(
    walks=st.lists(st.lists(st.integers(-1, 4), min_size=4, max_size=6) | st.permutations(range(4)), max_size=3),
    orders=st.lists(st.permutations([0, 0, 1, 2, 3]), max_size=3),
    capacity=st.none() | st.integers(4, 9),
)
@settings(max_examples=300)
def test_many_tours_are_judged_as_each_of_them(walks, orders, capacity):
    for walk in [*walks, *orders]:
        (cost,) = one_by_one([walk], capacity)
        rest = () if capacity is None else ([DEMANDS], [capacity])
        if cost is None:
            with pytest.raises(DreeError, match="instance 0 has for a tour is none"):
                check_tours([POINTS], [walk], *rest)
        else:
            assert check_tours([POINTS], [walk], *rest) == pytest.approx([cost])


def test_of_many_tours_the_first_that_is_none_is_named():
    right, wrong = [1, 0, 2, 3, 0], [1, 2, 3, 0, 0]
    costs = one_by_one([right, [3, 0, 1, 2, 0]], 7)
    both = check_tours(np.stack([POINTS] * 2), [right, [3, 0, 1, 2, 0]], [DEMANDS] * 2, [7, 5])
    assert both == pytest.approx(costs)
    with pytest.raises(DreeError, match=r"What instance 1 has for a tour is none: \[0, 1, 2, 3, 0, 0\]"):
        check_tours(np.stack([POINTS] * 3), [right, wrong, wrong], [DEMANDS] * 3, [7, 7, 7])


def test_routes_are_what_lies_between_visits_of_the_depot():
    assert split_routes([0, 0, 3, 1, 0, 2, 0, 0]) == [[3, 1], [2]]
    assert split_routes([0]) == []


def test_an_unknown_problem_is_refused_with_a_suggestion():
    with pytest.raises(DreeError, match=r"Unknown problem 'cvpr'\. Did you mean 'cvrp'\? Choose from: tsp, cvrp\."):
        rules("cvpr")
