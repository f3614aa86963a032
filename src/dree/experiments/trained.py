"""The solver that a run has learned, from its folder or from one of its checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dree.errors import DreeError
from dree.experiments.configuration import RunSettings
from dree.experiments.folder import CONVERTED, RunFolder
from dree.lifelong.checkpoint import load_checkpoint, load_latest
from dree.solvers import Solver, make_solver


@dataclass(frozen=True)
class Trained:
    """A learned solver on the CPU, and where it comes from."""

    run: Path
    epoch: int
    settings: RunSettings
    solver: Solver
    method: str | None  # None: it was converted, not learned here


def load_trained(path: Path, say: Callable[[str], object] = print) -> Trained:
    """From a run's folder (its newest good checkpoint) or from one checkpoint file in it."""
    folder, state = _from_file(path) if path.is_file() else _from_folder(path, say)
    settings = folder.settings()
    solver = make_solver(settings.problem, settings.solver, settings.seed)
    solver.load_state_dict(state["learner"]["solver"])
    method = None if folder.manifest()["kind"] == CONVERTED else settings.method
    return Trained(folder.path, state["epoch"], settings, solver.eval(), method)


def _from_folder(path: Path, say: Callable[[str], object]) -> tuple[RunFolder, dict[str, Any]]:
    folder = RunFolder.open(path)
    state = load_latest(folder.checkpoints, say)
    if state is None:
        raise DreeError(f"{path} has no checkpoint yet. Continue it with: dree run --resume {path}")
    return folder, state


def _from_file(path: Path) -> tuple[RunFolder, dict[str, Any]]:
    state = load_checkpoint(path)
    run = path.resolve().parent.parent
    if not (run / "manifest.json").is_file():
        raise DreeError(
            f"{path} is not in the folder of its run, whose manifest.json says what the solver is. "
            "Put it back into RUN/checkpoint, with its manifest in RUN."
        )
    return RunFolder.open(run), state
