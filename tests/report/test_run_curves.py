"""Curves of several runs: a column for each problem, a strip for each task, a line for each run."""

from __future__ import annotations

import numpy as np
import pytest

from dree.errors import DreeError
from dree.report.run_curves import mean_curves, run_curves
from dree.tasks import make_stream
from run_folders import run_with_gaps

OWN = "dree.lifelong.FineTuning"
LAWS = ["E", "C", "G", "U", "R", "GM"]
EPOCHS = [0, 50, 100]


def run(path, last, **settings):
    matrix = [[30.0] * 6, [20.0] * 6, [last + column for column in range(6)]]
    return run_with_gaps(path, matrix, EPOCHS, LAWS, epochs=100, test_every=50, **settings)


def lines(axes):
    return [list(line.get_ydata()) for line in axes.get_lines() if line.get_label() != "_best"]


def test_each_problem_has_a_column_each_task_a_strip_and_each_method_a_line(tmp_path):
    paths = [
        run(tmp_path / "a", 5.0, problem="cvrp"),
        run(tmp_path / "b", 7.0, problem="cvrp", method=OWN),
        run(tmp_path / "c", 9.0, problem="tsp", method=OWN),
    ]
    figure = run_curves(paths)
    cvrp, tsp = figure.subfigs
    assert (cvrp.get_suptitle(), tsp.get_suptitle()) == ("CVRP", "TSP")
    assert [axes.get_title(loc="left") for axes in cvrp.axes][:2] == ["Explosion, n = 50", "Compression, n = 100"]
    assert [len(cvrp.axes), len(tsp.axes)] == [6, 6]
    for column in range(6):
        assert lines(cvrp.axes[column]) == [[30.0, 20.0, 5.0 + column], [30.0, 20.0, 7.0 + column]]
        assert lines(tsp.axes[column]) == [[30.0, 20.0, 9.0 + column]]
    ours, theirs = cvrp.axes[0].get_lines()[2], tsp.axes[0].get_lines()[0]
    assert ours.get_color() == theirs.get_color()  # one method, one colour
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == ["Fine-tuning", OWN]


def test_a_legend_has_methods_as_the_paper_writes_them(tmp_path):
    changes = {
        "a": {"method": "dree"},
        "b": {"method": "llr-bc"},
        "c": {"method": "dree", "options": {"without": "ee"}},
    }
    figure = run_curves([run(tmp_path / name, 5.0, **each) for name, each in changes.items()])
    assert [text.get_text() for text in figure.legends[0].get_texts()][:3] == ["DREE", "LLR-BC", "DREE without EE"]


def test_what_was_forgotten_fills_the_axis_and_not_what_was_never_learned(tmp_path):
    matrix = [[400.0] * 6, [3.0] * 6, [9.0] + [3.0] * 5]
    figure = run_curves([run_with_gaps(tmp_path / "a", matrix, EPOCHS, LAWS, epochs=100, test_every=50)])
    (column,) = figure.subfigs
    assert column.get_supylabel() == "gap (%), cut at 12 %"
    assert {axes.get_ylim() for axes in column.axes} == {(0.0, 12.0)}


def test_grey_is_where_the_task_is_active(tmp_path):
    figure = run_curves([run(tmp_path / "a", 5.0)])
    stream = make_stream("drift", "cvrp", 1, 100)
    for axes, law in zip(figure.subfigs[0].axes, LAWS, strict=True):
        spans = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in axes.patches]
        assert spans == [(first - 1, last) for first, last in stream.active(law)]


def test_runs_of_one_method_are_called_by_their_folders(tmp_path):
    figure = run_curves([run(tmp_path / "one", 5.0), run(tmp_path / "two", 6.0, seed=2)])
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == ["one", "two"]


def test_of_finer_tests_the_principal_tasks_are_drawn(tmp_path):
    tasks = list(make_stream("drift", "cvrp", 1, 100).finer())
    matrix = [[float(column + row) for column in range(41)] for row in range(3)]
    figure = run_curves([run_with_gaps(tmp_path / "run", matrix, EPOCHS, tasks, epochs=100)])
    assert [lines(axes)[0][0] for axes in figure.subfigs[0].axes] == [0, 8, 16, 24, 32, 40]


def half_a_run(path):
    settings = {"epochs": 100, "test_every": 50, "method": OWN}
    return run_with_gaps(path, [[30.0] * 6, [20.0] * 6], EPOCHS[:2], LAWS, **settings)


def test_an_unfinished_run_is_drawn_as_far_as_it_is(tmp_path):
    half = half_a_run(tmp_path / "half")
    (column,) = run_curves([run(tmp_path / "whole", 5.0), half]).subfigs
    assert [len(gaps) for gaps in lines(column.axes[0])] == [3, 2]


def test_a_mean_curve_is_the_mean_of_the_runs_behind_its_label(tmp_path):
    several = [run(tmp_path / "a", 5.0), run(tmp_path / "b", 7.0, seed=1)]
    figure = mean_curves({"two seeds": several, "own": [run(tmp_path / "c", 9.0, method=OWN)]})
    assert [axes.get_title(loc="left") for axes in figure.axes][:2] == ["Explosion, n = 50", "Compression, n = 100"]
    for column, axes in enumerate(figure.axes):
        assert lines(axes) == [[30.0, 20.0, 6.0 + column], [30.0, 20.0, 9.0 + column]]
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == ["two seeds", "own"]


def test_mean_curves_have_the_epochs_at_which_all_were_tested_as_far_as_they_have_come(tmp_path):
    matrix = [[float(t)] * 6 for t in range(5)]
    often = run_with_gaps(tmp_path / "often", matrix, [0, 25, 50, 75, 100], LAWS, epochs=100, test_every=25)
    half = half_a_run(tmp_path / "half")
    axes = mean_curves({"often": [often], "half": [half]}).axes[0]
    drawn = [line for line in axes.get_lines() if line.get_label() != "_best"]
    assert [list(line.get_xdata()) for line in drawn] == [[0, 50, 75, 100]] * 2
    assert lines(axes)[0] == [0.0, 2.0, 3.0, 4.0]
    np.testing.assert_array_equal(lines(axes)[1], [30.0, 20.0, np.nan, np.nan])


def test_runs_that_cannot_share_a_panel_are_refused(tmp_path):
    first, other = run(tmp_path / "a", 5.0), run(tmp_path / "b", 6.0, order=["E", "C", "G", "U", "GM", "R"])
    with pytest.raises(DreeError, match=r"different streams \(order 1 and \['E', 'C', 'G', 'U', 'GM', 'R'\]\), so"):
        run_curves([first, other])
    with pytest.raises(DreeError, match="different streams"):
        mean_curves({"first": [first], "other": [other]})
    (other / "gaps.csv").unlink()
    with pytest.raises(DreeError, match="has not been tested yet"):
        run_curves([other])
    with pytest.raises(DreeError, match="no runs to draw"):
        run_curves([])
