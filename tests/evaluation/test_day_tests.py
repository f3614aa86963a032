"""Test sets of real days: the same for everybody, solved once, and refused where there is no gap."""

from __future__ import annotations

import importlib.util
from datetime import date, timedelta
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dree.errors import DreeError
from dree.evaluation import day_tests as module
from dree.evaluation.building import Recipe
from dree.evaluation.day_tests import INSTANCES, RECIPE, day_tests, digest_of, spread
from dree.problems.check import check_tsp
from dree.tasks.lade import Day, LadeStream

pytest.importorskip("hygese")
FIRST = date(2022, 5, 1)


def stream(days=34, packages=30, region="sh-1"):
    """32 days to learn, of which the first and the 31st are tested, and two that are held out."""
    places = [np.random.default_rng(number).uniform([121, 31], [122, 31.5], (packages, 2)) for number in range(days)]
    return LadeStream(region, tuple(Day(FIRST + timedelta(number), each) for number, each in enumerate(places)), 0.4)


def test_days_are_solved_as_well_as_the_papers_own_tasks():
    assert Recipe(count=1000, seed=1, iterations=2000) == RECIPE


@given(st.integers(1, 1000), st.integers(1, 20))
def test_instances_are_spread_evenly_over_the_days(count, days):
    shares = spread(count, days)
    assert (len(shares), sum(shares)) == (days, count)
    assert max(shares) - min(shares) <= 1


def test_a_stream_has_a_set_for_each_process_test_and_some_instances_of_each_held_out_day():
    process, held_out = day_tests(stream(), 5)
    assert {day: len(test.instances) for day, test in process.items()} == {"05-01": 5, "05-31": 5}
    assert {day: len(test.instances) for day, test in held_out.items()} == {"06-02": 2, "06-03": 3}
    assert process["05-31"].task == "sh-1-05-31-n12"
    places = {tuple(each) for each in stream().tests()["05-31"].places.tolist()}
    for coords in process["05-31"].instances.coords.tolist():
        assert {tuple(each) for each in coords} <= places
        assert len({tuple(each) for each in coords}) == 12


def test_references_are_the_lengths_of_the_shortest_tours():
    small = stream(packages=10)  # so that instances have 10 nodes, all of the day
    (test, *_) = day_tests(small, 1).process.values()
    coords = test.instances.coords[0].double().numpy()
    found = check_tsp(coords, test.tours[0].tolist())
    assert float(test.references[0]) == found
    legs = np.linalg.norm(coords[:, None] - coords[None], axis=-1)
    orders = np.array([(0, *order) for order in permutations(range(1, 10)) if order[0] < order[-1]])
    shortest = legs[orders, np.roll(orders, -1, axis=1)].sum(axis=1).min()
    assert found == pytest.approx(shortest, rel=1e-9)


def test_fewer_instances_are_the_first_of_them_and_come_from_the_day_alone():
    two, three = day_tests(stream(), 2).process, day_tests(stream(), 3).process
    longer = day_tests(stream(days=36), 3).process
    for day, test in two.items():
        assert torch.equal(test.instances.coords, three[day].instances.coords[:2])
        assert digest_of(three[day]) == digest_of(longer[day])
        assert digest_of(test) != digest_of(three[day])
    other = day_tests(stream(region="sh-2"), 3).process
    assert digest_of(other["05-01"]) != digest_of(three["05-01"])


def test_what_was_made_is_neither_solved_again_nor_in_need_of_the_solver(monkeypatch):
    made = day_tests(stream(), 2)
    heard = []
    monkeypatch.setattr(module, "reference_costs", lambda *_, **__: pytest.fail("solved again"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    again = day_tests(stream(), 2, lambda total: heard.append(total))
    assert heard == []
    assert [digest_of(test) for test in again.process.values()] == [digest_of(test) for test in made.process.values()]


def test_without_the_solver_the_command_that_installs_it_is_said(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(DreeError, match=r"need the package hygese: pip install 'dree\[reference\]'"):
        day_tests(stream(), 2)


def test_a_day_at_one_place_has_no_gaps_and_is_named():
    days = stream().days
    same = Day(days[0].date, np.full((12, 2), 31.0))
    with pytest.raises(DreeError, match=r"tsp-sh-1-05-01-n10-x2-\w+: the reference of instance 0 is 0, so no gap"):
        day_tests(LadeStream("sh-1", (same, *days[1:]), 0.4), 2)


def test_more_instances_than_there_are_is_refused():
    with pytest.raises(DreeError, match=r"have 1000\. Ask for fewer"):
        day_tests(stream(), INSTANCES + 1)
