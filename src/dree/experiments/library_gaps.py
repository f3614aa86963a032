"""What the solver of a run does on library instances, from files that `dree evaluate --json` has put into its folder.

They are called after their library, `tsplib.json` and `cvrplib.json`, and are kept with the run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dree.data.libraries import PROBLEMS, library
from dree.errors import DreeError
from dree.experiments.folder import RunFolder

FILES = {name: f"{name}.json" for name in PROBLEMS}


@dataclass(frozen=True)
class LibraryGaps:
    """Gaps to the best known lengths in per cent, unrounded as in the paper."""

    library: str
    instances: int
    mean: float
    std: float  # of a population
    frame: str
    copies: int  # symmetric ones, of which the best counts
    whole: bool  # all instances that the paper uses


def library_gaps(folder: RunFolder) -> tuple[LibraryGaps, ...]:
    """What there is in a run's folder; each must be of the run's last tested solver."""
    files = {name: folder.path / file for name, file in FILES.items()}
    return tuple(_read(path, name, folder) for name, path in files.items() if path.is_file())


def _read(path: Path, name: str, folder: RunFolder) -> LibraryGaps:
    again = f"Write it again: dree evaluate {folder.path} --library {name} --path FOLDER --json {path}"
    try:
        content = json.loads(path.read_bytes())
        of = {key: content[key] for key in ("library", "problem", "method", "epoch")}
        gaps = {row["instance"]: float(row["gap_unrounded"]) for row in content["rows"]}
        frame, copies = str(content["frame"]), int(content["augment"])
        if not gaps or not np.isfinite(list(gaps.values())).all():
            raise ValueError("no gaps")
    except (ValueError, KeyError, TypeError):
        raise DreeError(f"{path} is damaged: it is not what dree evaluate writes. {again}") from None
    for key, value in _own(name, folder).items():
        if of[key] != value:
            raise DreeError(f"{path} is not of this run: its {key} is {of[key]}, and not {value}. {again}")
    values = list(gaps.values())
    whole = set(gaps) == set(library(name).best_known)
    return LibraryGaps(name, len(values), float(np.mean(values)), float(np.std(values)), frame, copies, whole)


def _own(name: str, folder: RunFolder) -> dict[str, Any]:
    """What such a file must say of the solver."""
    settings, (epochs, _, _) = folder.settings(), folder.gaps()
    return {"library": name, "problem": settings.problem, "method": settings.method, "epoch": epochs[-1]}
