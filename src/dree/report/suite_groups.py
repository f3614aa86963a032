"""Runs on one stream, as the page of a suite shows them: plain values for its tables, curves and pictures.

A run that cannot be shown is told of and does not keep the others from being shown.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dree.errors import DreeError
from dree.evaluation.metrics import AT_THE_END, measures_in
from dree.experiments import RunFolder
from dree.experiments.naming import stream_title
from dree.experiments.summary import measured, own_columns
from dree.report.curves import scale_from_best
from dree.report.method_looks import Look
from dree.report.numbers import TITLES, own_numbers
from dree.report.page import Row, Table
from dree.report.run_curves import DrawnRun, panel_titles, read_run
from dree.report.style import LINE_STYLES
from dree.report.suite_routes import routes_data
from dree.report.tables import NOTHING, smallest, write_seconds, write_value

POINTS = 250  # of a curve; more cannot be told apart on a screen
DASHES = ("solid", "dash", "dot", "dashdot")  # plotly's names, in the order of our line styles
Plain = dict[str, Any]  # values that JSON can hold


@dataclass(frozen=True)
class RunGroup:
    """Runs that have learned from one stream, by what they are called; folders without weights will do."""

    title: str
    runs: Mapping[str, Path]
    references: Collection[str] = ()  # of these, such as MT-Ref: no competitors, so never the best


@dataclass(frozen=True)
class Bar:
    """A number in a table, and how long its bar is beside those of the others, in per cent."""

    text: str
    share: float = 0.0


@dataclass(frozen=True)
class TimeRow:
    """What a run has cost."""

    name: str
    seconds: Bar  # an epoch
    total: str
    memory: Bar
    device: str


@dataclass(frozen=True)
class GroupView:
    """All that the page shows of a group; without a stream where none of its runs can be shown."""

    title: str
    stream: str
    tables: tuple[Table, ...]
    times: tuple[TimeRow, ...]
    plain: Plain = field(default_factory=dict)  # for the page's script: methods, curves, numbers, routes
    without_routes: tuple[str, ...] = ()  # why routes of a run are not shown
    missing: tuple[str, ...] = ()  # why a run is not shown at all


def view_of(group: RunGroup, looks: Mapping[str, Look]) -> GroupView:
    """What is shown of a group; `looks` are those of all groups, so that a method has one colour on the page."""
    runs, missing = _readable(group)
    if not runs:
        return GroupView(group.title, "", (), (), missing=tuple(missing))
    folders = {label: RunFolder.open(run.path) for label, run in runs.items()}
    first = next(iter(runs.values()))
    logs = {label: folder.log("metrics.jsonl") for label, folder in folders.items()}
    routes, without_routes = routes_data({label: run.path for label, run in runs.items()}, panel_titles(first))
    plain = {
        "methods": [_method(label, looks[label]) for label in runs],
        "curves": _curves(runs),
        "numbers": _numbers(logs),
        "routes": routes,
    }
    stream = f"{first.settings.problem.upper()}, {stream_title(first.settings, first.stream)}"
    tables = _tables(runs, folders, group.references)
    return GroupView(group.title, stream, tables, _times(folders), plain, tuple(without_routes), tuple(missing))


def _readable(group: RunGroup) -> tuple[dict[str, DrawnRun], list[str]]:
    runs: dict[str, DrawnRun] = {}
    missing = []
    for label, path in group.runs.items():
        try:
            run = read_run(path)
            for name in ("metrics.jsonl", "timings.jsonl"):
                RunFolder(path).log(name)  # says what is wrong with it
            stream = next(iter(runs.values()), run).stream
            if run.stream != stream:
                raise DreeError(f"{path} has learned from another stream than the others.")
            runs[label] = run
        except DreeError as error:
            missing.append(f"{group.title}, {label}: {error}")
    return runs, missing


def _method(label: str, look: Look) -> Plain:
    return {"name": label, "colour": look.colour, "dash": DASHES[LINE_STYLES.index(look.dashes)]}


def _curves(runs: Mapping[str, DrawnRun]) -> Plain:
    """A panel for each test task, on the same axes."""
    first = next(iter(runs.values()))
    scale = scale_from_best([[run.gaps[law] for run in runs.values() if law in run.gaps] for law in first.gaps])
    titles = panel_titles(first)
    epochs = sorted({epoch for run in runs.values() for epoch in run.epochs})
    panels = [
        {
            "title": titles[law],
            "bands": [(begin - 1, end) for begin, end in first.stream.active(law)],
            "lines": [
                {"method": i, "x": run.epochs, "y": short(run.gaps[law])}
                for i, run in enumerate(runs.values())
                if law in run.gaps
            ],
        }
        for law in titles
    ]
    learned = {str(epoch): first.stream.task(epoch).name for epoch in epochs if epoch > 0}
    axis = {"label": scale.label, "log": scale.kind == "log", "range": short([scale.low, scale.high])}
    return {"panels": panels, "axis": axis, "learned": learned}


def _numbers(logs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Plain | None:
    """A panel for each number that a method reports of itself; None where none does."""
    panels = []
    for name in dict.fromkeys(name for log in logs.values() for name in own_numbers(log)):
        title, unit = TITLES.get(name, (name, 1))
        lines = []
        for i, log in enumerate(logs.values()):
            rows = [row for row in log if row.get(name) is not None]
            rows = [rows[k] for k in _spread(len(rows))]
            if rows:
                values = short([unit * float(row[name]) for row in rows])
                lines.append({"method": i, "x": [row["epoch"] for row in rows], "y": values})
        panels.append({"title": title, "bands": [], "lines": lines})
    return {"panels": panels, "axis": None, "learned": {}} if panels else None


def _spread(count: int) -> list[int]:
    """Which of so many points are drawn: all, or some from the first to the last."""
    if count <= POINTS:
        return list(range(count))
    return [int(place) for place in np.linspace(0, count - 1, POINTS).round()]


def _tables(
    runs: Mapping[str, DrawnRun], folders: Mapping[str, RunFolder], references: Collection[str]
) -> tuple[Table, ...]:
    """The metrics, and the gap on each test task at the end: the curves for those who cannot see them."""
    first, values = next(iter(runs.values())), {}
    for label, run in runs.items():
        tasks = folders[label].gaps()[2]
        columns = [tasks.index(name) for name in own_columns(run.stream, tasks)]
        every = measured(folders[label], columns).as_dict()
        values[label] = {name: value for name, value in every.items() if label not in references or name in AT_THE_END}
    titles = {law: title.replace(" = ", "\u00a0=\u00a0") for law, title in panel_titles(first).items()}
    last = {label: {titles[law]: gaps[-1] for law, gaps in run.gaps.items()} for label, run in runs.items()}
    notes = {label: _unfinished(run) for label, run in runs.items()}
    return (
        _by_method("Metrics", list(measures_in(values.values())), values, notes, references),
        _by_method("Gap on each test task when it was last tested", list(titles.values()), last, notes, references),
    )


def _by_method(
    caption: str,
    columns: Sequence[str],
    values: Mapping[str, Mapping[str, float]],
    notes: Mapping[str, str],
    references: Collection[str],
) -> Table:
    """A row for each method, which leaves room for many of them."""
    rivals = [{} if label in references else row for label, row in values.items()]
    best = [smallest([row.get(column) for row in rivals]) for column in columns]
    rows = tuple(
        Row(
            label,
            tuple(write_value(row.get(column)) for column in columns),
            notes[label],
            tuple(c for c, places in enumerate(best) if i in places),
        )
        for i, (label, row) in enumerate(values.items())
    )
    return Table(caption, "method", tuple(columns), rows)


def _unfinished(run: DrawnRun) -> str:
    at, end = run.epochs[-1], run.stream.epochs
    return "" if at == end else f"up to epoch {at} of {end}"


def _times(folders: Mapping[str, RunFolder]) -> tuple[TimeRow, ...]:
    """What every run has cost, as far as its log tells."""
    logs = {label: folder.log("timings.jsonl") for label, folder in folders.items()}
    seconds = {label: float(np.mean([row["seconds"] for row in log])) if log else None for label, log in logs.items()}
    peaks = {label: _peak(log) for label, log in logs.items()}
    return tuple(
        TimeRow(
            label,
            _bar(seconds[label], seconds.values(), "s"),
            write_seconds(sum(row["seconds"] for row in log) if log else None),
            _bar(peaks[label], peaks.values(), "GiB"),
            str(folders[label].manifest()["hardware"]["device"]),
        )
        for label, log in logs.items()
    )


def _peak(log: Sequence[Mapping[str, Any]]) -> float | None:
    """The most GPU memory in use at once, in GiB."""
    known = [row["peak_bytes"] for row in log if row.get("peak_bytes") is not None]
    return max(known) / 2**30 if known else None


def _bar(value: float | None, every: Any, unit: str) -> Bar:
    if value is None:
        return Bar(NOTHING)
    longest = max(each for each in every if each is not None)
    digits = 2 if value >= 0.1 else 4  # small runs take milliseconds
    return Bar(f"{value:.{digits}f} {unit}", round(100 * value / longest, 1) if longest else 0.0)


def short(values: Sequence[float]) -> list[float | None]:
    """Numbers with five digits, which is all that a curve shows; None where there is none."""
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in values]
