"""The command line: `dree --help`."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from dree.cli_data import data
from dree.cli_evaluate import evaluate
from dree.cli_runs import curves, metrics
from dree.errors import DreeError
from dree.terminal import console, say

if TYPE_CHECKING:
    from dree.experiments import Run

app = typer.Typer(
    help="Lifelong learning for neural vehicle-routing solvers whose tasks drift.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
)
plots = typer.Typer(help="Draw pictures.", no_args_is_help=True)
app.add_typer(plots, name="plot")
app.add_typer(data, name="data")
app.command()(evaluate)
app.command()(metrics)
plots.command()(curves)

DEMO_FOLDER = Path("runs/demo")
PERIODIC_EPOCHS = 1200  # the paper's: six tasks of 200 epochs


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The run's folder; an earlier demo there is replaced.")] = DEMO_FOLDER,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting, for example epochs=20. Repeatable.")
    ] = None,
) -> None:
    """Learn a small drifting stream of delivery problems on the CPU and write a page about it (2 minutes)."""
    from dree.experiments import DEMO, Run, RunFolder
    from dree.experiments.run import load_tests
    from dree.settings import override, parse_assignments

    chosen = override(DEMO, parse_assignments(settings or []))
    load_tests(chosen)  # what cannot be run must not replace anything
    if out.exists():
        earlier = RunFolder.open(out)
        if earlier.manifest()["kind"] != "demo":
            raise DreeError(f"{out} is a run but not a demo, so it is left alone. Choose another folder with --out.")
        say(f"Replacing the earlier demo in {out}.")
        with earlier.locked():
            shutil.rmtree(out)
    _finish_run(Run.start(out, chosen, say, kind="demo"))


@app.command()
def run(
    preset_name: Annotated[str, typer.Option("--preset", help="Where settings start from: paper or demo.")] = "paper",
    problem: Annotated[str | None, typer.Option(help="tsp or cvrp.")] = None,
    scenario: Annotated[str | None, typer.Option(help="drift, periodic or sudden.")] = None,
    order: Annotated[int | None, typer.Option(help="The paper's task order, 1 to 5.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Length of the stream T.")] = None,
    method: Annotated[str | None, typer.Option(help="fine-tuning, or a dotted path to your own class.")] = None,
    seed: Annotated[int | None, typer.Option(help="Fixes everything random.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32 or bf16.")] = None,
    config: Annotated[Path | None, typer.Option(help="A JSON file of settings.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change any setting, for example solver.layers=3. Repeatable.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder (default: runs/<what it is>).")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with an interrupted run in this folder.")] = None,
) -> None:
    """Train a solver through a stream of tasks; killed at any moment, it goes on with --resume."""
    from dree.experiments import Run, preset
    from dree.settings import override, parse_assignments

    options = {
        "problem": problem,
        "scenario": scenario,
        "order": order,
        "epochs": epochs,
        "method": method,
        "seed": seed,
        "device": device,
        "learner.precision": precision,
    }
    given = {name: value for name, value in options.items() if value is not None}
    if resume is not None:
        if given or settings or config or out or preset_name != "paper":
            raise DreeError("A resumed run keeps its settings and its folder: give --resume and nothing else.")
        resumed = Run.resume(resume, say)
        say(f"{resume} is at epoch {resumed.epoch} of {resumed.stream.epochs}.")
        _finish_run(resumed)
        return
    changes = {**(_read_config(config) if config else {}), **given, **parse_assignments(settings or [])}
    chosen = override(preset(preset_name), changes)
    stream = chosen.stream()
    laws = chosen.order if isinstance(chosen.order, int) else "".join(stream.order)
    name = f"{chosen.problem}-{chosen.scenario}-{laws}-{chosen.method}-T{stream.epochs}-seed{chosen.seed}"
    _finish_run(Run.start(out or Path("runs") / name, chosen, say))


@app.command()
def report(run_folder: Annotated[Path, typer.Argument(help="A run's folder.")]) -> None:
    """Write a run's page again, finished or not."""
    from dree.report.run_page import write_run_page

    say(f"Page: {write_run_page(run_folder)}")


@app.command()
def solve(
    file: Annotated[Path, typer.Argument(help="A .json or .csv file: see docs/formats.md.")],
    run_folder: Annotated[Path, typer.Option("--run", help="The run whose solver is used.")] = DEMO_FOLDER,
    capacity: Annotated[int | None, typer.Option(help="The vehicle's capacity, where the file has none.")] = None,
    output: Annotated[Path | None, typer.Option("--json", help="Write routes and cost to this JSON file.")] = None,
    picture: Annotated[Path | None, typer.Option("--png", help="Draw the routes to this file.")] = None,
) -> None:
    """Route the stops of a file with a solver that a run has learned."""
    from dree.data.instance_files import read_instance
    from dree.evaluation.answers import answer
    from dree.experiments import load_solver

    instance = read_instance(file, capacity)
    if not run_folder.exists():
        raise DreeError(f"There is no run {run_folder} to take a solver from. Train one with: dree demo")
    result = answer(load_solver(run_folder, say), instance)
    for number, route in enumerate(result.routes, start=1):
        load = f"  (load {result.loads[number - 1]} of {result.capacity})" if result.loads else ""
        say(f"Route {number}: {' '.join(map(str, route))}{load}")
    say(f"Cost: {result.cost:.6g}")
    if output:
        from dree.files import write_text

        write_text(output, json.dumps(result.as_dict(), indent=2) + "\n")
        say(f"Routes: {output}")
    if picture:
        from dree.report import draw_routes, save

        demands = None if instance.demands is None else instance.demands[0].numpy()
        title = f"{file.name}: {result.cost:.6g}"
        figure = draw_routes(
            instance.coords[0].numpy(), result.actions, instance.problem, title, demands, result.capacity
        )
        save(figure, picture)
        say(f"Picture: {picture}")


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


def main() -> None:
    """Run the command line; what the user can put right is said without a traceback."""
    sys.path.append(str(Path.cwd()))  # so that a user's own method is found in the folder they work in
    try:
        app()
    except DreeError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.strerror or error}: {error.filename or 'the file system'}. Nothing finished was lost.")


def _fail(message: str, code: int = 2) -> NoReturn:
    text = Text.assemble(("Error: ", "bold red"), message)
    Console(stderr=True).print(text, soft_wrap=True)
    sys.exit(code)


def _read_config(path: Path) -> dict[str, Any]:
    """Settings from a JSON file, groups flattened to dotted names."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DreeError(f"There is no settings file {path}.") from None
    except ValueError as error:
        raise DreeError(f"{path} is not JSON: {error}.") from None
    if not isinstance(content, dict):
        raise DreeError(f"{path} must hold an object of settings.")
    flat: dict[str, Any] = {}
    for name, value in content.items():
        if name in ("solver", "learner") and isinstance(value, dict):
            flat |= {f"{name}.{inner}": content for inner, content in value.items()}
        else:
            flat[name] = value
    return flat


def _finish_run(run: Run) -> None:
    """Carry a run out under a progress bar, then show its metrics and write its page."""
    from dree.report.progress import watching
    from dree.report.run_page import metrics_summary, write_run_page

    try:
        with watching(run, console) as watch:
            run.finish(watch)
    except KeyboardInterrupt:
        _fail(f"Stopped after epoch {run.epoch}. Go on with: dree run --resume {run.folder.path}", code=130)
    console.print(metrics_summary(run.folder.path))
    say(f"Page: {write_run_page(run.folder.path)}")
