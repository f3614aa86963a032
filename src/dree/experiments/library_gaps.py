"""What the solver of a run does on library instances, from files that `dree evaluate --json` has put into its folder.

They are called after their library, `tsplib.json` and `cvrplib.json`, and are kept with the run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dree.data.libraries import PROBLEMS, library
from dree.errors import DreeError
from dree.experiments.folder import LIBRARY_FILES, RunFolder
from dree.problems import SYMMETRIES
from dree.problems.frame import FRAMES


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
    """What there is in a run's folder; each must be of this run's last tested solver."""
    files = {name: folder.path / file for name, file in zip(PROBLEMS, LIBRARY_FILES, strict=True)}
    return tuple(_read(path, name, folder) for name, path in files.items() if path.is_file())


def _read(path: Path, name: str, folder: RunFolder) -> LibraryGaps:
    again = f"Delete it, or write it again: dree evaluate RUN --library {name} --path FOLDER --json {path}"
    best_known = library(name).best_known
    try:
        content = json.loads(path.read_bytes())
        of, epoch = (content["library"], content["run_created"]), content["epoch"]
        lengths = {row["instance"]: float(row["distance_unrounded"]) for row in content["rows"]}
        gaps = [100 * (length / best_known[instance] - 1) for instance, length in lengths.items()]
        frame, copies = content["frame"], content["augment"]
        if not gaps or not np.isfinite(gaps).all() or frame not in FRAMES or copies not in (1, SYMMETRIES):
            raise ValueError("what stands there cannot be")
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise DreeError(
            f"{path} is not what dree evaluate writes about instances of {name}, or is damaged. {again}"
        ) from None
    if of != (name, folder.manifest()["created"]):
        raise DreeError(f"{path} is about {of[0]} and another run. {again}")
    tested = folder.gaps()[0][-1]
    if epoch != tested:
        raise DreeError(
            f"{path} is about the solver of epoch {epoch}, and the run was last tested after epoch {tested}. {again}"
        )
    mean, std = float(np.mean(gaps)), float(np.std(gaps))
    return LibraryGaps(name, len(gaps), mean, std, frame, copies, whole=set(lengths) == set(best_known))
