"""Local search shortens a plan in the customer's own distances, and never makes it longer."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from strange_search import Clock, Strange

from dree.errors import DreeError
from dree.evaluation.classical import FastTSP, PyVRP
from dree.evaluation.classical.hgs import TimedHGS
from dree.evaluation.classical.pyvrp import in_its_loads
from dree.routing import Plan, improve
from dree.routing.improve import as_problem, check_seconds, improved, searcher
from dree.tasks.orders import Orders
from order_days import a_day, length_of

pytest.importorskip("hygese")
pytest.importorskip("fast_tsp")
pytest.importorskip("pyvrp")


def a_plan(stops, seed=0, **settings) -> Plan:
    """A day's stops as they come, filled into vehicles one after the other."""
    orders = a_day(stops, seed, **settings)
    routes: list[list[int]] = [[]]
    for stop in range(stops):
        if orders.demands is not None and orders.demands[[*routes[-1], stop]].sum() > orders.capacity:
            routes.append([])
        routes[-1].append(stop)
    return Plan.of(orders, routes)


@pytest.mark.parametrize("settings", [{}, {"depot": False}, {"geographic": False}])
def test_a_round_trip_becomes_the_shortest(settings):
    plan = a_plan(7, **settings)
    better, share = improved(plan, 0.2)
    tours = (Plan.of(plan.orders, [order]) for order in itertools.permutations(range(7)))
    assert better.length == pytest.approx(min(tour.length for tour in tours), rel=1e-9)
    assert share.length == better.length == pytest.approx(length_of(better), rel=1e-9)
    assert (share.by.split()[0], share.note) == ("fast-tsp", "")


@pytest.mark.parametrize("kind", [TimedHGS, PyVRP])
@pytest.mark.parametrize("geographic", [True, False])
def test_routes_of_vehicles_get_shorter_and_stay_within_the_capacity(monkeypatch, kind, geographic):
    monkeypatch.setattr(improve, "LARGE", 1 if kind is PyVRP else 10**6)
    plan = a_plan(25, capacity=25, geographic=geographic)
    better, share = improved(plan, 0.5)
    assert better.length < 0.8 * plan.length
    assert better.length == pytest.approx(length_of(better), rel=1e-9)
    assert max(better.loads) <= 25
    assert share.by.startswith(kind.package)
    again, share = improved(better, 0.3)
    assert again.length <= better.length


def test_true_distances_decide_where_the_square_deceives():
    north = np.array([[0.0, 89.0], [90.0, 89.0], [180.0, 89.0], [-90.0, 89.0], [45.0, 70.0], [-135.0, 70.0]])
    orders = Orders("pole", north, tuple("abcdef"), geographic=True)
    best = min(Plan.of(orders, [order]).length for order in itertools.permutations(range(6)))
    assert improved(Plan.of(orders, [range(6)]), 0.2)[0].length == pytest.approx(best, rel=1e-9)
    matrix = as_problem(Plan.of(orders, [range(6)])).distances
    assert matrix[0, 2] == pytest.approx(2 * 111.19508, abs=1e-3)  # over the pole


@pytest.mark.parametrize("stops", [1, 2, 3])
@pytest.mark.parametrize("settings", [{}, {"depot": False}, {"capacity": 9}])
def test_hardly_any_stops(stops, settings):
    plan = a_plan(stops, **settings)
    assert improved(plan, 0.1)[0].length <= plan.length


def test_all_stops_at_one_place():
    places = np.tile([[13.0, 52.0]], (6, 1))
    for orders in (
        Orders("d", places, tuple("abcdef"), True),
        Orders("d", places, tuple("abcdef"), True, (13.0, 52.0), np.ones(6, np.int64), 3),
        Orders("d", places, tuple("abcdef"), True, (13.1, 52.0), np.ones(6, np.int64), 3),
    ):
        plan = Plan.of(orders, [[0, 2, 4], [1, 3, 5]] if orders.depot else [range(6)])
        better, _ = improved(plan, 0.1)
        assert better.length == pytest.approx(plan.length)


@pytest.fixture
def strange(monkeypatch):
    """A search that answers in a certain way takes the place of all."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    return lambda way: monkeypatch.setattr(improve, "searcher", lambda plan, seconds: Strange(way))


@pytest.mark.parametrize(
    ("way", "note"),
    [
        ("dies", "its process ended with status 3"),
        ("raises", "It is Monday."),
        ("nothing", "no routes within the capacity"),
        ("overloads", "over the capacity"),
        ("forgets", "no plan"),
        ("longer", "nothing shorter"),
    ],
)
def test_whatever_a_search_does_the_plan_stays_sound(strange, way, note):
    strange(way)
    plan = a_plan(8, capacity=10)
    better, share = improved(plan, 0.1)
    assert better is plan
    assert note in share.note
    assert share.length == plan.length


def test_a_search_that_does_not_end_is_ended(monkeypatch, strange):
    strange("never")
    monkeypatch.setattr(improve, "GRACE", 1.0)
    plan = a_plan(8, capacity=10)
    better, share = improved(plan, 0.1)
    assert better is plan
    assert "status -9" in share.note


def wasteful_plan() -> Plan:
    """Stops on a line, visited to and fro."""
    places = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.0]])
    orders = Orders("d", places, tuple("abcd"), False, (0.0, 0.0), np.ones(4, np.int64), 4)
    return Plan.of(orders, [[2, 0, 3, 1]])


@pytest.fixture
def ctrl_c():
    """Press it so many times after so many seconds."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run where it is ignored
    timers: list[threading.Timer] = []

    def press(*moments: float) -> None:
        for moment in moments:
            timers.append(threading.Timer(moment, os.kill, (os.getpid(), signal.SIGINT)))
            timers[-1].start()

    yield press
    for timer in timers:
        timer.join()
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_a_search_and_what_it_has_found_counts(strange, ctrl_c):
    strange("stops")
    plan = wasteful_plan()
    ctrl_c(2.0)
    better, share = improved(plan, 60)
    assert better.length < plan.length
    assert (share.length, share.stopped, share.note) == (better.length, True, "")
    assert share.seconds < 10


def test_a_search_that_does_not_stop_at_ctrl_c_is_ended_and_the_plan_stays(monkeypatch, strange, ctrl_c):
    strange("never")
    monkeypatch.setattr(improve, "PATIENCE", 0.3)
    plan = wasteful_plan()
    ctrl_c(2.0)
    better, share = improved(plan, 60)
    assert better is plan
    assert share.stopped
    assert share.note == "It gave nothing shorter, and the routes are as they were."


def test_ctrl_c_before_the_search_has_begun_leaves_the_plan(monkeypatch, strange):
    def interrupt(_):
        raise KeyboardInterrupt

    strange("stops")
    monkeypatch.setattr(improve, "as_problem", interrupt)
    better, share = improved(plan := wasteful_plan(), 60)
    assert better is plan
    assert (share.stopped, share.by.split()[0]) == (True, "hygese")


def test_a_second_ctrl_c_ends_at_once(strange, ctrl_c):
    strange("never")
    ctrl_c(2.0, 2.5)
    began = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        improved(wasteful_plan(), 60)
    assert time.perf_counter() - began < 2.5 + improve.PATIENCE


@pytest.mark.parametrize(("kind", "stops"), [(TimedHGS, 150), (PyVRP, 60)])
def test_searches_that_can_stop_answer_early(monkeypatch, kind, stops, ctrl_c):
    monkeypatch.setattr(improve, "LARGE", 1 if kind is PyVRP else 10**6)
    plan = a_plan(stops, capacity=25)
    ctrl_c(3.0)
    better, share = improved(plan, 60)
    assert better.length < 0.8 * plan.length
    assert (share.stopped, share.by.split()[0]) == (True, kind.package)
    assert share.seconds < 10


def test_what_is_done_before_the_search_is_part_of_its_time(monkeypatch, strange):
    strange("")
    monkeypatch.setattr(improve, "searcher", lambda plan, seconds: Clock(seconds))
    monkeypatch.setattr(improve, "as_problem", lambda plan: time.sleep(0.4) or as_problem(plan))
    _, share = improved(a_plan(8, capacity=10), 1.0)
    given = float(share.note.partition("seconds=")[2].split()[0])
    assert Clock.least <= given < 1.0 - 0.4


def test_the_search_goes_by_problem_and_size():
    assert isinstance(searcher(a_plan(20), 5), FastTSP)
    assert searcher(a_plan(20), 5).seconds == pytest.approx(0.4)
    assert isinstance(searcher(a_plan(20, capacity=9), 5), TimedHGS)
    assert isinstance(searcher(a_plan(improve.LARGE, capacity=99), 5), PyVRP)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 1e9])
def test_times_that_are_none_are_refused(seconds):
    with pytest.raises(DreeError, match="seconds above 0"):
        check_seconds(seconds)


@pytest.mark.parametrize("capacity", [7, 10**9, 10**15 + 1])
def test_what_fits_in_the_loads_of_a_solver_fits_in_truth(capacity):
    demands = np.array([0, capacity // 2, capacity - capacity // 2, capacity // 3])
    loads, limit = in_its_loads(demands, capacity)
    assert limit <= 10**9
    for size in range(1, 4):
        for chosen in itertools.combinations(range(4), size):
            if loads[list(chosen)].sum() <= limit:
                assert demands[list(chosen)].sum() <= capacity
