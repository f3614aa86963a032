"""The command line: `dree --help`."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from dree.cli_data import data
from dree.errors import DreeError

if TYPE_CHECKING:
    from dree.experiments import Run, RunSettings

console = Console()
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
    from dree.experiments import DEMO, RunFolder
    from dree.settings import override, parse_assignments

    chosen = override(DEMO, parse_assignments(settings or []))
    if out.exists():
        if RunFolder.open(out).settings().solver != DEMO.solver:
            raise DreeError(f"{out} is a run but not a demo, so it is left alone. Choose another folder with --out.")
        console.print(f"Replacing the earlier demo in {out}.")
        shutil.rmtree(out)
    _finish_run(_start_run(out, chosen))


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
    from dree.experiments import preset
    from dree.settings import override, parse_assignments

    if resume is not None:
        _finish_run(_resume_run(resume))
        return
    changes = _read_config(config) if config else {}
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
    if scenario == "periodic" and "epochs" not in changes:
        changes["epochs"] = PERIODIC_EPOCHS
    changes |= {name: value for name, value in options.items() if value is not None}
    changes |= parse_assignments(settings or [])
    chosen = override(preset(preset_name), changes)
    name = f"{chosen.problem}-{chosen.scenario}-{chosen.order}-{chosen.method}-T{chosen.epochs}-seed{chosen.seed}"
    _finish_run(_start_run(out or Path("runs") / name, chosen))


@app.command()
def report(run_folder: Annotated[Path, typer.Argument(help="A run's folder.")]) -> None:
    """Write a run's page again, finished or not."""
    from dree.report.run_page import write_run_page

    console.print(f"Page: {write_run_page(run_folder)}")


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
    result = answer(load_solver(run_folder, console.print), instance)
    for number, route in enumerate(result.routes, start=1):
        load = f"  (load {result.loads[number - 1]} of {result.capacity})" if result.loads else ""
        console.print(f"Route {number}: {' '.join(map(str, route))}{load}", highlight=False)
    console.print(f"Cost: {result.cost:.6g}", highlight=False)
    if output:
        from dree.files import write_text

        write_text(output, json.dumps(result.as_dict(), indent=2) + "\n")
        console.print(f"Routes: {output}")
    if picture:
        from dree.report import draw_routes, save

        demands = None if instance.demands is None else instance.demands[0].numpy()
        title = f"{file.name}: {result.cost:.6g}"
        figure = draw_routes(
            instance.coords[0].numpy(), result.actions, instance.problem, title, demands, result.capacity
        )
        save(figure, picture)
        console.print(f"Picture: {picture}")


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
    console.print(f"Gallery: {out}")


def main() -> None:
    """Run the command line; what the user can put right is said without a traceback."""
    sys.path.append(str(Path.cwd()))  # so that a user's own method is found in the folder they work in
    try:
        app()
    except DreeError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.strerror or error}: {error.filename or 'the file system'}. Nothing finished was lost.")
    except KeyboardInterrupt:
        _fail("Stopped. Nothing finished is lost; a run goes on with: dree run --resume FOLDER", code=130)


def _fail(message: str, code: int = 2) -> NoReturn:
    Console(stderr=True).print(f"[bold red]Error:[/] {message}", highlight=False, soft_wrap=True)
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


def _start_run(path: Path, settings: RunSettings) -> Run:
    from dree.experiments import Run

    return Run.start(path, settings, console.print)


def _resume_run(path: Path) -> Run:
    from dree.experiments import Run

    run = Run.resume(path, console.print)
    console.print(f"{path} is at epoch {run.epoch} of {run.settings.epochs}.")
    return run


def _finish_run(run: Run) -> None:
    """Carry a run out under a progress bar, then show its metrics and write its page."""
    from dree.report.progress import watching
    from dree.report.run_page import metrics_summary, write_run_page

    with watching(run, console) as watch:
        run.finish(watch)
    console.print(metrics_summary(run.folder.path))
    console.print(f"Page: {write_run_page(run.folder.path)}")
