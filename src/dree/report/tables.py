"""Numbers for people: what the metrics mean, how values are written, and tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table as RichTable

from dree.errors import DreeError, unknown
from dree.evaluation.metrics import MEASURES, measures_in

# A gap in percent; a mean and its standard deviation; or nothing where the method has no such value.
Value = float | tuple[float, float] | None

SMALLER = "In percent of the reference cost; smaller is better."
NOTHING = "–"


def write_value(value: Value) -> str:
    """A value with two decimals, `mean ± deviation` for a pair, a dash for nothing."""
    if value is None:
        return NOTHING
    if isinstance(value, tuple):
        return f"{value[0]:z.2f} ± {value[1]:z.2f}"
    return f"{value:z.2f}"


def write_seconds(seconds: float | None) -> str:
    """A time for people: `40 s`, `12 min`, `3 h 05 min`, `2 d 4 h`."""
    if seconds is None:
        return NOTHING
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def smallest(values: Sequence[Value]) -> tuple[int, ...]:
    """Where the smallest value stands (everywhere it does); nowhere if there is nothing to compare it with."""
    numbers = [value[0] if isinstance(value, tuple) else value for value in values]
    known = [f"{number:z.2f}" for number in numbers if number is not None]
    if len(known) < 2:
        return ()
    least = f"{min(number for number in numbers if number is not None):z.2f}"
    return tuple(i for i, number in enumerate(numbers) if number is not None and f"{number:z.2f}" == least)


def check_metrics(rows: Mapping[str, Mapping[str, Value]]) -> None:
    """Refuse a table without methods or with a metric that nobody has defined."""
    if not rows:
        raise DreeError("There are no metrics to show: give at least one method.")
    for metrics in rows.values():
        for name in metrics:
            if name not in MEASURES:
                raise unknown("metric", name, MEASURES)


def metrics_table(rows: Mapping[str, Mapping[str, Value]], title: str = "") -> RichTable:
    """Methods with their metrics for the terminal, the best of each in bold."""
    check_metrics(rows)
    table = RichTable(title=title or None, caption=SMALLER, caption_justify="left", header_style="bold")
    table.add_column("method")
    shown = measures_in(rows.values())
    for metric in shown:
        table.add_column(metric, justify="right")
    columns = [[metrics.get(metric) for metrics in rows.values()] for metric in shown]
    best = [smallest(column) for column in columns]
    for index, method in enumerate(rows):
        cells = [write_value(column[index]) for column in columns]
        bold = [f"[bold]{cell}[/]" if index in best[c] else cell for c, cell in enumerate(cells)]
        table.add_row(_plain(method), *bold)
    return table


def _plain(text: str) -> str:
    """Text in which square brackets are brackets, not markup."""
    return text.replace("[", r"\[")
