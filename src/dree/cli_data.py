"""The command line of the test sets: `dree data --help`."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from dree.errors import DreeError

if TYPE_CHECKING:
    from dree.data import SetKey

console = Console()
data = typer.Typer(help="Test sets with reference costs: what there is, and more of them.", no_args_is_help=True)


@dataclass(frozen=True)
class Recipe:
    """How one test set is made."""

    count: int
    seed: int
    iterations: int


@data.command("build")
def build(
    problem: Annotated[str | None, typer.Option(help="tsp or cvrp (default: both).")] = None,
    law: Annotated[list[str] | None, typer.Option(help="A law, such as U or GM (default: all). Repeatable.")] = None,
    size: Annotated[int | None, typer.Option(help="Customers (default: the paper's and the demo's scales).")] = None,
    spec: Annotated[str, typer.Option(help="text (the paper's appendix) or official (the lineage's code).")] = "text",
    count: Annotated[int | None, typer.Option(help="Instances of each set (default: 100).")] = None,
    seed: Annotated[int | None, typer.Option(help="Fixes the instances (default: 1).")] = None,
    iterations: Annotated[
        int | None,
        typer.Option(help="The solver stops after so many without improvement (default: 5000 to n = 30, else 2000)."),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that solve (default: one for each core).")] = None,
    folder: Annotated[Path | None, typer.Option(help="Where the sets go (default: where dree looks for them).")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace sets that are there already.")] = False,
) -> None:
    """Build test sets and solve them with HGS; those that are there, undamaged, are kept. No options: all shipped."""
    from dree.data import FILES

    place = folder or FILES
    asked = {"count": count, "seed": seed, "iterations": iterations}
    wanted = {key: _recipe(key, asked, place) for key in _keys(problem, law, size, spec)}
    missing = {key: recipe for key, recipe in wanted.items() if force or not _is_there(key, recipe, place)}
    if len(missing) < len(wanted):
        console.print(f"Already there: {len(wanted) - len(missing)} of {len(wanted)} test sets.", highlight=False)
    if missing:
        _build(missing, os.cpu_count() or 1 if workers is None else workers, place, force)


@data.command("list")
def show(
    folder: Annotated[Path | None, typer.Option(help="The sets' folder (default: where dree looks for them).")] = None,
) -> None:
    """List the test sets that can be loaded."""
    from rich.table import Table

    from dree.data import FILES, available
    from dree.data.testsets import read_index

    place = folder or FILES
    keys, index = available(place), read_index(place)
    if not keys:
        raise DreeError(f"There are no test sets in {place}. Build some with: dree data build")
    table = Table(title=f"Test sets in {place}", title_justify="left")
    for name in ("problem", "law", "spec"):
        table.add_column(name)
    for name in ("n", "instances", "solver iterations"):
        table.add_column(name, justify="right")
    for key in keys:
        entry = index[key.file]
        iterations = entry.get("solver", {}).get("iterations", "?")
        numbers = (key.size, entry.get("instances", "?"), iterations)
        table.add_row(key.problem, key.law, key.spec, *map(str, numbers))
    console.print(table)


def _keys(problem: str | None, laws: list[str] | None, size: int | None, spec: str) -> list[SetKey]:
    """The sets asked for, every name and number checked before anything is built."""
    from dree.data import SetKey
    from dree.experiments import DEMO
    from dree.problems import PROBLEMS
    from dree.tasks import LAWS, principal

    keys = []
    for each in [problem] if problem else PROBLEMS:
        for law in laws or LAWS:
            principal(law, each, size, spec)
            sizes = [size] if size is not None else sorted({DEMO.sizes.get(law, LAWS[law].size), LAWS[law].size})
            keys += [SetKey(each, law, n, spec) for n in sizes]
    return list(dict.fromkeys(keys))


def _recipe(key: SetKey, asked: dict[str, int | None], folder: Path) -> Recipe:
    """What was asked for; the rest as the set was made before, or else as the shipped ones were."""
    from dree.data.testsets import read_index

    entry: dict[str, Any] = read_index(folder).get(key.file, {})
    values = {
        "count": entry.get("instances", 100),
        "seed": entry.get("seed", 1),
        "iterations": entry.get("solver", {}).get("iterations", 5000 if key.size <= 30 else 2000),
    }
    return Recipe(**values | {name: value for name, value in asked.items() if value is not None})


def _is_there(key: SetKey, recipe: Recipe, folder: Path) -> bool:
    """Whether the set is there, undamaged; that it was made by another recipe is an error."""
    from dree.data.testsets import sound_entry

    if sound_entry(key, folder) is None:
        return False
    made = _recipe(key, {}, folder)
    if made != recipe:
        new = asdict(recipe)
        differences = ", ".join(
            f"{name} {old}, not {new[name]}" for name, old in asdict(made).items() if old != new[name]
        )
        raise DreeError(
            f"The test set {key.name} is already there, made with {differences}. "
            "Replace it with --force, or build in another folder with --folder."
        )
    return True


def _build(missing: dict[SetKey, Recipe], workers: int, folder: Path, force: bool) -> None:
    """Build under one bar; an instance counts as much as its size and the solver's iterations."""
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from dree.evaluation.reference import build_test

    weights = {key: key.size * recipe.iterations for key, recipe in missing.items()}
    total = sum(weights[key] * recipe.count for key, recipe in missing.items())
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    with Progress(*columns, console=console, speed_estimate_period=300) as progress:
        bar = progress.add_task("building", total=total)
        for number, (key, recipe) in enumerate(missing.items(), start=1):
            progress.update(bar, description=f"building {key.name} ({number} of {len(missing)})")
            path = build_test(
                key.problem,
                key.law,
                key.size,
                spec=key.spec,
                **asdict(recipe),
                workers=workers,
                force=force,
                folder=folder,
                progress=lambda *_, weight=weights[key]: progress.advance(bar, weight),
            )
            progress.console.print(f"Built {path}", highlight=False, soft_wrap=True)
