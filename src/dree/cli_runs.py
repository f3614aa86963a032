"""The command line of what runs have left behind: `dree metrics`, `dree plot curves`, `dree results`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from dree.terminal import console, say

results = typer.Typer(
    help="Runs that are kept for good, without weights, and the page about them.", no_args_is_help=True
)

FolderOption = Annotated[Path, typer.Option("--folder", help="Where runs are kept: FOLDER/GROUP/RUN.")]
RESULTS, PAGE = Path("results"), Path("docs/results.md")


def metrics(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.")],
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the table to this JSON file.")] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write the table to this CSV file.")] = None,
) -> None:
    """AP, AFB, AMFB, ABPl and (real days) Gen of runs and their mean, beside the paper's numbers if there are such."""
    from dree.experiments.folder import UntestedError
    from dree.experiments.summary import RunMetrics, each_once, means, run_metrics
    from dree.files import write_csv, write_json
    from dree.report.run_metrics import metrics_rows, runs_table

    found: list[RunMetrics] = []
    untested: list[UntestedError] = []
    for path in {path.resolve(): path for path in _folders(runs)}.values():  # each once
        try:
            found += run_metrics(path)
        except UntestedError as error:
            untested.append(error)
    if not found:
        raise untested[0]
    for each in untested:
        say(f"Left out: {each}")
    over = means(found)
    console.print(runs_table(found, over))
    counted = each_once(found)
    for copy, other in dict.fromkeys((run.run, counted[run.identity].run) for run in found):
        if copy != other:
            say(f"In no mean: {copy}, which has the settings and the seed of {other}.")
    if json_file:
        say(f"JSON: {write_json(json_file, metrics_rows(found, over))}")
    if csv_file:
        say(f"CSV: {write_csv(csv_file, metrics_rows(found, over))}")


def _folders(paths: list[Path]) -> list[Path]:
    """What a shell's star finds beside runs, such as a README, is left out."""
    folders = [path for path in paths if not path.is_file()]
    for path in paths:
        if folders and path not in folders:
            say(f"Left out: {path}, which is a file.")
    return folders or paths


def curves(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs: other methods, other problems.")],
    out: Annotated[Path, typer.Option(help="Where to draw: .png, .pdf or .svg.")] = Path("curves.png"),
) -> None:
    """Draw the gap on every test task over the epochs, a column for each problem and a line for each run."""
    from dree.report import save
    from dree.report.run_curves import run_curves

    save(run_curves(_folders(runs)), out)
    say(f"Curves: {out}")


@results.command("add")
def add_results(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, finished or not.")],
    group: Annotated[
        str | None, typer.Option(help="The group they belong to (default: their stream, such as cvrp-drift-1-T100).")
    ] = None,
    folder: FolderOption = RESULTS,
    force: Annotated[bool, typer.Option("--force", help="Replace other data of runs with the same name.")] = False,
) -> None:
    """Keep manifest, gap matrix and logs of runs under a name that says what they are; weights are left behind."""
    from dree.experiments.collection import collect

    for each in collect(runs, folder, group, force):
        say(f"{'Kept' if each.new else 'There already'}: {each.path}")
    where = [] if folder == RESULTS else ["--folder", str(folder)]
    say(f"The page about them: {shlex.join(['dree', 'results', 'write', *where])}")


@results.command("write")
def write_results(
    folder: FolderOption = RESULTS,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The page; its figures go to a folder beside it "
            f"(default: {PAGE}, or FOLDER/{PAGE.name} with --folder).",
        ),
    ] = None,
) -> None:
    """Write the page about all runs that are kept: tables beside the paper's numbers, curves and commands."""
    from dree.report.results_page import write_results_page

    page = out or (PAGE if folder == RESULTS else folder / PAGE.name)  # the page of other runs replaces none of these
    say(f"Page: {write_results_page(folder, page)}")
