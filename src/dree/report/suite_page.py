"""One page about a suite of runs: the paper's tables with our numbers, curves to look into, routes side by side.

Everything is inside the page, plotly.js too (about 4.8 MB of it), so that it works offline and can be sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dree.errors import DreeError
from dree.evaluation.metrics import MEASURES, METRICS
from dree.experiments.tables import PaperTable, Value
from dree.files import write_bytes
from dree.report.method_looks import method_looks
from dree.report.page import Picture, template
from dree.report.paper_tables import best_columns, write_difference, write_value
from dree.report.suite_groups import RunGroup, view_of

LONG = 40  # rows; longer tables are folded

__all__ = ["RunGroup", "Suite", "write_suite_page"]


@dataclass(frozen=True)
class Suite:
    """What there is to show."""

    title: str
    subtitle: str = ""
    tables: Sequence[PaperTable] = ()
    groups: Sequence[RunGroup] = ()
    figures: Sequence[Picture] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    missing: Sequence[str] = ()  # what could not be made, and why


@dataclass(frozen=True)
class _Cell:
    """A cell as it is shown; `order` is what its column is sorted by."""

    ours: str
    published: str
    difference: str
    order: float | None
    best: bool


@dataclass(frozen=True)
class _Row:
    keys: tuple[str, ...]
    cells: tuple[_Cell, ...]
    runs: int


@dataclass(frozen=True)
class _Table:
    paper: PaperTable
    rows: tuple[_Row, ...]
    compared: bool  # whether the paper has any of its numbers
    folded: bool


def write_suite_page(target: Path, suite: Suite) -> Path:
    """Write the page. Runs that cannot be shown are named under what is missing, with the reason."""
    looks = method_looks({label: label for group in suite.groups for label in group.runs})
    groups = [view_of(group, looks) for group in suite.groups]
    html = template("suite.html.j2").render(
        suite=suite,
        measures=_measures(suite),
        tables=[_shown(table) for table in suite.tables],
        groups=[group for group in groups if group.plain],
        missing=[*suite.missing, *(line for group in groups for line in group.missing)],
        plotly=plotly_script(),
    )
    return write_bytes(target, html.encode("utf-8"))


def plotly_script() -> str:
    """The source of plotly.js, from the Python package."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise DreeError("The report's curves need plotly. Install it with: pip install 'dree[report]'") from None
    return str(get_plotlyjs())


def _measures(suite: Suite) -> dict[str, str]:
    """The measures that are on the page, with what they mean: those in a table, and all of which runs have."""
    named = {column for table in suite.tables for column in table.columns}
    return {name: words for name, words in MEASURES.items() if name in named or (suite.groups and name in METRICS)}


def _shown(table: PaperTable) -> _Table:
    rows = tuple(
        _Row(
            row.keys,
            tuple(
                _Cell(
                    write_value(cell.ours),
                    "" if cell.published is None else write_value(cell.published),
                    "" if cell.difference is None else write_difference(cell.difference),
                    _middle(cell.ours),
                    column in best,
                )
                for column, cell in enumerate(row.cells)
            ),
            len(row.runs),
        )
        for row, best in zip(table.rows, best_columns(table), strict=True)
    )
    compared = any(cell.published for row in rows for cell in row.cells)
    return _Table(table, rows, compared, len(rows) > LONG)


def _middle(value: Value) -> float | None:
    return value[0] if isinstance(value, tuple) else value
