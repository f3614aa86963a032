"""The command line of reproduction: `dree reproduce --help`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dree.errors import DreeError, unknown
from dree.terminal import bar, console, fail, say

if TYPE_CHECKING:
    from dree.experiments.engines.base import Engine
    from dree.reproduce import Choice, Experiment
    from dree.reproduce.plan import Plan

LIST, ALL = "list", "all"
ENGINES = ("local", "ray")
FOLDER = Path("runs/reproduction")


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="Tables and figures by name, or all; list shows which there are. Your own by a dotted path.",
        ),
    ],
    scale: Annotated[str, typer.Option(help="paper, small or smoke.")] = "paper",
    problems: Annotated[str, typer.Option(help="Which of cvrp,tsp.")] = "cvrp,tsp",
    orders: Annotated[str, typer.Option(help="Which of the paper's task orders.")] = "1,2,3,4,5",
    seeds: Annotated[str, typer.Option(help="Seeds: every run is made with each.")] = "0",
    out: Annotated[
        Path | None,
        typer.Option(help="Where everything goes (default: runs/reproduction/SCALE, or SCALE-official)."),
    ] = None,
    lade: Annotated[Path | None, typer.Option(help="LaDe-D: a CSV file, or a folder of them.")] = None,
    libraries: Annotated[Path | None, typer.Option(help="A folder with the files of TSPLIB and CVRPLIB.")] = None,
    omni: Annotated[Path | None, typer.Option(help="A folder with Omni's starting models, tsp and cvrp.")] = None,
    spec: Annotated[str, typer.Option(help="Laws of synthetic tasks: text (the paper's) or official.")] = "text",
    frame: Annotated[
        str, typer.Option(help="How library coordinates are scaled: fit (moved too) or official (not moved).")
    ] = "fit",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    engine: Annotated[str, typer.Option(help="Where runs are carried out: local, or ray.")] = "local",
    workers: Annotated[int | None, typer.Option(help="local, no GPU: processes (default: one for each core).")] = None,
    share: Annotated[int, typer.Option(help="Runs that share a GPU, in turns.")] = 1,
    gpus: Annotated[int, typer.Option(help="GPUs that each run has, learned by a process on each.")] = 1,
    address: Annotated[str | None, typer.Option(help="ray: the cluster, such as auto (default: a local one).")] = None,
    store: Annotated[str | None, typer.Option(help="ray: where runs are gathered, as fsspec names it.")] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Also write TensorBoard logs to this folder.")] = None,
) -> None:
    """Make tables and figures of the paper, the published numbers beside ours, and one report about all.

    What was run before is not run again. Interrupted, it goes on when called again.
    """
    from dree.problems.frame import FRAMES
    from dree.reproduce import EXPERIMENTS, Choice, experiment
    from dree.reproduce.scales import scale as scale_named
    from dree.tasks import ORDERS, SPECS

    choice = Choice(
        scale_named(scale),
        tuple(_chosen("problem", problems, ("cvrp", "tsp"))),
        tuple(_numbers("order", orders, tuple(ORDERS))),
        tuple(_numbers("seed", seeds)),
        _there(lade),
        _there(libraries),
        _there(omni),
        _one("specification", spec, SPECS),
        _one("frame", frame, FRAMES),
        {"device": device, "processes": gpus},
    )
    wanted = [*EXPERIMENTS] if {ALL, LIST} & set(names) else names
    experiments = [experiment(name) for name in dict.fromkeys(wanted)]
    place = out or _folder(choice)
    if LIST in names:
        _show_list(experiments, choice, place)
        return
    _carry_out(experiments, choice, _engine(engine, workers, share, address, store), place, tensorboard)


def _carry_out(
    experiments: Sequence[Experiment], choice: Choice, engine: Engine, out: Path, tensorboard: Path | None
) -> None:
    from contextlib import ExitStack

    from dree.files import check_folder
    from dree.report.live import live_view, tell_all
    from dree.report.tensorboard import tensorboard_logs
    from dree.reproduce.plan import make_plan, obstacles
    from dree.reproduce.report import write_report
    from dree.reproduce.suite import reproduced

    for folder in filter(None, (out, tensorboard)):
        check_folder(folder)
    plan = make_plan(experiments, choice, out, obstacles(experiments, choice, out, say, bar))
    if not plan.experiments:
        reasons = [f"{experiment.name}: {reason}" for experiment, reason in plan.lacking]
        raise DreeError(f"Nothing can be made, and nothing was written. {' '.join(reasons)}")
    say(_summary(plan, choice, out))
    try:
        with ExitStack() as stack:
            tells = [stack.enter_context(live_view(plan.jobs, console))]
            if tensorboard is not None:
                tells.append(stack.enter_context(tensorboard_logs(tensorboard)))
            outcomes = engine.carry_out(plan.jobs, out, tell_all(*tells))
    except KeyboardInterrupt:
        fail("Stopped. What was run is kept: the same command goes on.", code=130)
    result = reproduced(plan, choice, outcomes, out, say, bar)
    for path in write_report(result, plan, choice, outcomes, out, console):
        say(f"Written: {path}")
    for each in result.missing:
        say(f"Missing: {each}")
    if any(outcome.error is not None for outcome in outcomes):
        fail("Not every run could be finished; what is there was written. The same command tries again.", code=1)
    if result.failed:
        fail("Not everything that was asked for could be made; what could was written.", code=1)


def _summary(plan: Plan, choice: Choice, out: Path) -> str:
    from dree.experiments.engines.work import found
    from dree.reproduce.estimate import in_words, seconds

    left = [job for job in plan.jobs if (there := found(job, out, lambda _: None)) is None or there.run is None]
    done = f", {len(plan.jobs) - len(left)} of them done" if len(left) < len(plan.jobs) else ""
    about = f"; the rest takes about {in_words(seconds(left))} one after the other" if left else ""
    count = len(plan.experiments)
    what = "1 table or figure needs" if count == 1 else f"{count} tables and figures need"
    return f"{what} {len(plan.jobs)} trainings{done}{about}."


def _show_list(experiments: Sequence[Experiment], choice: Choice, out: Path) -> None:
    """Every table and figure with what it takes."""
    from rich.table import Table

    from dree.reproduce.estimate import device_in_words, in_words, seconds
    from dree.reproduce.plan import make_plan

    plan = make_plan(experiments, choice, out, regardless=True)
    table = Table("name", "what it is", "where in the paper", "trainings", "about")
    for experiment in experiments:
        jobs = plan.needed_by(experiment)
        about = in_words(seconds(jobs)) if jobs else ""
        table.add_row(experiment.name, experiment.title, experiment.source, str(len(jobs) or ""), about)
    console.print(table)
    for reason in dict.fromkeys(reason for _, reason in plan.lacking):
        lacking = [experiment.name for experiment, each in plan.lacking if each == reason]
        say(f"{', '.join(lacking)}: {reason}")
    say(
        f"Together {len(plan.jobs)} trainings, for many are shared, one after the other about "
        f"{in_words(seconds(plan.jobs))} on {device_in_words(choice.settings())}; tests not counted."
    )


def _engine(name: str, workers: int | None, share: int, address: str | None, store: str | None) -> Engine:
    if name not in ENGINES:
        raise unknown("engine", name, ENGINES)
    if share < 1:
        raise DreeError(f"--share must be at least 1, not {share}.")
    if name == "local":
        from dree.experiments.engines.local import LocalEngine

        if address is not None or store is not None:
            raise DreeError("--address and --store belong to --engine ray.")
        return LocalEngine(workers=workers, share=share)
    from dree.experiments.engines.ray_engine import RayEngine

    return RayEngine(address=address, gpus_per_run=1 / share, store=store)


def _there(path: Path | None) -> Path | None:
    if path is not None and not path.exists():
        raise DreeError(f"There is no {path}.")
    return None if path is None else path.resolve()  # so that processes elsewhere find it


def _folder(choice: Choice) -> Path:
    """Where everything goes by default: the tables of other laws in another folder."""
    return FOLDER / (choice.scale.name + ("" if choice.spec == "text" else f"-{choice.spec}"))


def _one(what: str, name: str, known: Iterable[str]) -> str:
    if name not in known:
        raise unknown(what, name, known)
    return name


def _chosen(what: str, text: str, known: Sequence[str]) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise unknown(what, name, known)
    if not names:
        raise DreeError(f"Name at least one {what}, of {', '.join(known)}.")
    return list(dict.fromkeys(names))


def _numbers(what: str, text: str, known: Sequence[int] | None = None) -> list[int]:
    try:
        numbers = [int(each) for each in text.split(",")]
    except ValueError:
        raise DreeError(f"--{what}s must be numbers with commas between them, not '{text}'.") from None
    wrong: list[Any] = [each for each in numbers if known is not None and each not in known]
    if wrong:
        raise unknown(what, str(wrong[0]), [str(each) for each in known or ()])
    return list(dict.fromkeys(numbers))
