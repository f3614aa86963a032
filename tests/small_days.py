"""Days of orders so small that learning one takes a moment, and a solver to start from."""

from __future__ import annotations

import random
from pathlib import Path

from dree.experiments import Run
from dree.experiments.configuration import PRESETS
from dree.service.budget import Budget
from dree.service.days import Given
from dree.service.learning import Learning, learn_files
from dree.service.starting import Wanted
from dree.service.state import State
from dree.settings import override

NOTHING = Given()
TINY = {"solver.width": 8, "solver.heads": 1, "solver.layers": 1, "solver.feed_forward": 8, "test_instances": 1}


def small_start(path: Path, problem: str = "tsp", **changes: object) -> Path:
    """A run that has learned nothing, of a very small network."""
    settings = {**TINY, "problem": problem, "device": "cpu", **changes}
    Run.start(path, override(PRESETS["demo"], settings), lambda _: None).checkpoint()
    return path


def write_day(folder: Path, number: int, stops: int = 12, seed: int | None = None, demands: bool = False) -> Path:
    """The orders of the so-many-th day of 2026, by latitude and longitude."""
    dice = random.Random(number if seed is None else seed)
    day = f"2026-{1 + (number - 1) // 28:02d}-{1 + (number - 1) % 28:02d}"
    lines = ["date,lat,lon" + (",demand" if demands else "")]
    for _ in range(stops):
        row = [day, f"{48 + dice.random() / 10:.5f}", f"{11 + dice.random() / 5:.5f}"]
        lines.append(",".join(row + [str(dice.randint(1, 5))] * demands))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{day}{'' if seed is None else f'-{seed}'}.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def learn(
    path: Path,
    *files: Path,
    start: Path | None = None,
    method: str | None = None,
    given: Given = NOTHING,
    margin: float = 0.3,
    batches: int = 1,
    say=lambda _: None,
) -> State:
    """Learn files with so many batches a day."""
    how = Learning(Budget(batches=batches), margin, say=say)
    return learn_files(path, files, given, Wanted(start, method), how)


def contents(state: State) -> dict[str, object]:
    """Everything in a state that does not depend on the clock, the hashes of all its files among it."""
    return {
        "versions": [(v.number, v.solver, v.day, v.batches, v.today, v.past, v.promoted) for v in state.versions],
        "days": [(day.name, day.key, day.stops, day.version, day.sample) for day in state.days],
        "rest": (state.settings, state.in_use, state.learner, state.past),
    }
