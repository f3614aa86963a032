"""What is left of a reproduction: tables in four forms, figures, and one page with all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from dree.errors import DreeError
from dree.experiments import RunSettings
from dree.experiments.engines.base import Job, Outcome
from dree.experiments.naming import method_title
from dree.report import save_both
from dree.report.paper_tables import terminal_table, write_table
from dree.report.suite_groups import RunGroup
from dree.report.suite_page import Suite, write_suite_page
from dree.reproduce.base import REFERENCE, SPECIFICATIONS, Choice
from dree.reproduce.estimate import device_in_words
from dree.reproduce.plan import Plan
from dree.reproduce.suite import FIGURES, TABLES, Reproduced

PAGE = "report.html"


def write_report(
    result: Reproduced, plan: Plan, choice: Choice, outcomes: Sequence[Outcome], out: Path, console: Console
) -> list[Path]:
    """Show and write everything; the page is the last of the files."""
    written = []
    for table in result.tables:
        console.print(terminal_table(table))
        written += write_table(table, out / TABLES)
    for drawn in result.figures:
        written += save_both(drawn.figure, out / FIGURES, drawn.name)
    titles = ", ".join(experiment.title.lower() for experiment in plan.experiments)
    suite = Suite(
        title="The paper reproduced",
        subtitle=titles if len(plan.experiments) < 4 else f"{len(plan.experiments)} tables and figures",
        tables=result.tables,
        groups=run_groups(outcomes, choice.seeds[0], choice.scale.options),
        figures=result.pictures,
        facts={
            "scale": f"{choice.scale.name}: {choice.scale.title}",
            "problems": ", ".join(choice.problems),
            "task orders": ", ".join(map(str, choice.orders)),
            "synthetic tasks": f"by {SPECIFICATIONS[choice.spec]} (--spec {choice.spec})",
            "seeds": ", ".join(map(str, choice.seeds)),
            "trainings": str(len(plan.jobs)),
            "hardware": device_in_words(choice.settings()),
        },
        missing=result.missing,
    )
    try:
        written.append(write_suite_page(out / PAGE, suite))
    except DreeError as error:  # what it is drawn with may not be installed where runs are carried out
        console.print(f"No page: {error}", markup=False, highlight=False, soft_wrap=True)
    return written


def run_groups(
    outcomes: Sequence[Outcome], seed: int, usual: Mapping[str, Mapping[str, Any]] | None = None
) -> list[RunGroup]:
    """Runs that can be compared: one seed, one stream and base solver.

    Methods as they are by default, or with the options that are usual at this scale, make one group, and a method with
    its variants, such as ablations, another.
    """
    groups: dict[str, dict[str, Path]] = {}
    ours = [job.settings for job, _ in _finished(outcomes)]
    references = frozenset(method_title(settings) for settings in ours if settings.method == REFERENCE)
    for job, run in _finished(outcomes):
        title, settings = _group_title(job.settings), job.settings
        if settings.seed == seed:
            own = f"{title}: variants of {settings.method}"
            is_usual = settings.options == (usual or {}).get(settings.method, {})
            for group in [title, own] if is_usual else [own]:
                groups.setdefault(group, {})[method_title(settings)] = run
    return [RunGroup(title, runs, references) for title, runs in sorted(groups.items()) if len(runs) > 1]


def _group_title(settings: RunSettings) -> str:
    """What its runs have in common: `CVRP, drift, order 1`, `TSP, real days of sh-2`."""
    where = f"real days of {settings.region}" if settings.region else f"{settings.scenario}, order {settings.order}"
    base = f", with {settings.base}" if settings.base != RunSettings.base else ""
    laws = f", by {SPECIFICATIONS[settings.spec]}" if settings.spec != RunSettings.spec else ""
    return f"{settings.problem.upper()}, {where}{base}{laws}"


def _finished(outcomes: Sequence[Outcome]) -> Iterator[tuple[Job, Path]]:
    for outcome in outcomes:
        if outcome.run is not None:
            yield outcome.job, outcome.run
