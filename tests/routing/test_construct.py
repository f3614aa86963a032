"""What a solver makes of a day: sound at every size, the same every time, and better for every part made again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from conftest import random_instances, small_invit, small_solver
from dree.errors import DreeError
from dree.evaluation.evaluate import best_tours
from dree.problems.check import check_cvrp, split_routes
from dree.routing import groups, segments
from dree.routing.construct import PARTS, WHOLE, construct
from dree.tasks.orders import Orders
from order_days import a_day, length_of

KINDS = [{}, {"depot": False}, {"capacity": 20}, {"geographic": False, "depot": False}]


def solver_for(orders: Orders):
    return small_solver(orders.problem)


@pytest.mark.parametrize("settings", KINDS)
@pytest.mark.parametrize("stops", [1, 2, 3, PARTS, WHOLE + 5])
def test_every_size_of_day_gets_a_sound_plan(settings, stops):
    orders = a_day(stops, **settings)
    plan = construct(solver_for(orders), orders)
    assert sorted(visit.stop for visit in plan.visits) == list(range(stops))
    assert plan.length == pytest.approx(length_of(plan), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("settings", [{"depot": False}, {"capacity": 60}])
def test_a_thousand_stops_are_routed_in_the_same_way_every_time(monkeypatch, settings):
    monkeypatch.setattr(segments, "ROUNDS", 4)
    monkeypatch.setattr(segments, "INSERTIONS", 2)
    monkeypatch.setattr(groups, "ROUNDS", (1, 1))
    orders = a_day(1000, **settings)
    one, other = (construct(solver_for(orders), orders) for _ in range(2))
    assert one.routes == other.routes
    assert one.length == pytest.approx(length_of(one), rel=1e-9)


@pytest.mark.parametrize("settings", [{"depot": False}, {"capacity": 20}])
def test_a_small_day_gets_the_best_tour_over_starts_and_copies(settings):
    orders = a_day(PARTS - 1, **settings)
    solver = solver_for(orders)
    frame = orders.frame()
    best = float(best_tours(solver, orders.instance(), 8, precision="fp32").costs)
    assert construct(solver, orders).length == pytest.approx(best * frame.extent, rel=1e-4)


@pytest.mark.parametrize("settings", [{"depot": False}, {"capacity": 20}])
def test_all_stops_at_one_place(settings):
    places = np.tile([[13.0, 52.0]], (120, 1))
    day = a_day(120, **settings)
    depot = day.depot and (13.0, 52.0)
    orders = Orders("d", places, day.names, True, depot, day.demands, day.capacity)
    assert construct(solver_for(orders), orders).length == 0


@pytest.mark.parametrize("make", [small_solver, small_invit])
def test_paths_visit_every_node_between_their_ends(make):
    points = np.random.default_rng(0).random((5, 9, 2))
    for copy in (0, 5):
        orders = segments.paths(make("tsp"), points, copy)
        assert (np.sort(orders, axis=1) == np.arange(9)).all()
        assert (orders[:, 0] == 0).all()
        assert (orders[:, -1] == 8).all()


def test_a_path_is_the_rest_of_a_round_trip_whose_first_leg_joins_the_ends():
    solver, points = small_solver("tsp"), np.random.default_rng(1).random((1, 3, 2))
    assert segments.paths(solver, points).tolist() == [[0, 1, 2]]
    assert segments.paths(solver, points[:, :2]).tolist() == [[0, 1]]


def test_making_segments_again_never_lengthens_a_tour():
    points = np.random.default_rng(2).random((60, 2))
    tour = list(range(60))

    def length(nodes):
        walk = points[[*nodes, nodes[0]]]
        return float(np.linalg.norm(np.diff(walk, axis=0), axis=1).sum())

    better = segments.shortened(small_solver("tsp"), points, tour)
    assert sorted(better) == tour
    assert length(better) < length(tour)
    inserted = segments.inserted(points)
    assert sorted(inserted) == tour
    assert length(inserted) < length(tour)
    assert length(segments.shortened(small_solver("tsp"), points, inserted)) <= length(inserted)


def test_making_groups_again_never_lengthens_routes():
    instance, solver = random_instances("cvrp", 1, 60, seed=3), small_solver("cvrp")
    points, demands = instance.coords[0].double().numpy(), instance.demands[0].numpy()

    def length(routes):
        return check_cvrp(points, demands, 20, [node for route in routes for node in (*route, 0)])

    routes = split_routes(best_tours(solver, instance).actions.flatten().tolist())
    better = groups.shortened(solver, instance, routes)
    assert length(better) < length(routes)
    assert length(groups.by_sectors(solver, instance)) > 0


def test_sectors_are_neighbours_around_the_depot():
    turns = np.arange(8) * np.pi / 4
    points = np.vstack(([0.0, 0.0], np.stack((np.cos(turns), np.sin(turns)), axis=1)[[0, 4, 1, 5, 2, 6, 3, 7]]))
    order = groups._around(points)
    directions = np.round(np.degrees(np.arctan2(*points[order].T[::-1]))).tolist()
    assert directions == sorted(directions)


def test_groups_are_near_routes_up_to_a_size():
    middles = np.array([[0.0, 0.0], *([x, y] for x in (1.0, 9.0) for y in (1.0, 1.2, 1.4))])
    routes = [[1], [4], [2], [5], [3], [6]]
    found = groups._near(middles, routes, 3, np.random.default_rng(0))
    assert sorted(sorted(node for route in group for node in route) for group in found) == [[1, 2, 3], [4, 5, 6]]


def test_a_solver_of_another_problem_is_refused():
    with pytest.raises(DreeError, match="makes one round trip, and a capacity is given"):
        construct(small_solver("tsp"), a_day(5, capacity=20))


def test_coordinates_beyond_numbers_are_refused():
    orders = Orders("d", np.array([[1e308, 0.0], [-1e308, 0.0], [0.0, 0.0]]), tuple("abc"), False)
    with pytest.raises(DreeError, match="too far apart"):
        construct(small_solver("tsp"), orders)


def test_few_starts_are_evenly_spread():
    instance, solver = random_instances("tsp", 1, 20, seed=0), small_solver("tsp")
    every = solver.solve(instance).costs[0]
    few = best_tours(solver, instance, most_starts=4).costs
    assert float(few) == pytest.approx(float(every[torch.tensor([0, 5, 10, 15])].min()))
