"""The command line of models to start from: `dree pretrain --help`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dree.errors import DreeError, unknown
from dree.terminal import bar, console, fail, say

if TYPE_CHECKING:
    from dree.experiments.pretrain import Pretraining


def pretrain(
    base: Annotated[str, typer.Argument(help="The base solver: omni.")] = "omni",
    problem: Annotated[str | None, typer.Option(help="tsp or cvrp.")] = None,
    preset: Annotated[
        str, typer.Option(help="Where settings start from: paper (days on a GPU) or small (minutes on a CPU).")
    ] = "paper",
    seed: Annotated[int | None, typer.Option(help="Fixes everything random.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change any setting, for example order=first (docs/solvers/omni.md). Repeatable."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The new folder (default: runs/omni-PROBLEM-PRESET-seedN).")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with an interrupted pretraining in this folder.")] = None,
) -> None:
    """Meta-learn a model to start from: dree run --start FOLDER. Killed, it goes on with --resume."""
    from dree.experiments.folder import TakenError
    from dree.experiments.pretrain import Pretraining
    from dree.experiments.pretrain_settings import BASE, pretrain_preset
    from dree.settings import override, parse_assignments

    if base != BASE:
        raise unknown("solver to pretrain", base, [BASE])
    options = {"problem": problem, "seed": seed, "device": device}
    given = {name: value for name, value in options.items() if value is not None}
    if resume is not None:
        if given or settings or out or preset != "paper":
            raise DreeError("A resumed pretraining keeps its settings and its folder: give --resume and nothing else.")
        resumed = Pretraining.resume(resume, say)
        say(f"{resume} is at iteration {resumed.iteration} of {resumed.settings.iterations}.")
        _finish(resumed)
        return
    chosen = override(pretrain_preset(preset), {**given, **parse_assignments(settings or [])})
    name = f"{BASE}-{chosen.problem}-{preset}-seed{chosen.seed}"
    try:
        started = Pretraining.start(out or Path("runs") / name, chosen, say)
    except TakenError as error:
        raise error.to_command("dree pretrain") from None
    _finish(started)


def _finish(pretraining: Pretraining) -> None:
    """Carry it out under a progress bar, then show the gaps before and after."""
    from dree.experiments.pretrain import Passed
    from dree.report.evaluations import before_and_after_table

    settings = pretraining.settings

    def work(iteration: int) -> float:
        size = settings.size_at(iteration)
        return settings.batch_at(size) * size**2 * (size + 100)

    total = sum(work(iteration) for iteration in range(pretraining.iteration + 1, settings.iterations + 1))
    try:
        with bar(total) as part:

            def watch(passed: Passed) -> None:
                where = f"iteration {passed.iteration} of {settings.iterations}, n = {passed.size}"
                part(where, work(passed.iteration))(1)
                if passed.gaps is not None:
                    mean, worst = sum(passed.gaps) / len(passed.gaps), max(passed.gaps)
                    say(f"{where}: gap of the distributions {mean:.2f} %, of the worst {worst:.2f} %")

            part("testing", 0)
            pretraining.finish(watch)
    except KeyboardInterrupt:
        stopped = f"Stopped at iteration {pretraining.iteration}, last saved after {pretraining.saved}."
        fail(f"{stopped} Go on with: dree pretrain --resume {pretraining.folder.path}", code=130)
    path = pretraining.folder.path
    console.print(before_and_after_table(pretraining.tested["before"], pretraining.tested["after"]))
    say(f"Solver: {path}. Use it with: dree evaluate {path}, or dree run --start {path}")
