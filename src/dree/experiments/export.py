"""The solver of a run alone, as those that come with the package are."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import torch

from dree.errors import DreeError
from dree.experiments.trained import load_trained
from dree.lifelong.checkpoint import save_checkpoint


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
