"""What the paper's tables print, so that a report can show it beside what was measured here.

`published.json` keeps every number as printed. Where a printed number cannot be right, the table's notes say so.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from dree.errors import unknown

FILE = Path(__file__).parent / "published.json"
# Methods, as runs call them, for which the paper has other names: the table, its column, and what stands there. All of
# these runs are on the drift of order 1.
VARIANTS: dict[str, tuple[str, str, str]] = {
    "mt-ref": ("main", "method", "MT-Ref"),
    "mt-cumulative": ("mt-cumulative", "method", "MT-cu"),
    "dree without pir": ("ablation", "method", "w.o.PIR"),
    "dree without br": ("ablation", "method", "w.o.BR"),
    "dree without ee": ("ablation", "method", "w.o.EE"),
    "dree, alpha 5.0": ("hyper-parameters", "setting", "alpha(5)"),
    "dree, alpha 20.0": ("hyper-parameters", "setting", "alpha(20)"),
    "dree, alpha 50.0": ("hyper-parameters", "setting", "alpha(50)"),
    "dree, alpha 200.0": ("hyper-parameters", "setting", "alpha(200)"),
    "dree, beta 0.5": ("hyper-parameters", "setting", "beta(0.5)"),
    "dree, beta 2.0": ("hyper-parameters", "setting", "beta(2)"),
    "dree, buffer 64": ("hyper-parameters", "setting", "buffer(64)"),
    "dree, buffer 128": ("hyper-parameters", "setting", "buffer(128)"),
    "dree, lower 2.0": ("hyper-parameters", "setting", "LB(2)"),
    "dree, upper 8.0": ("hyper-parameters", "setting", "UB(8)"),
    "llr-bc, buffer_every 10": ("llr-bc-frequency", "method", "LLR-BC(10)"),
    "llr-bc, buffer_every 100": ("llr-bc-frequency", "method", "LLR-BC(100)"),
}
# Streams as the paper's table of wall-clock times calls them.
STREAMS = {f"GD{order}": ("drift", order) for order in range(1, 6)} | {"PS1": ("periodic", 1)}
Row = dict[str, Any]  # column -> a name, a number, a (mean, standard deviation), or None where the paper has a dash


@dataclass(frozen=True)
class Note:
    """What a reader of a table must know."""

    text: str
    of: Row = field(default_factory=dict)  # the rows that it is about, by their values; empty: all


@dataclass(frozen=True)
class PublishedTable:
    """One table of the paper."""

    label: str  # in the paper's source
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[Note, ...]

    def where(self, **wanted: object) -> list[Row]:
        """The rows with these values; upper and lower case are the same."""
        return [row for row in self.rows if all(_folded(row[name]) == _folded(value) for name, value in wanted.items())]

    def notes_on(self, shown: Collection[Row]) -> list[str]:
        """The notes about rows of this table that are among those shown."""
        return [note.text for note in self.notes if any(row in shown for row in self.where(**note.of))]


def published(name: str) -> PublishedTable:
    """A table by its short name, such as `main` or `ablation`."""
    tables = _tables()
    if name not in tables:
        raise unknown("published table", name, tables)
    return tables[name]


def published_metrics(
    problem: str, method: str, scenario: str, order: int, base: str = "pomo", finer: bool = False
) -> Row | None:
    """The row of one training run of the paper, if the paper has it; `finer`: on the 41 test tasks."""
    first = (scenario, order, finer) == ("drift", 1, False)
    if base != "pomo":
        rows = published("solvers").where(solver=base, problem=problem, method=method) if first else []
    elif method in VARIANTS:
        table, column, name = VARIANTS[method]
        rows = published(table).where(problem=problem, **{column: name}) if first else []
    elif scenario == "drift" and not finer:
        rows = published("orders").where(problem=problem, method=method, order=order)
    elif order != 1:
        return None
    elif finer:
        rows = published("finer").where(problem=problem, method=method) if scenario == "drift" else []
    else:
        rows = published("scenarios").where(problem=problem, method=method, scenario=scenario)
    return rows[0] if rows else None


def published_seconds(problem: str, method: str, scenario: str, order: int, base: str = "pomo") -> float | None:
    """Seconds of an epoch on the paper's NVIDIA A100, if it has them for such a run."""
    if method == "fine-tuning":
        names = [name for name, stream in STREAMS.items() if stream == (scenario, order)]
        rows = [row for name in names for row in published("wall-clock").where(solver=base, stream=name)]
        seconds = [row["fine-tuning"] for row in rows if row["problem"] == problem]
    else:
        rows = published("overhead").where(method=method)
        first = (problem, scenario, order, base) == ("cvrp", "drift", 1, "pomo")
        seconds = [row["seconds"] for row in rows] if first else []
    return float(seconds[0]) if seconds else None


def published_region(region: str, method: str) -> Row | None:
    """The row of one region of LaDe and one method, if the paper has it."""
    rows = published("lade-regions").where(region=region, method=method)
    return rows[0] if rows else None


@cache
def _tables() -> dict[str, PublishedTable]:
    content = json.loads(FILE.read_text(encoding="utf-8"))["tables"]
    return {name: _table(**table) for name, table in content.items()}


def _table(label: str, title: str, columns: list[str], rows: list[list[Any]], notes: list[Row]) -> PublishedTable:
    pairs = ([tuple(value) if isinstance(value, list) else value for value in row] for row in rows)
    named = tuple(dict(zip(columns, row, strict=True)) for row in pairs)
    return PublishedTable(label, title, tuple(columns), named, tuple(Note(**note) for note in notes))


def _folded(value: object) -> object:
    return value.casefold() if isinstance(value, str) else value
