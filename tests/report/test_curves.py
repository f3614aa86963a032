"""Learning curves: what is drawn is what was measured, and the band is where the task is active."""

import math

import numpy as np
import pytest

from dree.errors import DreeError
from dree.report import as_svg_or_png_data_uri, learning_curves
from dree.report.curves import scale_for, scale_from_best
from dree.tasks import LAWS, make_stream

EPOCHS = list(range(0, 101, 10))


def falling(start, end):
    return [end + (start - end) * math.exp(-t / 20) for t in EPOCHS]


def spans(axes):
    return [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in axes.patches]


@pytest.mark.parametrize("scenario", ["drift", "sudden"])
def test_bands_are_the_active_epochs_and_lines_the_gaps(scenario):
    stream = make_stream(scenario, "cvrp", 1, 100)
    gaps = {name: falling(100, 2 + i) for i, name in enumerate(stream.tests())}
    active = {name: stream.active(name) for name in stream.tests()}
    figure = learning_curves(EPOCHS, gaps, active)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [LAWS[law].title for law in stream.order]
    for axes, name in zip(figure.axes, gaps, strict=True):
        assert spans(axes) == [(first - 1, last) for first, last in active[name]]
        line, best = axes.get_lines()
        assert list(line.get_xdata()) == EPOCHS
        assert list(line.get_ydata()) == gaps[name]
        assert (best.get_xdata()[0], best.get_ydata()[0]) == (100, min(gaps[name]))
        assert axes.get_title(loc="right") == f"best {gaps[name][-1]:.2f}, last {gaps[name][-1]:.2f}"


def test_several_methods_are_several_lines_with_a_legend():
    gaps = {
        "DREE": {"U": falling(90, 1), "R": falling(80, 2)},
        "Li": {"R": falling(70, 3), "U": falling(60, 4)},
    }
    figure = learning_curves(EPOCHS, gaps, {"U": [(1, 50)]}, {"U": "first", "R": "second"})
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["first", "second"]
    for axes, task in zip(figure.axes, ("U", "R"), strict=True):
        lines = axes.get_lines()
        assert [list(line.get_ydata()) for line in lines[::2]] == [gaps["DREE"][task], gaps["Li"][task]]
        assert lines[0].get_color() != lines[2].get_color()
    assert [spans(axes) for axes in figure.axes] == [[(0, 50)], []]
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["DREE", "Li", "best gap", "task takes part in training"]


def test_a_legend_of_long_names_stays_inside_the_figure():
    names = [f"a method with a long name, and option {i} changed" for i in range(12)]
    figure = learning_curves(EPOCHS, {name: {"U": falling(90, 1), "R": falling(9, 1)} for name in names}, {})
    figure.canvas.draw()
    box = figure.legends[0].get_window_extent()
    assert (box.x0 >= 0, box.x1 <= figure.bbox.width) == (True, True)


def test_a_task_active_in_a_single_epoch_still_shows():
    (axes,) = learning_curves(EPOCHS, {"U": falling(9, 5)}, {"U": [(7, 7)]}).axes
    assert spans(axes) == [(6, 7)]
    assert axes.patches[0].get_linewidth() > 0


def test_unmeasured_epochs_are_left_out():
    gap = [5.0, math.nan, 3.0, 4.0] + [math.nan] * 7
    (axes,) = learning_curves(EPOCHS, {"U": gap}, {}).axes
    np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), gap)
    assert axes.get_title(loc="right") == "best 3.00, last 4.00"


def test_small_gaps_are_not_called_nought():
    (axes,) = learning_curves(range(4), {"U": [2.0, 0.0048, -1e-14, 0.006]}, {}).axes
    assert axes.get_title(loc="right") == "best 0.00, last 0.01"
    (axes,) = learning_curves(range(3), {"U": [2.0, 0.0048, 0.006]}, {}).axes
    assert axes.get_title(loc="right") == "best 0.0048, last 0.01"


@pytest.mark.parametrize(
    ("curves", "kind", "label"),
    [
        ([[5.0, 4.0, 3.0, 4.0]], "linear", "gap (%)"),
        ([[300.0, 20.0, 3.0, 2.0, 2.5, 2.0]], "log", "gap (%), log scale"),
        ([[300.0, 20.0, 3.0, 1.0, -0.5, 0.0]], "cut", "gap (%), cut at 20 %"),
        ([[0.0, 0.0, 0.0, 0.0]], "linear", "gap (%)"),
        ([[50.0, 0.0, 0.0, 0.0]], "cut", "gap (%), cut at 10 %"),
        ([[0.0, 0.0, 0.0, 0.0, 50.0]], "linear", "gap (%)"),
        ([[-3.0]], "linear", "gap (%)"),
    ],
)
def test_the_axis_suits_the_gaps_and_says_what_it_does(curves, kind, label):
    scale = scale_for(curves)
    assert (scale.kind, scale.label) == (kind, label)
    assert scale.low < scale.high
    figure = learning_curves(list(range(len(curves[0]))), {"U": curves[0]}, {})
    assert figure.get_supylabel() == label
    assert figure.axes[0].get_ylim() == (scale.low, scale.high)
    assert figure.axes[0].get_yscale() == ("log" if kind == "log" else "linear")
    as_svg_or_png_data_uri(figure)  # draws without a warning


def test_a_cut_hides_no_best_and_no_last_gap():
    rng = np.random.default_rng(0)
    for _ in range(200):
        curves = [list(rng.normal(size=9) * 10 ** rng.integers(0, 4)) for _ in range(3)]
        scale = scale_for(curves)
        for curve in curves:
            assert scale.low <= min(curve) <= scale.high
            assert scale.low <= curve[-1] <= scale.high


def test_an_axis_from_the_best_on_shows_more_than_half_of_every_panel():
    rng = np.random.default_rng(0)
    for _ in range(200):
        panels = [[sorted(np.abs(rng.normal(size=9) * 10), reverse=True) for _ in range(2)] for _ in range(3)]
        scale = scale_from_best(panels)
        for panel in panels:
            assert np.mean([gap <= scale.high for curve in panel for gap in curve]) > 0.5


@pytest.mark.parametrize(
    ("epochs", "gaps", "active", "words"),
    [
        ([], {"U": []}, {}, "one epoch"),
        ([0], {}, {}, "no gaps"),
        ([0, 1], {"U": [1.0]}, {}, "1 gaps for 2 epochs"),
        ([1, 0], {"U": [1.0, 2.0]}, {}, "increase"),
        ([0], {"U": [math.inf]}, {}, "infinite"),
        ([0], {"U": [math.nan]}, {}, "none at all"),
        ([0], {"U": [1.0]}, {"R": [(1, 2)]}, "not among the tasks"),
        ([0], {"A": {"U": [1.0]}, "B": {"R": [1.0]}}, {}, "of method 'B'"),
        ([0], {"A": {"U": [1.0]}, "B": [1.0]}, {}, "mixture"),
    ],
)
def test_what_cannot_be_drawn_is_refused(epochs, gaps, active, words):
    with pytest.raises(DreeError, match=words):
        learning_curves(epochs, gaps, active)


def test_one_curve_that_stays_high_does_not_press_the_others_of_its_panel_down():
    low, high = [200.0, 9.0, 8.0, 7.0], [200.0, 90.0, 80.0, 9.0]
    assert scale_from_best([[low, low, high]]).high == 12
    assert scale_from_best([[low, low], [high]]).high == 120


def test_any_number_of_tasks_gets_as_many_panels():
    for count in (1, 4, 5, 11):
        gaps = {f"task {i}": falling(9, 5) for i in range(count)}
        assert len(learning_curves(EPOCHS, gaps, {}).axes) == count


@pytest.mark.parametrize(
    ("curves", "kind", "high"),
    [
        ([[200.0, 4.0, 9.0], [300.0, 5.0, 3.0]], "cut", 12.0),  # 9 after the best of 4
        ([[200.0, 4.0, 9.0], [300.0, 20.0, 3.0]], "cut", 24.0),  # else of 300, 20, 3 one alone would be seen
        ([[200.0, float("nan"), 30.0, 36.0]], "cut", 42.0),
        ([[5.0, 3.0, 4.9]], "linear", None),  # nothing would be cut
        ([[200.0, -1.0, 2.0, 2.0]], "cut", None),  # a solver better than the references: as without `from_best`
    ],
)
def test_an_axis_from_the_best_on_has_room_for_what_was_forgotten(curves, kind, high):
    scale = scale_from_best([[curve] for curve in curves])
    assert scale.kind == kind
    if high is None:
        assert scale == scale_for(curves)
    else:
        assert (scale.low, scale.high) == (0.0, high)
    figure = learning_curves(range(len(curves[0])), {str(i): gaps for i, gaps in enumerate(curves)}, {}, from_best=True)
    assert figure.axes[0].get_ylim() == (scale.low, scale.high)
