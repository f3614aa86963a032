"""The page of results in Markdown, with figures, from runs that are kept: the same text from the same runs, always."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from dree.data.published import published
from dree.errors import DreeError
from dree.evaluation.metrics import measures_in
from dree.experiments.library_gaps import LibraryGaps
from dree.experiments.naming import printed_title, run_command, run_title, stream_title, stream_words
from dree.experiments.results import QUARTERS, Result, ResultTable, result_tables
from dree.files import write_text
from dree.report.run_curves import mean_curves
from dree.report.style import save
from dree.report.tables import write_value

FIGURES = "figures"  # a folder beside the page
TIMES = ("s/epoch", "learning, min", "tests, min")
DPI = 100  # small files: below 200 kB unless a dozen lines are very ragged
INTRODUCTION = """\
# Results

Written by `dree results write` from the [runs that are kept]({root}), where `dree results add` has put them. Change
those, not this page.

Gaps to the reference costs in per cent; smaller is better.

{metrics}

Several seeds: their mean ± standard deviation, of a population. Times are by the clock: `s/epoch` to learn an epoch, on
average and without tests, `learning` all epochs, `tests` all tests, where that was recorded; processes that share a
device slow each other down. `GPU memory` is the most that was in use at once. Where runs took turns on a device ("3
runs at once"), its time and memory went to all of them. "Published" are the paper's numbers, its times those of an
NVIDIA A100, given only where every setting is the paper's. Curves are means over the seeds.
"""


def write_results_page(root: Path, page: Path) -> Path:
    """Write the page about all runs under `root`, and a figure for each of its tables."""
    tables = result_tables(root)
    if not tables:
        raise DreeError(f"There are no runs in {root}. Put some there with: dree results add RUN")
    for name, table in _figure_names(tables).items():
        save(mean_curves(_lines(table)), page.parent / FIGURES / name, DPI)
    return write_text(page, results_text(tables, root, page.parent))


def results_text(tables: Sequence[ResultTable], root: Path, place: Path) -> str:
    """The text of a page in the folder `place`."""
    shown = measures_in(result.values for table in tables for result in table.results)
    metrics = "\n".join(f"- {name}: {words}" for name, words in shown.items())
    parts = [INTRODUCTION.format(root=_link(root, place), metrics=metrics)]
    before = None
    for name, table in _figure_names(tables).items():
        if table.folder != before:
            parts.append(f"## {table.folder.name}\n")
            notes = table.folder / "README.md"
            parts += [f"[Notes]({_link(notes, place)})\n"] if notes.is_file() else []
        before = table.folder
        parts.append(_section(table, f"{FIGURES}/{quote(name)}", place))
    return "\n".join(parts)


def _section(table: ResultTable, figure: str, place: Path) -> str:
    """What was run, the numbers, the curves, and how to repeat it."""
    first = table.results[0].runs[0]
    title = f"{first.settings.problem.upper()}, {stream_title(first.settings, first.stream)}."
    own = "process" if first.settings.region else "principal"
    shown = list(measures_in(result.values for result in table.results))
    tests_timed = any(result.times.tests is not None for result in table.results)
    times = len(TIMES) if tests_timed else len(TIMES) - 1
    shared = ", ".join(f"`{name}` {value}" for name, value in table.shared.items())
    parts = [
        title + (f" Not as in the paper: {shared}." if shared else ""),
        _table(
            ["method", "seeds", *shown, *TIMES[:times], "GPU memory, GiB", "device"],
            (row for result in table.results for row in _rows(result, shown, times)),
        ),
        *_copies(table, place),
        *_replays(table),
        *_libraries(table),
        f"![Gap on each {own} task over the epochs]({figure})",
        "To repeat them, with each of the seeds:",
        "\n".join(f"- {_repeat(result, place)}" for result in table.results if not _is_finer(result)),
    ]
    return "\n\n".join(parts) + "\n"


def _rows(result: Result, shown: Sequence[str], times: int) -> list[list[str]]:
    """Ours, with so many of the times, and the paper's numbers below."""
    seeds = ", ".join(str(run.settings.seed) for run in result.runs)
    memory = None if result.peak_bytes is None else result.peak_bytes / 2**30
    device = f"{result.device}, {result.precision}"
    values = [write_value(result.values.get(name)) for name in shown]
    minutes = [None if seconds is None else seconds / 60 for seconds in (result.times.run, result.times.tests)]
    taken = [write_value(value) for value in (result.times.epoch, *minutes)][:times]
    rows = [[result.label, seeds, *values, *taken, write_value(memory), device]]
    if result.published is not None:
        published = [write_value(result.published.get(name)) for name in shown]
        epoch = "" if result.published_seconds is None else write_value(result.published_seconds)
        rows.append(["published", "", *published, epoch, *[""] * (times - 1), "", ""])
    return rows


def _copies(table: ResultTable, place: Path) -> list[str]:
    """Which runs are not counted, because others have their settings and their seeds."""
    links = ", ".join(f"[{path.name}]({_link(path, place)})" for path in table.copies)
    return [f"Left out, for runs with the same settings and seeds are there: {links}."] if links else []


def _replays(table: ResultTable) -> list[str]:
    """How instance replay went, where there was any."""
    rows = []
    for result in table.results:
        if result.replays is not None and not _is_finer(result):
            shares = (None if share is None else 100 * share for share in result.replays.improved)
            numbers = (result.replays.an_epoch, result.replays.interval, *shares)
            rows.append([result.label, *map(write_value, numbers)])
    quarters = [f"quarter {number}" for number in range(1, QUARTERS + 1)]
    words = (
        "Instance replay: how often in an epoch, every how many new batches, and what per cent of the instances were "
        "solved better than before, in each quarter of the stream:"
    )
    return [words, _table(["method", "replays/epoch", "N", *quarters], rows)] if rows else []


def _libraries(table: ResultTable) -> list[str]:
    """What solvers do on library instances, where that is kept."""
    rows = []
    for result in table.results:
        if _is_finer(result):
            continue
        for run, known in zip(result.runs, result.libraries, strict=True):
            for gaps in known:
                label = [result.label, *([f"seed {run.settings.seed}"] if len(result.runs) > 1 else [])]
                label += [f"best of {gaps.copies} symmetric copies"] if gaps.copies > 1 else []
                solved = [gaps.library.upper(), gaps.frame, str(gaps.instances), write_value((gaps.mean, gaps.std))]
                rows.append([", ".join(label), *solved, _published_gap(result, gaps)])
    words = "On library instances, greedy and from all starts: the mean gap ± its deviation over the instances."
    return [words, _table(["method", "library", "frame", "instances", "gap", "published"], rows)] if rows else []


def _published_gap(result: Result, gaps: LibraryGaps) -> str:
    """The paper's, which are of POMO on the drift of order 1, where all its instances were solved."""
    kind, settings = result.runs[0].kind, result.settings
    as_published = (kind.base, kind.scenario, settings.order) == ("pomo", "drift", 1)
    if result.published is None or not as_published or not gaps.whole or gaps.copies > 1:
        return ""
    rows = published("libraries").where(library=gaps.library, method=kind.method)
    return write_value(rows[0]["gap"]) if rows else ""


def _repeat(result: Result, place: Path) -> str:
    """The command of a line of the table, with links to its runs."""
    runs = ", ".join(f"[seed {run.settings.seed}]({_link(run.run, place)})" for run in result.runs)
    return f"{result.label} ({runs}):\n  `{shlex.join(run_command(result.settings))}`"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def _figure_names(tables: Sequence[ResultTable]) -> dict[str, ResultTable]:
    """A file name for each table: its group and, where that does not say it, its stream."""
    named: dict[str, ResultTable] = {}
    names: Counter[str] = Counter()
    for table in tables:
        stream = "-".join(stream_words(table.results[0].settings))
        name = stream if stream == table.folder.name else f"{table.folder.name}-{stream}"
        names[name] += 1
        named[f"{name}{f'-{names[name]}' if names[name] > 1 else ''}.png"] = table
    return named


def _lines(table: ResultTable) -> dict[str, list[Path]]:
    """The lines of a figure, called by their methods alone, as in print, where these tell them apart."""
    drawn = [result for result in table.results if not _is_finer(result)]
    often = Counter(result.runs[0].kind.method for result in drawn)
    labels = []
    for each in drawn:
        more = each.label.removeprefix(run_title(each.settings)) if often[each.runs[0].kind.method] > 1 else ""
        labels.append(printed_title(each.settings) + more)
    return {label: [run.run for run in result.runs] for label, result in zip(labels, drawn, strict=True)}


def _is_finer(result: Result) -> bool:
    """Whether a line is about the finer tests; there is one about the stream's own tests of the same runs."""
    return result.runs[0].kind.tests == "finer"


def _link(target: Path, start: Path) -> str:
    return quote(Path(os.path.relpath(target, start)).as_posix())
