"""Tables of evaluations for the terminal, and the same as plain values for files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from dree.data.published import published
from dree.evaluation.evaluate import Evaluation
from dree.evaluation.libraries import LibraryResult
from dree.report.tables import NOTHING

UNKNOWN = "unknown"
ROUNDING = (
    "Unrounded: distances as they are, as in the paper; rounded: each distance rounded as the library does it. "
    "Gaps to the best known length, which is a rounded one. std: of a population."
)
# What is shown of the paper's table, as room allows.
SHOWN = {
    "distances": "Published: distances and gaps %.",
    "gaps": "Published: gaps %; --json and --csv have the distances too.",
    "nothing": "A wider terminal shows the published numbers beside these; --json and --csv have them.",
}


def evaluation_rows(results: Sequence[Evaluation]) -> list[dict[str, Any]]:
    """A row for each test task, as plain values."""
    return [
        {
            "task": each.task,
            "test_set": each.test,
            "mean_gap": each.mean,
            "std_gap": each.std,
            "instances": each.instances,
            "seconds": each.seconds,
            "instances_per_second": each.rate,
        }
        for each in results
    ]


def evaluation_table(results: Sequence[Evaluation], title: str) -> Table:
    """A row for each test task, and their mean."""
    table = Table(title=title, title_justify="left", caption="Gaps in per cent of the reference cost.")
    table.add_column("task")
    for name in ("mean gap", "std", "instances", "seconds", "instances/s"):
        table.add_column(name, justify="right")
    for each in results:
        numbers = (
            f"{each.mean:z.2f}",
            f"{each.std:.2f}",
            str(each.instances),
            f"{each.seconds:.1f}",
            f"{each.rate:.1f}",
        )
        table.add_row(each.task, *numbers)
    instances, seconds = sum(each.instances for each in results), sum(each.seconds for each in results)
    mean = f"{np.mean([each.mean for each in results]):z.2f}"
    table.add_section()
    table.add_row("mean of tasks", mean, NOTHING, str(instances), f"{seconds:.1f}", f"{instances / seconds:.1f}")
    return table


def before_and_after_table(before: Mapping[str, float], after: Mapping[str, float]) -> Table:
    """Gaps by test task before and after something was learned, and their means."""
    table = Table(caption="Gaps in per cent of the reference cost: greedy, all starts.")
    table.add_column("task")
    for name in ("before", "after"):
        table.add_column(name, justify="right")
    for task in before:
        table.add_row(task, f"{before[task]:z.2f}", f"{after[task]:z.2f}")
    table.add_section()
    table.add_row("mean of tasks", *(f"{np.mean(list(gaps.values())):z.2f}" for gaps in (before, after)))
    return table


def library_rows(results: Sequence[LibraryResult], library: str | None) -> list[dict[str, Any]]:
    """A row for each instance, with the paper's numbers where it is one of a library's."""
    rows = []
    for each in results:
        row: dict[str, Any] = {
            "instance": each.name,
            "customers": each.customers,
            "best_known": each.best_known,
            "distance_unrounded": each.distance,
            "gap_unrounded": each.gap,
            "distance_rounded": each.rounded,
            "gap_rounded": each.rounded_gap,
            "seconds": each.seconds,
        }
        for paper in _published(each.name, library):
            row |= {f"published_{paper['method']}_{name}": paper[name] for name in ("distance", "gap")}
        rows.append(row)
    return rows


def library_summary(results: Sequence[LibraryResult]) -> dict[str, tuple[float, float] | None]:
    """Mean and standard deviation (of a population) of the gaps; nothing where no best known length is known."""
    return {
        "gap_unrounded": mean_and_std([each.gap for each in results]),
        "gap_rounded": mean_and_std([each.rounded_gap for each in results]),
    }


def library_table(results: Sequence[LibraryResult], library: str | None, title: str, width: int) -> Table:
    """A row for each instance, then mean and standard deviation, beside as much of the paper's as fits the width."""
    if library is None:
        return _library_table(results, None, title, "")
    for shown in SHOWN:
        table = _library_table(results, library, title, shown)
        if _width(table) <= width:
            break
    return table


def _library_table(results: Sequence[LibraryResult], library: str | None, title: str, shown: str) -> Table:
    caption = f"{ROUNDING} {SHOWN.get(shown, '')}"
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    table.add_column("instance", no_wrap=True)
    for name in ("n", "best\nknown", "length\nunrounded", "\ngap %", "length\nrounded", "\ngap %"):
        table.add_column(name, justify="right", no_wrap=True)
    methods = list(dict.fromkeys(row["method"] for row in published(library).rows)) if library else []
    methods = [] if shown == "nothing" else methods
    for method in methods:
        table.add_column(method.replace("-t", "-\nt"), justify="right", style="dim", no_wrap=True)
    for each in results:
        best = UNKNOWN if each.best_known is None else str(each.best_known)
        ours = (f"{each.distance:.2f}", _gap(each.gap), str(each.rounded), _gap(each.rounded_gap))
        paper = {row["method"]: row for row in _published(each.name, library)}
        theirs = (_cell(paper.get(method), shown == "distances") for method in methods)
        table.add_row(each.name, str(each.customers), best, *ours, *theirs)
    table.add_section()
    _add_summary(table, results, library, methods)
    return table


def _width(table: Table) -> int:
    """The characters that a table needs to show everything."""
    console = Console(width=1000)
    return Measurement.get(console, console.options, table).maximum


def mean_and_std(values: Sequence[float | None]) -> tuple[float, float] | None:
    """Mean and standard deviation, of a population, of the values that are known."""
    known = [value for value in values if value is not None]
    return (float(np.mean(known)), float(np.std(known))) if known else None


def _add_summary(table: Table, results: Sequence[LibraryResult], library: str | None, methods: Sequence[str]) -> None:
    """Two lines, mean and standard deviation: ours, and the paper's over the same instances."""
    ours = library_summary(results)
    names = {each.name for each in results}
    columns: list[tuple[float, float] | None] = [ours["gap_unrounded"], ours["gap_rounded"]]
    if library:
        rows = [row for row in published(library).rows if row["instance"] in names]
        columns += [mean_and_std([row["gap"] for row in rows if row["method"] == method]) for method in methods]
    for index, name in enumerate(("mean", "std")):
        unrounded, rounded, *paper = (UNKNOWN if each is None else f"{each[index]:z.2f}" for each in columns)
        table.add_row(name, "", "", "", unrounded, "", rounded, *paper)


def _published(instance: str, library: str | None) -> list[dict[str, Any]]:
    return published(library).where(instance=instance) if library else []


def _gap(gap: float | None) -> str:
    return UNKNOWN if gap is None else f"{gap:z.2f}"


def _cell(row: dict[str, Any] | None, distances: bool) -> str:
    if row is None:
        return NOTHING
    return f"{row['distance']:.2f} {row['gap']:6.2f}" if distances else f"{row['gap']:.2f}"
