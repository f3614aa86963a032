"""The command line of the test sets: `dree data --help`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dree.errors import DreeError
from dree.terminal import bar, console, say

if TYPE_CHECKING:
    from rich.table import Table

    from dree.data import SetKey
    from dree.evaluation.checking import Check
    from dree.evaluation.classical import ClassicalSolver

data = typer.Typer(help="Test sets with reference costs: what there is, and more of them.", no_args_is_help=True)

ProblemOption = Annotated[str | None, typer.Option("--problem", help="tsp or cvrp (default: both).")]
LawOption = Annotated[
    list[str] | None, typer.Option("--law", help="A law, such as U or GM (default: all). Repeatable.")
]
SizeOption = Annotated[
    int | None, typer.Option("--size", help="Customers (default: the paper's and the demo's scales).")
]
TaskOption = Annotated[
    list[str] | None, typer.Option("--task", help="A task, such as U20 or the mixture E38+C12. Repeatable.")
]
FinerOption = Annotated[bool, typer.Option("--finer", help="The 41 tasks of the finer-grained test.")]
OrderOption = Annotated[int, typer.Option("--order", help="The task order of --finer, 1 to 5.")]
SpecOption = Annotated[
    str, typer.Option("--spec", help="text (the paper's appendix) or official (the lineage's code).")
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", help="Processes that solve (default: one for each core).")
]
FolderOption = Annotated[
    Path | None, typer.Option("--folder", help="The sets' folder (default: the shipped sets, then your own).")
]


@data.command("build")
def build(
    problem: ProblemOption = None,
    law: LawOption = None,
    size: SizeOption = None,
    task: TaskOption = None,
    finer: FinerOption = False,
    order: OrderOption = 1,
    spec: SpecOption = "text",
    count: Annotated[
        int | None,
        typer.Option(help="Instances of each set (default: 1000 at the paper's scales, 200 of a mixture, else 100)."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Fixes the instances (default: 1).")] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            help="HGS stops after so many without improvement (default: 2000; 5000 for small sets that are not at the "
            "paper's scales)."
        ),
    ] = None,
    restarts: Annotated[
        int | None,
        typer.Option(
            help="Times that HGS starts, the best tour being kept (default: 3 for CVRP beyond n = 50, else 1)."
        ),
    ] = None,
    workers: WorkersOption = None,
    folder: FolderOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace sets that are there already.")] = False,
) -> None:
    """Build test sets and solve them with HGS; those that are there, undamaged, are kept. No options: all shipped.

    Interrupted, it goes on where it was when called again. Sets go to your own folder ($DREE_CACHE/tests, by default
    ~/.cache/dree/tests), never into the installed package.
    """
    from dree.data.testsets import find_set, known_entry, user_folder
    from dree.evaluation.building import build_test, must_build, recipe_of
    from dree.files import check_folder

    keys = _keys(problem, law, size, task, finer, order, spec)
    if finer:  # whatever was asked for, the principal tasks among them are fine as they are
        keys = [key for key in keys if "+" in key.task or find_set(key) is None]
    asked = {"count": count, "seed": seed, "iterations": iterations, "restarts": restarts}
    wanted = {key: recipe_of(key, known_entry(key, folder), asked) for key in keys}
    missing = {key: recipe for key, recipe in wanted.items() if must_build(key, recipe, folder, force=force)}
    if len(missing) < len(wanted):
        say(f"Already there: {len(wanted) - len(missing)} of {len(wanted)} test sets.")
    if not missing:
        return
    check_folder(folder or user_folder(), "--folder")
    weights = {key: _weight(key) * recipe.iterations for key, recipe in missing.items()}
    total = sum(weights[key] * recipe.count * recipe.restarts for key, recipe in missing.items())
    with bar(total) as part:
        for number, (key, recipe) in enumerate(missing.items(), start=1):
            advance = part(f"building {key.name} ({number} of {len(missing)})", weights[key])
            path = build_test(
                key,
                recipe,
                folder,
                workers=_processes(workers),
                progress=lambda *_, advance=advance: advance(1),
            )
            say(f"Built {path}")


@data.command("check")
def check(
    problem: ProblemOption = None,
    law: LawOption = None,
    size: SizeOption = None,
    task: TaskOption = None,
    finer: FinerOption = False,
    order: OrderOption = 1,
    spec: SpecOption = "text",
    sample: Annotated[int, typer.Option(help="Random instances of each set.")] = 50,
    seed: Annotated[int, typer.Option(help="Fixes the sample.")] = 0,
    effort: Annotated[int, typer.Option(help="HGS gets so many times the iterations the references had.")] = 10,
    solver: Annotated[
        str | None, typer.Option(help="A second solver beside HGS, for the TSP: fast-tsp or gurobi.")
    ] = None,
    margin: Annotated[float, typer.Option(help="The mean improvement of a set, in per cent, that is too much.")] = 0.02,
    keep: Annotated[bool, typer.Option("--keep", help="Put better tours into the sets.")] = False,
    output: Annotated[Path | None, typer.Option("--json", help="Write the result to this JSON file.")] = None,
    workers: WorkersOption = None,
    folder: FolderOption = None,
) -> None:
    """Solve a sample of each test set again, with more effort, and say which references can be improved.

    The exit code is 1 if those of a set can be improved by more than the margin on average, else 0.
    """
    from dree.data import FILES
    from dree.evaluation.checking import check_set, stronger
    from dree.evaluation.checking import keep as keep_better
    from dree.files import check_writable, write_json

    if output:
        check_writable(output)
    places = {key: _place(key, folder) for key in _keys(problem, law, size, task, finer, order, spec)}
    if keep and folder is None and FILES in places.values():
        raise DreeError("Shipped sets stay as they are. To improve a copy of them, give its folder with --folder.")
    second = _second(solver, places)
    strong = {key: stronger(key, effort, place) for key, place in places.items()}
    weights = {key: _weight(key) * hgs.iterations for key, hgs in strong.items()}
    checks = []
    with bar(sample * sum(weights.values())) as part:
        for number, (key, place) in enumerate(places.items(), start=1):
            advance = part(f"checking {key.name} ({number} of {len(places)})", weights[key])
            found = check_set(
                key,
                [strong[key], *([second] if second and key.problem in second.problems else [])],
                place,
                sample=sample,
                seed=seed,
                workers=_processes(workers),
                progress=lambda *_, advance=advance: advance(1),
            )
            checks.append(found)
            _say_better(found)
            if keep and found.better:
                say(f"Kept in {keep_better(found, place)}")
    console.print(_table(checks))
    if output:
        sets = [each.as_dict() for each in checks]
        say(f"JSON: {write_json(output, {'margin_percent': margin, 'effort': effort, 'sets': sets})}")
    if any(each.mean > margin for each in checks):
        raise typer.Exit(1)


@data.command("list")
def show(folder: FolderOption = None) -> None:
    """List the test sets that can be loaded."""
    from rich.table import Table

    from dree.data import available
    from dree.data.testsets import known_entry

    keys = available(folder)
    if not keys:
        raise DreeError(f"There are no test sets in {folder}. Build some with: dree data build --folder {folder}")
    table = Table(title=f"Test sets in {folder}" if folder else "Test sets", title_justify="left")
    for name in ("problem", "task", "spec"):
        table.add_column(name)
    for name in ("instances", "solver iterations", "improved since"):
        table.add_column(name, justify="right")
    for key in keys:
        entry = known_entry(key, folder)
        numbers = (
            entry.get("instances", "?"),
            entry.get("solver", {}).get("iterations", "?"),
            len(entry.get("improved", [])),
        )
        table.add_row(*key, *map(str, numbers))
    console.print(table)


def _keys(
    problem: str | None,
    laws: list[str] | None,
    size: int | None,
    tasks: list[str] | None,
    finer: bool,
    order: int,
    spec: str,
) -> list[SetKey]:
    """The sets asked for, every name and number checked before anything is built."""
    from dree.data import SetKey
    from dree.experiments import DEMO
    from dree.problems import PROBLEMS
    from dree.tasks import FINER_PARTS, LAWS, make_stream, principal, task_named

    if sum((bool(laws or size is not None), bool(tasks), finer)) > 1:
        raise DreeError("Choose test sets in one way: by --law and --size, or by --task, or with --finer.")
    keys = []
    for each in [problem] if problem else PROBLEMS:
        if finer:
            chosen = list(make_stream("drift", each, order, FINER_PARTS, spec).finer())
        elif tasks:
            chosen = [task_named(name, each, spec).name for name in tasks]
        else:
            demo = DEMO.sizes if size is None else {}
            chosen = [principal(law, each, n, spec).name for law in laws or LAWS for n in (demo.get(law, size), size)]
        keys += [SetKey(each, name, spec) for name in chosen]
    return list(dict.fromkeys(keys))


def _place(key: SetKey, folder: Path | None) -> Path:
    """The folder in which a test set is."""
    from dree.data import find_set, load_set

    stored = find_set(key, folder)
    if stored is None:
        load_set(key, folder)  # says what is missing and how to get it
    assert stored is not None
    return stored.folder


def _second(name: str | None, keys: Iterable[SetKey]) -> ClassicalSolver | None:
    """The second solver, which must be able to solve something."""
    from dree.evaluation.classical import classical_solver

    if name is None:
        return None
    solver = classical_solver(name)()
    solver.made()  # says what is not installed
    if not any(key.problem in solver.problems for key in keys):
        raise DreeError(f"{name} solves {' and '.join(solver.problems)} only, and no such set was chosen.")
    return solver


def _processes(workers: int | None) -> int:
    return os.cpu_count() or 1 if workers is None else workers


def _weight(key: SetKey) -> int:
    """What solving an instance of a set takes, in proportion."""
    from dree.tasks import task_named

    return task_named(key.task, key.problem).size


def _say_better(check: Check) -> None:
    for each in check.better:
        found = f"{each.stored:.6f} -> {each.found.cost:.6f}, {each.percent:.4f} % shorter, by {each.solver['name']}"
        say(f"{check.key.name}, instance {each.instance}: {found}")


def _table(checks: Sequence[Check]) -> Table:
    from rich.table import Table

    table = Table(title="References solved again", title_justify="left")
    table.add_column("set")
    for name in ("sample", "improved", "mean %", "worst %"):
        table.add_column(name, justify="right")
    for each in checks:
        table.add_row(each.key.name, str(each.sample), str(len(each.better)), f"{each.mean:.5f}", f"{each.worst:.5f}")
    return table
