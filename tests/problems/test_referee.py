"""The independent referee refuses what is no tour, and says why."""

import pytest

from dree.errors import DreeError
from dree.problems import rules
from dree.problems.check import check_cvrp, check_tsp, split_routes

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


def test_routes_are_what_lies_between_visits_of_the_depot():
    assert split_routes([0, 0, 3, 1, 0, 2, 0, 0]) == [[3, 1], [2]]
    assert split_routes([0]) == []


def test_an_unknown_problem_is_refused_with_a_suggestion():
    with pytest.raises(DreeError, match=r"Unknown problem 'cvpr'\. Did you mean 'cvrp'\? Choose from: tsp, cvrp\."):
        rules("cvpr")
