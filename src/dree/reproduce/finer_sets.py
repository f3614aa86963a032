"""The test sets of the finer-grained test, for small scales built on the spot."""

from __future__ import annotations

import os
from collections.abc import Sequence

from dree.bars import Bars, Say
from dree.data import SetKey, find_set
from dree.evaluation.building import Recipe, build_test
from dree.experiments import RunSettings

COUNT = 50  # instances of each: what the small scale tests on, so that no scale finds too few
ITERATIONS = 500  # of HGS without improvement: enough for thirty customers


def missing_sets(runs: Sequence[RunSettings]) -> list[SetKey]:
    """The test sets that these runs need and that are nowhere, or have too few instances."""
    keys = [
        SetKey(settings.problem, task.name, settings.spec)
        for settings in runs
        for task in settings.test_tasks(settings.stream()).values()
    ]
    return [key for key in dict.fromkeys(keys) if (there := find_set(key)) is None or there.entry["instances"] < COUNT]


def build_missing(keys: Sequence[SetKey], say: Say, bars: Bars) -> None:
    """Build small test sets."""
    if not keys:
        return
    say(f"Building {len(keys)} small test sets for the finer-grained test.")
    with bars(len(keys)) as part:
        for key in keys:
            done = part(key.name, 1.0)
            build_test(key, Recipe(COUNT, 1, ITERATIONS), workers=os.cpu_count() or 1)
            done(1.0)
