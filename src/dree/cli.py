"""The command line: `dree --help`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dree
from dree.cli_bench import bench
from dree.cli_convert import convert
from dree.cli_data import data
from dree.cli_drift import drift
from dree.cli_evaluate import evaluate
from dree.cli_lade import lade
from dree.cli_learn import history, learn
from dree.cli_orders import orders
from dree.cli_pretrain import pretrain
from dree.cli_reproduce import reproduce
from dree.cli_runs import curves, metrics, results
from dree.cli_solve import solve
from dree.cli_watch import watch
from dree.errors import DreeError
from dree.terminal import bar, console, fail, say

if TYPE_CHECKING:
    from dree.experiments import Run

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
)
plots = typer.Typer(help="Draw pictures.", no_args_is_help=True)
app.add_typer(plots, name="plot")
app.add_typer(data, name="data")
app.add_typer(results, name="results")
app.add_typer(orders, name="orders")

DEMO_FOLDER = Path("runs/demo")
SOLVER_HELP = "The base solver: pomo, omni, invit, or a dotted path to your own class."
SCENARIO_HELP = "drift, periodic, sudden, lade (real days), or a dotted path to your own class."
METHOD_HELP = "fine-tuning, dree, llr-bc, li, mt-ref, mt-cumulative, or a dotted path to your own class."


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"dree {dree.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Lifelong learning for neural vehicle-routing solvers whose tasks drift."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The demo's folder; an earlier demo there is replaced.")] = DEMO_FOLDER,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting, for example epochs=20. Repeatable.")
    ] = None,
) -> None:
    """Fine-tuning and DREE learn the same small drifting stream on the CPU; a page compares them (2 to 3 minutes)."""
    from dree.experiments import Run, load_solver
    from dree.experiments.demo import COST, PAGE, clear_demo, demo_settings
    from dree.experiments.material import load_tests
    from dree.experiments.shipped import SHIPPED, shipped_folder
    from dree.report.comparison_page import comparison_table, write_comparison_page
    from dree.report.progress import watching_all
    from dree.settings import parse_assignments

    chosen = demo_settings(parse_assignments(settings or []))
    load_tests(chosen["dree"])  # what cannot be run must not replace anything
    if clear_demo(out):
        say(f"Replacing the earlier demo in {out}.")
    runs = [Run.start(out / method, each, say, kind="demo") for method, each in chosen.items()]
    try:
        with watching_all(runs, list(COST.values()), console) as watch:
            for each in runs:
                each.finish(watch(each))
    except KeyboardInterrupt:
        fail("Stopped. Begin again with: dree demo", code=130)
    paths = [each.folder.path for each in runs]
    console.print(comparison_table(paths, "Gaps in per cent"))
    shipped = SHIPPED[chosen["dree"].problem]
    others = {shipped: load_solver(shipped_folder(shipped))}
    say(f"Page: {write_comparison_page(paths, out / PAGE, 'DREE beside fine-tuning', others)}")


@app.command()
def run(
    preset_name: Annotated[str, typer.Option("--preset", help="Where settings start from: paper or demo.")] = "paper",
    problem: Annotated[str | None, typer.Option(help="tsp or cvrp.")] = None,
    scenario: Annotated[str | None, typer.Option(help=SCENARIO_HELP)] = None,
    order: Annotated[int | None, typer.Option(help="The paper's task order, 1 to 5.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Length of the stream T.")] = None,
    data: Annotated[Path | None, typer.Option(help="lade: a CSV file of LaDe-D, or a folder of them.")] = None,
    region: Annotated[str | None, typer.Option(help="lade: the region, such as sh-2.")] = None,
    ratio: Annotated[
        float | None, typer.Option(help="lade: a day's share in an instance (default: the paper's for the city).")
    ] = None,
    method: Annotated[str | None, typer.Option(help=METHOD_HELP)] = None,
    without: Annotated[str | None, typer.Option(help="An ablation of DREE: leave out pir, br or ee.")] = None,
    base: Annotated[str | None, typer.Option("--solver", help=SOLVER_HELP)] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            help="A run, or a solver from elsewhere, to begin with; problem, solver and its size are then its own "
            "(default: random weights)."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Fixes everything random.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32 or bf16.")] = None,
    config: Annotated[Path | None, typer.Option(help="A JSON file of settings.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Change any setting, for example solver.layers=3, or options.alpha=50 for one of the method's own "
            "(docs/formats.md has them all). Repeatable.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder (default: runs/<what it is>).")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with an interrupted run in this folder.")] = None,
) -> None:
    """Train a solver through a stream of tasks; killed at any moment, it goes on with --resume."""
    from dree.experiments import Run, preset
    from dree.experiments.circumstances import other_program
    from dree.experiments.configuration import changed_preset
    from dree.experiments.folder import TakenError
    from dree.experiments.naming import check_ablation, run_name
    from dree.experiments.trained import network_of
    from dree.settings import parse_assignments

    options = {
        "problem": problem,
        "scenario": scenario,
        "order": order,
        "epochs": epochs,
        "data": None if data is None else str(data),
        "region": region,
        "ratio": ratio,
        "method": method,
        "options.without": without,
        "base": base,
        "start": None if start is None else str(start),
        "seed": seed,
        "device": device,
        "learner.precision": precision,
    }
    given = {name: value for name, value in options.items() if value is not None}
    if resume is not None:
        if given or settings or config or out or preset_name != "paper":
            raise DreeError("A resumed run keeps its settings and its folder: give --resume and nothing else.")
        with _interruptible(resume):
            resumed = Run.resume(resume, say, bar)
            at, last = resumed.epoch, resumed.stream.epochs
            what = {0: ": it begins from the start", last: ": it is finished"}.get(at, "")
            say(f"{resume} is at epoch {at} of {last}{what}.")
            if at < last and (changed := other_program(resumed.folder.manifest())):
                say(f"It was started with {changed}: its numbers may differ from those of an uninterrupted run.")
            _finish_run(resumed)
        return
    assigned = parse_assignments(settings or [])
    for name in given.keys() & assigned.keys():
        raise DreeError(f"'{name}' is given twice, by an option of its own and by --set. Leave one out.")
    changes = {**(_read_config(config) if config else {}), **given, **assigned}
    if "options.without" in changes:
        check_ablation(changes.get("method", preset(preset_name).method))
    if "start" in changes:
        changes = {**network_of(Path(changes["start"]), changes.get("base")), **changes}
    chosen = changed_preset(preset_name, changes)
    path = out or Path("runs") / run_name(chosen, preset_name)
    with _interruptible(path):
        try:
            started = Run.start(path, chosen, say, bars=bar)
        except TakenError as error:
            raise error.to_command("dree run") from None
        _finish_run(started)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="A run's folder, or several on the same stream.")],
    out: Annotated[
        Path | None, typer.Option(help="Where the page about several runs goes (default: comparison.html).")
    ] = None,
) -> None:
    """Write a run's page again, finished or not; or one page that compares several runs."""
    from dree.report.comparison_page import write_comparison_page
    from dree.report.run_page import write_run_page

    if len(runs) == 1 and out is not None:
        raise DreeError(f"The page about one run is report.html in its folder, {runs[0]}. Leave out --out.")
    page = write_run_page(runs[0]) if len(runs) == 1 else write_comparison_page(runs, out or Path("comparison.html"))
    say(f"Page: {page}")


@plots.command("tasks")
def plot_tasks(
    out: Annotated[Path, typer.Option(help="Where to draw: .png, .pdf or .svg.")] = Path("tasks.png"),
    problem: Annotated[str, typer.Option(help="tsp or cvrp.")] = "cvrp",
    spec: Annotated[str, typer.Option(help="text (the paper's appendix) or official (the lineage's code).")] = "text",
    seed: Annotated[int, typer.Option(help="Fixes the examples.")] = 0,
) -> None:
    """Draw examples of the six laws and of their mixtures."""
    from dree.report import gallery, save

    save(gallery(problem, spec, seed=seed), out)
    say(f"Gallery: {out}")


data.command()(lade)
app.command()(solve)  # here, so that the help lists demo and run first
app.command()(learn)
app.command()(history)
app.command()(watch)
app.command()(evaluate)
app.command()(pretrain)
app.command()(convert)
app.command()(metrics)
app.command()(reproduce)
app.command()(drift)
app.command()(bench)
plots.command()(curves)


def main() -> None:
    """Run the command line; what the user can put right is said without a traceback."""
    sys.path.append(str(Path.cwd()))  # so that a user's own method is found in the folder they work in
    try:
        app()
    except DreeError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.strerror or error}: {error.filename or 'the file system'}. Nothing finished was lost.")


def _read_config(path: Path) -> dict[str, Any]:
    """Settings from a JSON file, members of groups by dotted names."""
    from dree.settings import by_member

    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DreeError(f"There is no settings file {path}.") from None
    except ValueError as error:
        raise DreeError(f"{path} is not JSON: {error}.") from None
    if not isinstance(content, dict):
        raise DreeError(f"{path} must hold an object of settings.")
    return by_member(content)


@contextmanager
def _interruptible(path: Path) -> Iterator[None]:
    """Say how to go on with a run that is interrupted before or after it learns, once it has a folder."""
    try:
        yield
    except KeyboardInterrupt:
        if not (path / "manifest.json").exists():
            fail("Stopped before the run began.", code=130)
        fail(f"Stopped. Go on with: dree run --resume {path}", code=130)


def _finish_run(run: Run) -> None:
    """Carry a run out under a progress bar, then show its metrics and write its page."""
    from dree.report.progress import watching
    from dree.report.run_page import metrics_summary, write_run_page

    try:
        with watching(run, console) as watch:
            run.finish(watch)
    except KeyboardInterrupt:
        stopped = f"Stopped after epoch {run.epoch}, last saved after epoch {run.saved}."
        fail(f"{stopped} Go on with: dree run --resume {run.folder.path}", code=130)
    console.print(metrics_summary(run.folder.path))
    say(f"Page: {write_run_page(run.folder.path)}")
