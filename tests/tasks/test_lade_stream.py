"""Streams of real days: which day comes when, and instances that are parts of their day."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dree.errors import DreeError
from dree.randomness import named_generator
from dree.tasks.lade import RATIOS, CountedDay, Day, DayTask, LadeStream, learned_days, resampled_size
from dree.testing import check_stream

FIRST = date(2022, 5, 1)


def day(packages, number=0, seed=0):
    places = np.random.default_rng([seed, number]).uniform([121, 31], [122, 31.5], (packages, 2))
    return Day(FIRST + timedelta(days=number), places)


def stream(*packages, ratio=0.5):
    return LadeStream("sh-1", tuple(day(count, number) for number, count in enumerate(packages)), ratio)


def rows(coords):
    return {tuple(each) for each in coords.tolist()}


@pytest.mark.parametrize(
    ("packages", "ratio", "size"),
    [
        (10, 0.3, 10),
        (33, 0.3, 10),
        (36, 0.3, 10),
        (37, 0.3, 11),
        (90, 0.7, 63),  # in floating point 62.99...
        (608, 0.2, 100),
        (175, 0.6, 100),
        (108, 0.9, 97),
        (10, 0.9, 10),
        (100, 1.0, 100),
    ],
)
def test_sizes_are_the_share_rounded_down_within_10_and_100(packages, ratio, size):
    assert resampled_size(packages, ratio) == size


def test_cities_have_the_papers_shares():
    assert RATIOS == {"sh": 0.3, "hz": 0.2, "jl": 0.6, "yt": 0.9, "cq": 0.7}


@given(st.integers(10, 2000), st.sampled_from([*RATIOS.values()]))
def test_sizes_are_exact_and_never_more_than_there_are(packages, ratio):
    exact = int(Decimal(str(ratio)) * packages)
    assert resampled_size(packages, ratio) == min(max(exact, 10), 100) <= packages


def test_days_are_stretched_on_either_axis_and_one_point_wide_axes_are_zero():
    coords = np.array([[121.0, 31.0], [123.0, 31.0], [121.5, 31.0], *[[122.0, 31.0]] * 7])
    task = DayTask("sh-1", Day(FIRST, coords), 1.0)
    assert task.places.tolist() == [[0, 0], [1, 0], [0.25, 0], *[[0.5, 0]] * 7]


@given(st.integers(10, 300), st.floats(0.01, 1), st.integers(0, 10**6), st.integers(1, 5))
def test_instances_are_parts_of_the_day_without_repetition(packages, ratio, seed, batch):
    task = DayTask("sh-1", day(packages, seed=seed), ratio)
    places = task.places
    assert (places.amin(0).tolist(), places.amax(0).tolist()) == ([0, 0], [1, 1])
    instances = task.sample(batch, named_generator(seed, "instances"))
    assert instances.coords.shape == (batch, task.size, 2)
    assert instances.coords.dtype == torch.float32
    everything = rows(places)
    for coords in instances.coords:
        assert len(rows(coords)) == task.size
        assert rows(coords) <= everything
    again = task.sample(batch, named_generator(seed, "instances"))
    assert torch.equal(instances.coords, again.coords)


def test_every_package_is_as_likely_and_every_pair_too():
    task = DayTask("sh-1", day(20), 0.5)
    places = {tuple(each): number for number, each in enumerate(task.places.tolist())}
    chosen = torch.zeros(8000, 20, dtype=torch.float64)
    for row, coords in enumerate(task.sample(8000, named_generator(1, "instances")).coords.tolist()):
        chosen[row, [places[tuple(each)] for each in coords]] = 1
    together = chosen.T @ chosen / 8000
    assert together.diagonal().tolist() == pytest.approx([0.5] * 20, abs=0.03)
    pairs = together[~torch.eye(20, dtype=torch.bool)]
    assert pairs.tolist() == pytest.approx([9 / 38] * 380, abs=0.03)


def test_packages_at_one_place_stay_as_many_nodes():
    task = DayTask("sh-1", Day(FIRST, np.array([[1.0, 2.0]] * 12)), 1.0)
    assert task.sample(2, named_generator(0)).coords.tolist() == [[[0, 0]] * 12] * 2


def test_the_stream_has_valid_days_only_in_order_and_the_last_5_percent_are_held_out():
    packages = [9, 10, *[50 + number for number in range(60)], 3, 20]
    ours = stream(*packages)
    assert len(ours.valid) == 62
    assert ours.epochs == 58
    assert (ours.task(0).name, ours.task(1).name) == ("sh-1-05-02-n10", "sh-1-05-02-n10")
    assert ours.task(2).name == "sh-1-05-03-n25"
    assert ours.task(58).day.packages == 106
    assert list(ours.tests()) == ["05-02", "06-01"]
    assert list(ours.held_out()) == ["06-29", "06-30", "07-01", "07-03"]
    assert ours.active("06-01") == [(31, 31)]
    assert ours.active("07-03") == []
    assert not ours.can_sample_past
    for name in ("05-01", "05-03", "x"):
        with pytest.raises(DreeError, match="Unknown test day of this stream"):
            ours.active(name)
    shuffled = replace(ours, days=ours.days[::-1])
    assert [each.date for each in shuffled.days] == [each.date for each in ours.days]


def test_it_keeps_to_what_streams_must_keep_to():
    check_stream(stream(*range(5, 45)))
    check_stream(stream(10, 10, 10))


@given(st.lists(st.integers(1, 30), min_size=3, max_size=184))
def test_learned_and_held_out_days_are_all_valid_days_once(packages):
    valid = sum(count >= 10 for count in packages)
    if valid < 3:
        with pytest.raises(DreeError, match=f"has {valid} valid days"):
            stream(*packages)
        return
    ours = stream(*packages)
    learned = [ours.task(epoch).day.date for epoch in range(1, ours.epochs + 1)]
    held_out = [each.day.date for each in ours.held_out().values()]
    assert learned + held_out == [each.date for each in ours.days if each.packages >= 10]
    assert ours.epochs == learned_days(valid)
    assert ours.epochs <= 0.95 * valid < ours.epochs + 1
    assert len(held_out) >= 1
    tested = [each.day.date for each in ours.tests().values()]
    assert tested == learned[::30]
    assert [ours.active(name)[0][0] for name in ours.tests()] == list(range(1, ours.epochs + 1, 30))


@pytest.mark.parametrize("ratio", [0, -0.1, 1.01, float("nan")])
def test_a_share_that_is_none_is_refused(ratio):
    with pytest.raises(DreeError, match="above 0 and at most 1"):
        stream(10, 10, 10, ratio=ratio)
    with pytest.raises(DreeError, match="above 0 and at most 1"):
        DayTask("sh-1", day(10), ratio)


def test_days_that_cannot_be_used_are_refused():
    with pytest.raises(DreeError, match="sh-1 had 9 packages on 05-01; a task needs 10"):
        DayTask("sh-1", day(9), 0.5)
    with pytest.raises(DreeError, match="on 05-01 that are not finite"):
        DayTask("sh-1", Day(FIRST, np.full((10, 2), np.nan)), 0.5)
    with pytest.raises(DreeError, match="sh-1 has a day twice"):
        LadeStream("sh-1", (day(10), day(10), day(10, 1), day(10, 2)), 0.5)


def test_days_are_equal_where_their_packages_are():
    assert (day(20), hash(day(20))) == (day(20), hash(day(20)))
    assert day(20) != day(20, seed=1)
    assert day(20) != CountedDay(FIRST, 20)
    assert stream(10, 20, 30) == stream(10, 20, 30) != stream(10, 20, 31)


def test_a_recorded_stream_has_the_same_tasks_but_no_instances():
    ours = stream(9, *range(20, 80))
    known = LadeStream.recorded(ours.record())
    assert known == LadeStream.recorded(ours.record())
    assert known.epochs == ours.epochs
    for t in range(ours.epochs + 1):
        assert (known.task(t).name, known.task(t).size) == (ours.task(t).name, ours.task(t).size)
    for tests in (LadeStream.tests, LadeStream.held_out):
        assert {name: task.size for name, task in tests(known).items()} == {
            name: task.size for name, task in tests(ours).items()
        }
    with pytest.raises(DreeError, match="only the number of packages is recorded"):
        known.task(1).sample(1, named_generator(0))
