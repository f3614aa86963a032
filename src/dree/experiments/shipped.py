"""Solvers that come with the package, by name, and how one is made of a run.

Such a folder is a run's with nothing in it but the manifest and one checkpoint of the weights, in half precision.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import torch

from dree.errors import DreeError, unknown
from dree.experiments.trained import load_trained
from dree.lifelong.checkpoint import save_checkpoint

FOLDER = Path(__file__).parents[1] / "data" / "solvers"
SHIPPED = {"tsp": "tsp-drift", "cvrp": "cvrp-drift"}  # problem -> the solver for it


def shipped_folder(name: str) -> Path:
    """The folder of a solver that comes with the package."""
    if name not in SHIPPED.values():
        raise unknown("solver that comes with dree", name, SHIPPED.values())
    return FOLDER / name


def export(run: Path, out: Path) -> Path:
    """Write the solver of a run alone to a new folder, in half precision, whole or not at all."""
    if out.exists() or out.is_symlink():
        raise DreeError(f"{out} exists already and was left alone. Choose another folder.")
    trained = load_trained(run)
    weights = {name: tensor.to(torch.float16) for name, tensor in trained.solver.state_dict().items()}
    if not all(tensor.isfinite().all() for tensor in weights.values()):
        raise DreeError(f"The solver of {run} has weights that are too large for half precision.")
    state = {"epoch": trained.epoch, "tested": [], "matrix": [], "learner": {"batches": 0, "solver": weights}}
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as temporary:
        folder = Path(temporary) / out.name
        save_checkpoint(folder / "checkpoint", trained.epoch, state)
        shutil.copyfile(trained.run / "manifest.json", folder / "manifest.json")
        folder.rename(out)
    return out
