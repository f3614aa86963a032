"""The metrics of one or several runs, with the paper's beside them: for the terminal, and as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.markup import escape
from rich.table import Table

from dree.data.published import Row
from dree.evaluation.metrics import MEASURES, measures_in
from dree.experiments.configuration import LADE
from dree.experiments.naming import run_title, which_stream
from dree.experiments.summary import Kind, MeanMetrics, RunMetrics, departures
from dree.report.tables import SMALLER, Value, write_value


def metrics_rows(runs: Sequence[RunMetrics], means: Sequence[MeanMetrics]) -> list[dict[str, Any]]:
    """A row for each run and each mean, as plain values."""
    rows: list[dict[str, Any]] = []
    for run in runs:
        row = {"run": str(run.run), **_kind(run.kind), "epochs": run.stream.epochs}
        row |= {_which(run.kind): which_stream(run.settings), "seed": run.settings.seed}
        row |= {"epoch": run.epoch, "runs": 1}
        rows.append(row | run.values.as_dict() | _printed(run.published))
    for mean in means:
        values = {name: value for name, (value, _) in mean.values.items()}
        spread = {f"{name}_std": std for name, (_, std) in mean.values.items()}
        row = {"run": "mean", **_kind(mean.kind), "runs": mean.runs}
        rows.append(row | values | spread | _printed(mean.published))
    return rows


def _kind(kind: Kind) -> dict[str, Any]:
    return {**kind._asdict(), "changes": "; ".join(kind.changes)}


def runs_table(runs: Sequence[RunMetrics], means: Sequence[MeanMetrics]) -> Group:
    """A table for each kind of runs: the runs, then their mean; the paper's numbers in lines of their own."""
    of_kind = {mean.kind: mean for mean in means}
    shared = set.intersection(*(set(run.kind.changes) for run in runs)) if runs else set()
    tables = []
    for kind in dict.fromkeys(run.kind for run in runs):
        of_this = [run for run in runs if run.kind == kind]
        length = "" if kind.epochs is None else f"{kind.epochs} epochs, "
        title = f"{run_title(of_this[0].settings)}, {kind.problem.upper()}, {kind.scenario}, {length}{kind.tests} tests"
        title += "".join(f", {change}" for change in kind.changes if change not in shared)
        shown = measures_in(run.values.as_dict() for run in of_this)
        table = Table(title=escape(title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("run", min_width=14, overflow="fold")
        table.add_column(_which(kind))
        for name in shown:
            table.add_column(name, justify="right", no_wrap=True)
        for run in of_this:
            name = escape(run.run.name) + ("" if run.finished else f" (epoch {run.epoch} of {run.stream.epochs})")
            _add_values(table, name, which_stream(run.settings), run.values.as_dict(), shown)
            _add_published(table, run.published, shown)
        if kind in of_kind:
            table.add_section()
            mean = of_kind[kind]
            _add_values(table, f"mean of {mean.runs} runs", "", mean.values, shown, "bold")
            _add_published(table, mean.published, shown)
        tables.append(table)
    return Group(*tables, _caption(runs))


def _add_values(
    table: Table, name: str, which: str, values: Mapping[str, Value], shown: Iterable[str], style: str = ""
) -> None:
    table.add_row(name, which, *(write_value(values.get(each)) for each in shown), style=style or None)


def _add_published(table: Table, row: Row | None, shown: Iterable[str]) -> None:
    if row is not None:
        _add_values(table, "  published", "", row, shown, "dim")


def _caption(runs: Sequence[RunMetrics]) -> str:
    """What the numbers are; and, where the paper's stand beside them, how the runs differ from the paper's."""
    words = f"{SMALLER} A mean has its standard deviation, of a population, behind it."
    for run in runs:
        changed = departures(run.settings) if run.published is not None else {}
        if changed and run.kind.tests != "finer":
            each = ", ".join(f"{name} = {value}" for name, value in changed.items())
            words += f"\n{escape(run.run.name)} differs from the paper's run in: {escape(each)}."
    return words


def _which(kind: Kind) -> str:
    """The column that tells runs of a kind apart."""
    return "region" if kind.scenario == LADE else "order"


def _printed(row: Row | None) -> dict[str, Any]:
    """The paper's numbers under names of their own."""
    if row is None:
        return {}
    printed: dict[str, Any] = {}
    for name in (name for name in MEASURES if name in row):
        mean, std = row[name] if isinstance(row[name], tuple) else (row[name], None)
        printed |= {f"published_{name}": mean} | ({} if std is None else {f"published_{name}_std": std})
    return printed
