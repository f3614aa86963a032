"""Days are compared with the first month: by the same number of stops, and with what its own days differ by."""

from __future__ import annotations

import numpy as np
import pytest

from dree.evaluation.first_month import LEAST_STOPS, MonthDrift, date_of, first_month, month_drift
from dree.evaluation.gromov_wasserstein import gromov_wasserstein

pytest.importorskip("ot")


def dates(count, month="2026-03"):
    return [f"{month}-{day:02d}" for day in range(1, count + 1)]


def discs(count, stops, seed=0, radius=1.0):
    generator = np.random.default_rng(seed)
    return [generator.normal(0, radius, (stops, 2)) for _ in range(count)]


def test_names_are_dates_with_or_without_a_year():
    assert str(date_of("2026-03-04")) == "2026-03-04"
    assert str(date_of("02-29")) == "2000-02-29"
    assert date_of("monday") is None


def test_the_first_month_goes_by_dates_or_else_by_number():
    assert first_month(["2026-03-01", "2026-03-30", "2026-03-31", "2026-04-20"]) == 2
    assert first_month(["day one"] * 40) == 30
    assert first_month(["a", "b"]) == 2


def test_days_that_spread_out_are_farther_from_the_first_month():
    places = discs(5, 12) + discs(3, 12, seed=1, radius=3.0)
    drift = month_drift(places, [*dates(5), *dates(3, "2026-05")])
    assert drift.days == tuple(range(8))
    assert drift.distances[5:].min() > drift.spread[1]
    assert drift.growth(3) > 0.5
    by_hand = np.mean([gromov_wasserstein(places[5], places[other]) for other in range(5)])
    assert drift.distances[5] == pytest.approx(by_hand, rel=1e-6)


def test_the_first_months_own_days_are_compared_with_the_others_only():
    places = discs(4, 12)
    drift = month_drift(places, dates(4))
    by_hand = [np.mean([gromov_wasserstein(one, other) for other in places if other is not one]) for one in places]
    assert drift.distances == pytest.approx(by_hand, rel=1e-6)
    assert drift.floor == pytest.approx(np.mean(by_hand), rel=1e-6)
    assert drift.spread == pytest.approx((min(by_hand), max(by_hand)), rel=1e-6)


def test_the_same_number_of_stops_is_compared_of_every_day_and_small_days_are_left_out():
    places = [*discs(9, 30), *discs(1, LEAST_STOPS - 1, seed=5), *discs(2, 300, seed=6)]
    drift = month_drift(places, [*dates(10), *dates(2, "2026-05")])
    assert drift.stops == 30
    assert drift.days == (*range(9), 10, 11)


def test_six_days_spread_over_the_first_month_stand_for_it():
    places = discs(13, 12)
    drift = month_drift(places, [*dates(12), "2026-05-01"])
    by_hand = np.mean([gromov_wasserstein(places[12], places[other]) for other in (0, 2, 4, 7, 9, 11)])
    assert drift.distances[12] == pytest.approx(by_hand, rel=1e-6)


def test_a_fifth_of_the_days_may_be_smaller_than_what_is_compared_and_no_more_than_50_stops_are():
    assert month_drift([*discs(3, 12), *discs(7, 30)], dates(10)).stops == 12
    assert month_drift(discs(4, 60), dates(4)).stops == 50


def test_growth_is_that_of_the_last_days_and_of_none_in_the_first_month():
    drift = MonthDrift(30, tuple(range(5)), np.array([1.0, 1, 1, 2, 3]), 2, 1.0, (1.0, 1.0))
    assert (drift.growth(), drift.growth(1)) == (1.5, 2.0)


def test_what_was_compared_on_another_day_is_not_compared_again(monkeypatch):
    places, names = discs(4, 12), dates(4)
    first = month_drift(places, names)
    monkeypatch.setattr("dree.evaluation.first_month.gromov_wasserstein", None)
    assert month_drift(places, names).distances.tolist() == first.distances.tolist()


@pytest.mark.parametrize("places", [[], discs(2, 30), discs(8, LEAST_STOPS - 1)])
def test_too_few_days_or_stops_say_nothing(places):
    assert month_drift(places, dates(len(places))) is None
