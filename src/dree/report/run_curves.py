"""The learning curves of several runs in one figure: a column for each problem, in it a strip for each test task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure, SubFigure

from dree.errors import DreeError
from dree.experiments import RunFolder, RunSettings
from dree.experiments.naming import method_title, other_stream, printed_title, run_labels
from dree.experiments.summary import own_columns
from dree.report.curves import (
    add_legend,
    draw_curve,
    frame_panel,
    learning_curves,
    legend_height,
    mark_active,
    scale_from_best,
)
from dree.report.method_looks import Look, method_looks
from dree.report.style import INK, LABEL, MUTED, TITLE, figure_with_layout, task_title
from dree.tasks import Stream

STRIP, COLUMN = 1.12, 4.7  # inches: height of a strip, width of a column


@dataclass(frozen=True)
class DrawnRun:
    """What is drawn of a run: its gaps by test task, those of its stream's own tests."""

    path: Path
    settings: RunSettings
    stream: Stream
    epochs: list[int]
    gaps: dict[str, list[float]]


def run_curves(paths: Sequence[Path]) -> Figure:
    """Gap on each principal task over the epochs, grey where the task takes part in training, a line for each run.

    Runs of one problem must have learned from one stream, because the grey is the stream's.
    """
    runs = [read_run(path) for path in paths]
    if not runs:
        raise DreeError("There are no runs to draw: give at least one run's folder.")
    labels = run_labels([run.path for run in runs], [run.settings for run in runs], printed_title)
    problems = list(dict.fromkeys(run.settings.problem for run in runs))
    strips = max(len(run.gaps) for run in runs)
    looks = method_looks({label: method_title(run.settings) for label, run in zip(labels, runs, strict=True)})
    width = COLUMN * len(problems) + 0.3
    figure = figure_with_layout(width, STRIP * strips + 0.7 + legend_height(list(looks), width))
    columns = figure.subfigures(1, len(problems), squeeze=False)[0]
    for column, problem in zip(columns, problems, strict=True):
        same = {label: run for label, run in zip(labels, runs, strict=True) if run.settings.problem == problem}
        _draw_column(column, same, looks)
    add_legend(figure, looks)
    return figure


def mean_curves(lines: Mapping[str, Sequence[Path]]) -> Figure:
    """A panel for each principal task and a line for each label: the mean of its runs, all on one stream.

    Runs behind one label were tested at the same epochs. Of several labels the epochs are drawn at which all were
    tested, as far as they have come.
    """
    runs = {label: [read_run(path) for path in paths] for label, paths in lines.items()}
    every = [run for same in runs.values() for run in same]
    _check_stream(every)
    asked = sorted({epoch for run in every for epoch in run.epochs})
    epochs = [epoch for epoch in asked if all(epoch in run.epochs or epoch > run.epochs[-1] for run in every)]
    gaps = {label: {law: _mean(same, law, epochs) for law in same[0].gaps} for label, same in runs.items()}
    stream = every[0].stream
    titles = panel_titles(every[0])
    looks = method_looks({label: method_title(same[0].settings) for label, same in runs.items()})
    active = {law: stream.active(law) for law in titles}
    return learning_curves(epochs, gaps, active, titles, from_best=True, looks=looks)


def _mean(runs: Sequence[DrawnRun], law: str, epochs: Sequence[int]) -> list[float]:
    """The mean gap of runs on one task at some epochs; NaN where they have not come yet."""
    known = [dict(zip(run.epochs, run.gaps[law], strict=True)) for run in runs]
    return [float(np.mean([gaps.get(epoch, np.nan) for gaps in known])) for epoch in epochs]


def _draw_column(figure: SubFigure, runs: dict[str, DrawnRun], looks: Mapping[str, Look]) -> None:
    """The strips of one problem, in the order of the stream."""
    first = next(iter(runs.values()))
    _check_stream(list(runs.values()))
    scale = scale_from_best([[run.gaps[law] for run in runs.values()] for law in first.gaps])
    epochs = [min(run.epochs[0] for run in runs.values()), max(run.epochs[-1] for run in runs.values())]
    titles = panel_titles(first)
    strips = figure.subplots(len(first.gaps), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, law in zip(strips, first.gaps, strict=True):
        frame_panel(axes, titles[law], epochs, scale)
        mark_active(axes, first.stream.active(law))
        for label, run in runs.items():
            draw_curve(axes, run.epochs, run.gaps[law], looks[label], label, label_best=len(runs) == 1)
    figure.suptitle(first.settings.problem.upper(), fontsize=TITLE + 2, color=INK, weight="bold")
    figure.supxlabel("epoch", fontsize=LABEL, color=MUTED)
    figure.supylabel(scale.label, fontsize=LABEL, color=MUTED)


def panel_titles(run: DrawnRun) -> dict[str, str]:
    """What the test tasks of a run are called over their panels."""
    tests = run.stream.tests()
    return {name: task_title(name, tests[name]) for name in run.gaps}


def _check_stream(runs: Sequence[DrawnRun]) -> None:
    """Refuse runs that cannot share a panel."""
    for run in runs:
        if run.stream != runs[0].stream:
            raise DreeError(
                f"{runs[0].path} and {run.path} have learned from different streams "
                f"({other_stream((runs[0].settings, runs[0].stream), (run.settings, run.stream))}), so their tasks are "
                "active at different times. Draw them in figures of their own."
            )


def read_run(path: Path) -> DrawnRun:
    """What there is to draw of a run, once it has been tested."""
    folder = RunFolder.open(path)
    epochs, matrix, tasks = folder.gaps()
    if not epochs:
        raise folder.untested()
    settings, stream = folder.settings(), folder.stream()
    gaps = {law: matrix[:, tasks.index(task)].tolist() for task, law in own_columns(stream, tasks).items()}
    if not gaps:
        raise folder.damaged_gaps("it has no column for any test task of the run.")
    return DrawnRun(path, settings, stream, epochs, gaps)
