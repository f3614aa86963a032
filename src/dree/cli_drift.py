"""The command line of the drift report: `dree drift --help`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dree.errors import DreeError
from dree.terminal import bar, say

if TYPE_CHECKING:
    from dree.evaluation.drift import Days, Drift

EPOCHS = 120  # of a synthetic stream: every 8th or so of the paper's, and all orders and scenarios can be so long
FIGURES, NUMBERS = ("png", "pdf"), "json"  # the endings of a report's files


def drift(
    source: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A CSV file of LaDe-D, or a folder of them; with --region.")
    ] = None,
    region: Annotated[str | None, typer.Option(help="The region, such as sh-2.")] = None,
    scenario: Annotated[
        str | None, typer.Option(help="Instead of a file: a synthetic stream, drift, periodic or sudden.")
    ] = None,
    order: Annotated[int | None, typer.Option(help="Its task order, 1 to 5 (default: 1).")] = None,
    problem: Annotated[str | None, typer.Option(help="tsp or cvrp (default: tsp).")] = None,
    epochs: Annotated[int | None, typer.Option(help=f"Its length (default: {EPOCHS}).")] = None,
    nodes: Annotated[int, typer.Option(help="Of a larger day a random part of so many nodes is compared.")] = 300,
    seed: Annotated[int, typer.Option(help="Fixes everything random.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Processes that compare (default: one for each core).")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The report's files without their endings (default: drift-NAME).")
    ] = None,
) -> None:
    """Say whether a stream drifts: does it pay to go on learning here?

    All pairs of days are compared by Gromov-Wasserstein distance, and a test of the order of days gives the p-value.
    Writes a figure (PNG and PDF) and all numbers (JSON). Interrupted, it goes on where it was when called again.
    """
    from dree.evaluation.gromov_wasserstein import made

    made()  # so that nobody waits for the files to be read to learn that a package is missing
    if (source is None) == (scenario is None):
        raise DreeError("Name what to examine: a file of LaDe-D with --region, or --scenario and no file.")
    if source is not None:
        if (order, problem, epochs) != (None, None, None):
            raise DreeError("--order, --problem and --epochs belong to --scenario; a file of LaDe-D has its own days.")
        days = _real(source, region)
    else:
        assert scenario is not None
        if region is not None:
            raise DreeError("--region belongs to a file of LaDe-D: name the file before it.")
        days = _synthetic(scenario, order or 1, problem or "tsp", epochs or EPOCHS, seed)
    stem = out or Path(f"drift-{days.name}")
    _check(stem)
    _write(_measure(days, nodes, seed, os.cpu_count() or 1 if workers is None else workers), stem)


def _check(stem: Path) -> None:
    """Refuse a name that files cannot have, or any of whose files cannot be written."""
    from dree.files import check_writable

    if stem.name in ("", ".."):
        raise DreeError(f"--out {stem} is a folder. Name the report's files in it, such as {stem / 'drift'}.")
    for suffix in (*FIGURES, NUMBERS):
        check_writable(_file(stem, suffix))


def _file(stem: Path, suffix: str) -> Path:
    return stem.with_name(f"{stem.name}.{suffix}")


def _real(source: Path, region: str | None) -> Days:
    from dree.data.lade import load_deliveries
    from dree.evaluation.drift import region_days

    deliveries = load_deliveries(source, say, bar)
    if region is None:
        names = ", ".join(each.name for each in deliveries.regions())
        raise DreeError(f"Name the region with --region. {source} has: {names}.")
    return region_days(deliveries.region(region))


def _synthetic(scenario: str, order: int, problem: str, epochs: int, seed: int) -> Days:
    from dree.evaluation.drift import stream_days
    from dree.tasks import make_stream

    return stream_days(make_stream(scenario, problem, order, epochs), f"{problem}-{scenario}-{order}", seed)


def _measure(days: Days, nodes: int, seed: int, workers: int) -> Drift:
    """The comparison, under a progress bar."""
    from dree.evaluation.drift import measure_drift

    count = len(days.times)
    try:
        with bar(1.0) as part:
            advance = part(f"comparing {count * (count - 1) // 2} pairs of {days.unit}s", 1.0)
            return measure_drift(days, nodes, seed, workers, say, advance)
    except KeyboardInterrupt:
        say("Stopped. What was computed is kept: the same command goes on.")
        raise typer.Exit(130) from None


def _write(result: Drift, stem: Path) -> None:
    from dree.files import write_json
    from dree.report import save
    from dree.report.drift_figure import drift_figure

    say(result.sentence)
    figure = drift_figure(result)
    for suffix in FIGURES:
        say(f"Figure: {save(figure, _file(stem, suffix))}")
    say(f"JSON: {write_json(_file(stem, NUMBERS), result.as_dict())}")
