"""Folders of runs that were never run: a manifest, a gap matrix and a checkpoint of a solver with random weights."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

from dree.data.libraries import library
from dree.experiments import DEMO, RunFolder, RunSettings
from dree.files import write_json
from dree.lifelong.checkpoint import save_checkpoint
from dree.settings import override
from dree.solvers import make_solver

SMALL = {"solver.width": 16, "solver.heads": 2, "solver.layers": 1, "solver.feed_forward": 32}


def demo_run(path: Path, problem: str, epochs: tuple[int, ...] = (50,)) -> RunSettings:
    """A demo run with a checkpoint of each epoch, all with different weights."""
    settings = override(DEMO, {"problem": problem, **SMALL})
    folder = RunFolder.create(path, settings, {})
    for epoch in epochs:
        weights = make_solver(problem, settings=settings.solver, seed=epoch).state_dict()
        state = {"epoch": epoch, "tested": [], "matrix": [], "learner": {"batches": 0, "solver": weights}}
        save_checkpoint(folder.checkpoints, epoch, state)
    return settings


def run_with_gaps(
    path: Path, matrix: list[list[float]], tested: list[int], tasks: list[str], **settings: object
) -> Path:
    """A run with this gap matrix; the settings are the paper's but for those given.

    Where it was tested between the epochs that are given, its gaps were those of the one before.
    """
    chosen = override(RunSettings(), {"device": "cpu", **settings})
    write_all_gaps(RunFolder.create(path, chosen, {}), matrix, tested, tasks)
    return path


def write_all_gaps(folder: RunFolder, matrix: list[list[float]], tested: list[int], tasks: list[str]) -> None:
    """A gap matrix with a row for every epoch after which the run was tested."""
    every = sorted({*range(0, tested[-1], folder.settings().test_every), *tested})
    folder.write_gaps(every, [matrix[bisect_right(tested, epoch) - 1] for epoch in every], tasks)


def write_evaluation(folder: RunFolder, gaps: dict[str, float], **other: object) -> Path:
    """What `dree evaluate --json` writes about the last solver of a run, as far as it is read."""
    name = {"tsp": "tsplib", "cvrp": "cvrplib"}[folder.settings().problem]
    of = {"library": name, "run_created": folder.manifest()["created"], "epoch": folder.gaps()[0][-1]}
    best = library(name).best_known
    rows = [
        {"instance": each, "distance_unrounded": best.get(each, 1) * (1 + gap / 100), "gap_unrounded": -1.0}
        for each, gap in gaps.items()
    ]
    return write_json(folder.path / f"{name}.json", {**of, "frame": "fit", "augment": 1, "rows": rows, **other})
