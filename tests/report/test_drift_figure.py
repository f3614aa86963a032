"""The picture of a drift report shows what it should."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from dree.evaluation import drift as drift_module
from dree.evaluation.drift import Days, measure_drift
from dree.report.drift_figure import drift_figure

pytest.importorskip("ot")


def picture(unit: str, monkeypatch: pytest.MonkeyPatch):
    generator = np.random.default_rng(0)
    distances = generator.random((40, 40))
    monkeypatch.setattr(drift_module, "pair_distances", lambda *_: distances + distances.T)
    nodes = [generator.random((10, 2)) for _ in range(40)]
    nodes[0][0] = 1000.0
    start = date(2022, 6, 1).toordinal() if unit == "day" else 1
    unit_of_map = "km" if unit == "day" else "side of the square"
    drift = measure_drift(Days("made", unit, start + np.arange(40), tuple(nodes), tuple(nodes), unit_of_map), 5)
    figure = drift_figure(drift)
    figure.canvas.draw()
    return drift, figure


@pytest.mark.parametrize("unit", ["day", "epoch"])
def test_the_figure_has_map_sizes_lags_and_a_colour_bar(unit, monkeypatch):
    drift, figure = picture(unit, monkeypatch)
    left, bar, sizes, lags = (axes for part in figure.subfigs for axes in part.axes)
    assert left.get_title(loc="left") == f"Places: 400 nodes on 40 {unit}s"
    assert left.get_title(loc="right") == "1 outside"
    marks = [text.get_text() for text in bar.get_yticklabels()]
    assert ("Jul" in marks) == (unit == "day")
    curve = lags.lines[0]
    assert curve.get_xdata()[-1] == 35  # with 5 pairs, one for every eighth day
    np.testing.assert_array_equal(curve.get_ydata(), drift.curve.means[:35])
    np.testing.assert_array_equal(lags.lines[1].get_xdata(), np.arange(35, 40))  # the rest, dotted
    np.testing.assert_array_equal(lags.lines[1].get_ydata(), drift.curve.means[34:])
    np.testing.assert_array_equal(sizes.lines[0].get_ydata(), drift.days.sizes)
    np.testing.assert_array_equal(sizes.lines[1].get_ydata(), drift.trend)
    assert " ".join(figure.get_suptitle().split()) == drift.sentence
