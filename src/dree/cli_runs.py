"""The command line of what runs have left behind: `dree metrics --help`, `dree plot curves --help`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dree.terminal import console, say


def metrics(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.")],
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the table to this JSON file.")] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write the table to this CSV file.")] = None,
) -> None:
    """AP, AFB, AMFB and ABPl of runs and their mean, beside the paper's numbers where there are such."""
    from dree.experiments.summary import means, run_metrics
    from dree.files import write_csv, write_json
    from dree.report.run_metrics import metrics_rows, runs_table

    found = [each for path in runs for each in run_metrics(path)]
    over = means(found)
    console.print(runs_table(found, over))
    if json_file:
        say(f"JSON: {write_json(json_file, metrics_rows(found, over))}")
    if csv_file:
        say(f"CSV: {write_csv(csv_file, metrics_rows(found, over))}")


def curves(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs: other methods, other problems.")],
    out: Annotated[Path, typer.Option(help="Where to draw: .png, .pdf or .svg.")] = Path("curves.png"),
) -> None:
    """Draw the gap on every principal task over the epochs, a column for each problem and a line for each run."""
    from dree.report import save
    from dree.report.run_curves import run_curves

    save(run_curves(runs), out)
    say(f"Curves: {out}")
