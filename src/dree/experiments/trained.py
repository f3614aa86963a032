"""The solver that a run has learned, from its folder or from one of its checkpoints."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dree.errors import DreeError
from dree.experiments.configuration import RunSettings
from dree.experiments.folder import CONVERTED, PRETRAINED, RunFolder
from dree.experiments.shipped import solver_folder
from dree.lifelong.checkpoint import load_checkpoint, load_latest
from dree.settings import differences
from dree.solvers import Solver


@dataclass(frozen=True)
class Trained:
    """A learned solver on the CPU, and where it comes from."""

    run: Path
    epoch: int
    settings: RunSettings
    solver: Solver
    method: str | None  # None: it was converted or pretrained, not learned in a run


def load_trained(path: Path, say: Callable[[str], object] = print) -> Trained:
    """From a run's folder (its newest good checkpoint) or from one checkpoint file in it."""
    folder, state = _from_file(path) if path.is_file() else _from_folder(path, say)
    settings = folder.settings()
    solver = settings.make_solver()
    check_network(folder.path, solver, state)
    solver.load_state_dict(state["learner"].get("baseline") or state["learner"]["solver"])  # as `Learner.proven`
    method = None if folder.manifest()["kind"] in (CONVERTED, PRETRAINED) else settings.method
    return Trained(folder.path, state["epoch"], settings, solver.eval(), method)


def load_solver(path: str | Path, say: Callable[[str], object] = print) -> Solver:
    """The solver that a run has learned so far, or one that comes with dree, by its name as a text; on the CPU."""
    return load_trained(solver_folder(path), say).solver


def first_solver(settings: RunSettings) -> Solver:
    """What a run begins with, on the CPU: random weights, or those of the solver it starts from."""
    solver = settings.make_solver()
    if settings.start is not None:
        solver.load_state_dict(_start(settings).solver.state_dict())
    return solver


def network_of(path: Path, base: str | None = None) -> dict[str, Any]:
    """The settings that a run must share with a solver to start from it: its problem, its kind and its size.

    Not the size where another kind is asked for, which has other settings; such a run is refused when it starts.
    """
    settings = (_run_of(path) if path.is_file() else RunFolder.open(path)).settings()
    size = {"solver": dict(settings.solver)} if base in (None, settings.base) else {}
    return {"problem": settings.problem, "base": settings.base, **size}


def start_record(settings: RunSettings) -> dict[str, Any]:
    """What a manifest keeps of the solver that a run starts from, if there is one."""
    if settings.start is None:
        return {}
    trained = _start(settings)
    digest = weights_digest(trained.solver)
    return {"start": {"name": trained.run.resolve().name, "epoch": trained.epoch, "sha256": digest}}


def weights_digest(solver: Solver) -> str:
    """A hash of all weights of a solver on the CPU."""
    digest = hashlib.sha256()
    for weights in solver.state_dict().values():
        digest.update(weights.contiguous().numpy().tobytes())
    return digest.hexdigest()


def _start(settings: RunSettings) -> Trained:
    """The solver to start from, if it is the same network for the same problem."""
    assert settings.start is not None
    trained = load_trained(Path(settings.start))
    for name in ("problem", "base"):
        ours, theirs = getattr(settings, name), getattr(trained.settings, name)
        if ours != theirs:
            raise DreeError(f"The solver in {settings.start} has {name} {theirs}, the run has {ours}.")
    ours = settings.make_solver()
    if _shapes(ours.state_dict()) != _shapes(trained.solver.state_dict()):
        its, runs = (asdict(solver.settings) for solver in (trained.solver, ours))
        other = "; ".join(f"its {name} is {its[name]}, the run's {runs[name]}" for name in differences(its, runs))
        raise DreeError(f"The solver in {settings.start} has another network than the run: {other or 'other weights'}.")
    return trained


def check_network(path: Path, solver: Solver, state: Mapping[str, Any]) -> None:
    """Refuse a checkpoint in a run's folder whose weights are not of the network that the manifest says."""
    if _shapes(solver.state_dict()) != _shapes(state["learner"]["solver"]):
        raise DreeError(
            f"The checkpoint's network is not the manifest's in {path}. Restore the settings (solver.*, base, problem) "
            "in its manifest.json, or the checkpoint."
        )


def _shapes(weights: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in weights.items()}


def _from_folder(path: Path, say: Callable[[str], object]) -> tuple[RunFolder, dict[str, Any]]:
    folder = RunFolder.open(path)
    state = load_latest(folder.checkpoints, say)
    if state is None:
        command = "dree pretrain" if folder.manifest()["kind"] == PRETRAINED else "dree run"
        if folder.log("metrics.jsonl"):
            raise DreeError(
                f"{path} has no checkpoint any more, and so no solver. What was measured is still there: "
                f"dree metrics {path}, dree plot curves {path}, or dree report {path}"
            )
        raise DreeError(f"{path} has no checkpoint yet. Continue it with: {command} --resume {path}")
    return folder, state


def _from_file(path: Path) -> tuple[RunFolder, dict[str, Any]]:
    state = load_checkpoint(path)
    return _run_of(path), state


def _run_of(path: Path) -> RunFolder:
    """The run that a checkpoint file belongs to."""
    run = path.resolve().parent.parent
    if not (run / "manifest.json").is_file():
        raise DreeError(
            f"{path} is not in the folder of its run, whose manifest.json says what the solver is. "
            "Put it back into RUN/checkpoint, with its manifest in RUN."
        )
    return RunFolder.open(run)
