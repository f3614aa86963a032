"""The learning curves of several runs in one figure: a column for each problem, in it a strip for each test task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure, SubFigure

from dree.errors import DreeError
from dree.experiments import RunFolder, RunSettings
from dree.experiments.naming import run_labels
from dree.experiments.summary import principal_columns
from dree.report.curves import add_legend, draw_curve, frame_panel, mark_active, scale_for
from dree.report.style import INK, LABEL, MUTED, TITLE, figure_with_layout, law_title
from dree.tasks import SyntheticStream

STRIP, COLUMN = 1.12, 4.7  # inches: height of a strip, width of a column


@dataclass(frozen=True)
class _Run:
    """What is drawn of a run: its gaps by law."""

    path: Path
    settings: RunSettings
    stream: SyntheticStream
    epochs: list[int]
    gaps: dict[str, list[float]]


def run_curves(paths: Sequence[Path]) -> Figure:
    """Gap on each principal task over the epochs, grey where the task takes part in training, a line for each run.

    Runs of one problem must have learned from one stream, because the grey is the stream's.
    """
    runs = [_read(path) for path in paths]
    if not runs:
        raise DreeError("There are no runs to draw: give at least one run's folder.")
    labels = run_labels([run.path for run in runs], [run.settings for run in runs])
    problems = list(dict.fromkeys(run.settings.problem for run in runs))
    strips = max(len(run.gaps) for run in runs)
    figure = figure_with_layout(COLUMN * len(problems) + 0.3, STRIP * strips + 1.0)
    columns = figure.subfigures(1, len(problems), squeeze=False)[0]
    for column, problem in zip(columns, problems, strict=True):
        same = {label: run for label, run in zip(labels, runs, strict=True) if run.settings.problem == problem}
        _draw_column(column, same, list(dict.fromkeys(labels)))
    add_legend(figure, list(dict.fromkeys(labels)))
    return figure


def _draw_column(figure: SubFigure, runs: dict[str, _Run], labels: list[str]) -> None:
    """The strips of one problem, in the order of the stream."""
    first = next(iter(runs.values()))
    for run in runs.values():
        if run.stream != first.stream:
            raise DreeError(
                f"{first.path} and {run.path} have learned from different streams (scenario, order, epochs, sizes or "
                "spec), so their tasks are active at different times. Draw them in figures of their own."
            )
    scale = scale_for([gaps for run in runs.values() for gaps in run.gaps.values()])
    epochs = [min(run.epochs[0] for run in runs.values()), max(run.epochs[-1] for run in runs.values())]
    strips = figure.subplots(len(first.gaps), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, law in zip(strips, first.gaps, strict=True):
        title = f"{law_title(law)}, n = {first.stream.principal(law).size}"
        frame_panel(axes, title, epochs, scale)
        mark_active(axes, first.stream.active(law))
        for label, run in runs.items():
            draw_curve(axes, run.epochs, run.gaps[law], labels.index(label), label, label_best=len(runs) == 1)
    figure.suptitle(first.settings.problem.upper(), fontsize=TITLE + 2, color=INK, weight="bold")
    figure.supxlabel("epoch", fontsize=LABEL, color=MUTED)
    figure.supylabel(scale.label, fontsize=LABEL, color=MUTED)


def _read(path: Path) -> _Run:
    folder = RunFolder.open(path)
    epochs, matrix, tasks = folder.gaps()
    if not epochs:
        raise DreeError(f"{path} has not been tested yet. Continue it with: dree run --resume {path}")
    settings = folder.settings()
    gaps = {law: matrix[:, tasks.index(task)].tolist() for task, law in principal_columns(settings, tasks).items()}
    return _Run(path, settings, settings.stream(), epochs, gaps)
