"""Drift reports: verdicts on streams that do and do not drift, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pytest

from dree.data.lade import Region
from dree.data.lade_rows import RegionId
from dree.errors import DreeError
from dree.evaluation import drift
from dree.evaluation.drift import Days, Drift, measure_drift, region_days, stream_days, subsampled
from dree.evaluation.lags import OrderTest
from dree.tasks import make_stream
from dree.tasks.lade import Day

pytest.importorskip("ot")
HAND = np.array([[0, 1, 4, 9], [1, 0, 5, 6], [4, 5, 0, 3], [9, 6, 3, 0]], dtype=float)
TIMES = np.array([0, 1, 8, 9])


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    """Another distance, that of sorted first coordinates, which is quick to compute."""

    def distances(sets, *_):
        places = np.linspace(0, 1, 50)
        profiles = [np.quantile(nodes[:, 0], places) for nodes in sets]
        return np.array([[np.abs(one - other).mean() for other in profiles] for one in profiles])

    monkeypatch.setattr(drift, "pair_distances", distances)


def days(squeeze: np.ndarray, sizes: np.ndarray) -> Days:
    """A day for each number: points on a line, more or less gathered towards one end."""
    generator = np.random.default_rng(0)
    nodes = tuple(
        np.stack([generator.random(size) ** power, np.zeros(size)], axis=1)
        for power, size in zip(squeeze, sizes, strict=True)
    )
    return Days("made", "day", date(2022, 6, 1).toordinal() + np.arange(len(nodes)), nodes, nodes, "km")


def judged(places=0.01, beyond=0.01, sizes=1.0, distances=HAND, times=TIMES):
    """What is said of some distances where the tests have these p."""
    nodes = (np.zeros((2, 2)),) * len(times)
    tests = (OrderTest(0.5, p, 99) for p in (places, beyond, sizes))
    each = Days("made", "day", np.array(times), nodes, nodes, "km")
    return Drift(each, each.sizes, 0, 300, distances, None, *tests)


def region(counts: list[int]) -> Region:
    generator = np.random.default_rng(1)
    first = date(2022, 6, 1)
    return Region(
        RegionId("sh", 1, "Shanghai"),
        tuple(
            Day(first + timedelta(number), np.array([121.5, 31.0]) + 0.1 * generator.random((count, 2)))
            for number, count in enumerate(counts)
        ),
    )


def test_a_stream_that_drifts_is_said_to():
    found = measure_drift(days(np.linspace(1, 6, 24), np.full(24, 20)), workers=1)
    assert found.verdict == "places"
    assert found.p < 0.01
    assert found.near < found.far
    assert found.sentence.startswith("made drifts: days more than 7 days apart differ ")
    assert found.sentence.endswith("so lifelong learning should pay here.")


def test_a_stream_that_does_not_is_said_not_to():
    found = measure_drift(days(np.full(24, 2.0), np.full(24, 20)))
    assert found.verdict == "none"
    assert found.sizes.p == 1
    assert "shows no drift" in found.sentence


def test_sizes_alone_may_drift():
    found = measure_drift(days(np.full(24, 2.0), np.arange(40, 88, 2)))
    assert found.verdict == "sizes"
    assert "drifts in size" in found.sentence


def test_days_up_to_a_week_apart_are_near():
    found = judged()
    assert (found.near, found.far) == pytest.approx(((1 + 5 + 3) / 3, (4 + 6 + 9) / 3))  # lags 1, 7, 1 and 8, 8, 9
    assert found.growth == pytest.approx(19 / 9 - 1)


@pytest.mark.parametrize(("growth", "verdict"), [(0.04, "little"), (0.06, "places")])
def test_a_drift_by_less_than_5_percent_is_little(growth, verdict):
    far = np.abs(TIMES[:, None] - TIMES[None]) > 7
    assert judged(distances=1 + growth * far).verdict == verdict


@pytest.mark.parametrize(
    ("p", "verdict"),
    [
        ((0.049, 0.049, 1.0), "places"),
        ((0.05, 0.05, 1.0), "none"),
        ((0.01, 0.06, 1.0), "none"),
        ((0.06, 0.01, 1.0), "none"),
        ((1.0, 1.0, 0.049), "sizes"),
        ((1.0, 1.0, 0.05), "none"),
    ],
)
def test_a_drift_is_what_chance_shows_in_less_than_5_percent_with_sizes_and_without(p, verdict):
    assert judged(*p).verdict == verdict


def test_the_trend_is_a_mean_over_a_week_or_a_sixth_of_the_time():
    assert [judged(times=range(count)).window for count in (24, 61)] == [7, 10]


def test_what_sizes_explain_goes_by_the_nodes_that_are_compared(monkeypatch):
    seen = []
    monkeypatch.setattr(drift, "beyond_sizes", lambda matrix, _, sizes: (seen.extend(sizes.tolist()), matrix)[1])
    measure_drift(days(np.ones(14), np.arange(8, 22)), most_nodes=10)
    assert seen == [8, 9, *[10] * 12]


def test_days_far_between_are_near_if_none_are_nearer():
    each = days(np.linspace(1, 6, 14), np.full(14, 20))
    found = measure_drift(replace(each, times=each.times[0] + 30 * np.arange(14)))
    assert found.near_lag == 30
    assert 0 < found.near < found.far
    assert "more than 30 days apart" in found.sentence


def test_the_report_as_plain_values():
    content = measure_drift(days(np.linspace(1, 6, 15), np.full(15, 12)), most_nodes=10).as_dict()
    assert json.loads(json.dumps(content)) == content
    assert content["days"][0] == {"label": "2022-06-01", "nodes": 12, "compared": 10, "trend": 12}
    assert [row["lag"] for row in content["lags"]] == list(range(1, 15))
    assert [row["pairs"] for row in content["lags"]] == list(range(14, 0, -1))
    assert set(content["tests"]) == {"places", "places_beyond_sizes", "sizes"}
    assert content["made"]["most_nodes"] == 10


def test_large_days_are_subsampled_by_seed_and_label():
    nodes = np.random.default_rng(0).random((50, 2))
    small = nodes[:10]
    part, same, kept = subsampled([nodes, nodes, small], ["a", "b", "c"], 20, seed=0)
    assert len(part) == len(same) == 20
    assert (part != same).any()
    np.testing.assert_array_equal(kept, small)
    np.testing.assert_array_equal(subsampled([nodes], ["a"], 20, seed=0)[0], part)
    assert (subsampled([nodes], ["a"], 20, seed=1)[0] != part).any()
    assert len(np.unique(part, axis=0)) == 20
    assert {tuple(each) for each in part} <= {tuple(each) for each in nodes}


def test_a_region_is_compared_as_solvers_see_it_and_drawn_in_kilometres():
    found = region_days(region([12] * 14 + [9]))
    assert (found.name, found.unit, len(found.times)) == ("sh-1", "day", 14)
    for nodes in found.nodes:
        np.testing.assert_allclose((nodes.min(axis=0), nodes.max(axis=0)), [(0, 0), (1, 1)])
    first, last = region([12] * 14).days[0].coords[[0, 1]]
    width, height = np.abs(found.places[0][1] - found.places[0][0])
    assert height == pytest.approx(abs(last[1] - first[1]) * 111.195)
    assert width == pytest.approx(abs(last[0] - first[0]) * 111.195 * np.cos(np.radians(31.05)), rel=1e-3)


def test_too_few_days_are_refused():
    with pytest.raises(DreeError, match=r"sh-1 has 13 valid days.*needs 14\. Choose another region"):
        region_days(region([12] * 13 + [9]))
    with pytest.raises(DreeError, match="at least 14 epochs, not 10"):
        stream_days(make_stream("drift", "tsp", 1, 10), "short", 0)


def test_too_few_nodes_are_refused():
    with pytest.raises(DreeError, match="At least 2 nodes"):
        measure_drift(days(np.ones(14), np.full(14, 12)), most_nodes=1)


def test_a_synthetic_stream_has_an_instance_for_each_epoch(problem):
    stream = make_stream("drift", problem, 1, 15)
    found = stream_days(stream, "name", seed=3)
    assert found.sizes.tolist() == [stream.task(epoch).size for epoch in range(1, 16)]
    assert found.labels[:2] == ["1", "2"]
    again, other = stream_days(stream, "name", seed=3), stream_days(stream, "name", seed=4)
    np.testing.assert_array_equal(found.nodes[5], again.nodes[5])
    assert (found.nodes[5] != other.nodes[5]).any()
