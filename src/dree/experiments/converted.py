"""A solver from elsewhere in a folder like a run's, so that whatever takes a run's solver takes it too."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import asdict
from pathlib import Path

from dree.errors import DreeError
from dree.experiments.configuration import RunSettings
from dree.experiments.folder import CONVERTED, RunFolder
from dree.lifelong.checkpoint import save_checkpoint
from dree.solvers.convert import HEADS, Original, read_original


def convert(path: Path, out: Path, heads: int = HEADS, norm: str | None = None) -> Original:
    """Write the network of an original checkpoint to a new folder, whole or not at all."""
    if out.exists() or out.is_symlink():
        raise DreeError(f"{out} exists already and was left alone. Choose another folder.")
    original = read_original(path, heads, norm)
    settings = RunSettings(problem=original.problem, base=original.solver, solver=asdict(original.settings))
    with path.open("rb") as file:
        source = {"file": path.name, "sha256": hashlib.file_digest(file, "sha256").hexdigest(), "norm": original.norm}
    state = {
        "epoch": original.epoch,
        "tested": [],
        "matrix": [],
        "learner": {"batches": 0, "solver": original.weights},
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as temporary:
        folder = RunFolder.create(Path(temporary) / out.name, settings, {CONVERTED: source}, kind=CONVERTED)
        save_checkpoint(folder.checkpoints, original.epoch, state)
        folder.path.rename(out)
    return original
