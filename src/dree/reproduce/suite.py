"""Tables and figures from finished runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from dree.bars import Bars, Say, no_bar
from dree.errors import DreeError, with_article
from dree.experiments.engines.base import Outcome
from dree.experiments.engines.work import kept_trace
from dree.experiments.tables import PaperTable
from dree.report.page import Picture
from dree.report.paper_tables import markdown_table
from dree.reproduce.base import Choice, Drawn, Found
from dree.reproduce.plan import Plan

TABLES, FIGURES = "tables", "figures"


@dataclass(frozen=True)
class Reproduced:
    """What came out."""

    tables: tuple[PaperTable, ...]
    figures: tuple[Drawn, ...]
    pictures: tuple[Picture, ...]  # of the figures, for the page
    missing: tuple[str, ...]  # what is not there, and why
    failed: bool = False  # whether an experiment could not be made from what is there


def reproduced(
    plan: Plan, choice: Choice, outcomes: Sequence[Outcome], out: Path, say: Say = lambda _: None, bars: Bars = no_bar
) -> Reproduced:
    """Tables and figures from the runs that were finished; an experiment that fails does not keep the others."""
    runs = {outcome.job.name: outcome.run for outcome in outcomes if outcome.run is not None}
    found = Found(runs, out, say, bars)
    missing = [f"{experiment.name}: {reason}" for experiment, reason in plan.lacking]
    missing += [f"{outcome.job.name}: {outcome.error}" for outcome in outcomes if outcome.error is not None]
    tables: list[PaperTable] = []
    figures: list[Drawn] = []
    pictures: list[Picture] = []
    failed = False
    for experiment in plan.experiments:
        trace = out / f"{experiment.name}.error.txt"
        try:
            for table in experiment.tables(choice, found):
                markdown_table(table)  # so that what cannot be shown is known now, and not when all are written
                tables.append(table)
            for drawn in experiment.figures(choice, found):
                pictures.append(_picture(drawn))  # likewise
                figures.append(drawn)
            trace.unlink(missing_ok=True)  # of an earlier try
        except (DreeError, OSError) as error:
            missing.append(f"{experiment.name}: {error}")
            failed = True
        except Exception as error:  # whatever a user's own experiment can lead to must not keep other tables
            said = f"{experiment.name}: it could not be made, by {type(error).__name__}: {error}."
            missing.append(f"{said} {kept_trace(trace)}")
            failed = True
    return Reproduced(tuple(tables), tuple(figures), tuple(pictures), tuple(missing), failed)


def _picture(drawn: Any) -> Picture:
    """A figure as the page shows it, if that is what an experiment has given, under a name that files can have."""
    if not isinstance(drawn, Drawn) or not isinstance(drawn.figure, Figure):
        of = f" of {with_article(type(drawn.figure).__name__)}" if isinstance(drawn, Drawn) else ""
        raise DreeError(
            f"'figures' returned {with_article(type(drawn).__name__)}{of}. It must return a list of "
            "dree.reproduce.Drawn(name, caption, figure), each with a matplotlib Figure."
        )
    if not isinstance(drawn.name, str) or not drawn.name or Path(drawn.name).name != drawn.name:
        raise DreeError(f"'figures' returned a figure with the name {drawn.name!r}, by which no file can be called.")
    if not isinstance(drawn.caption, str):
        raise DreeError(f"'figures' returned the figure {drawn.name} with the caption {drawn.caption!r}: give a text.")
    return Picture.of(drawn.figure, drawn.caption, drawn.caption, "png")
