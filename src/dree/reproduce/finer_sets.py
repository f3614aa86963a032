"""The test sets of the finer-grained test, for small scales built on the spot."""

from __future__ import annotations

import os
from collections.abc import Sequence

from dree.bars import Bars, Say
from dree.data import SetKey
from dree.data.testsets import known_entry
from dree.evaluation.building import Recipe, build_test
from dree.experiments import RunSettings
from dree.experiments.material import stored_keys

COUNT = 50  # instances of each: what the small scale tests on, so that no scale finds too few
ITERATIONS = 500  # of HGS without improvement: enough for thirty customers


def built_on_the_spot(key: SetKey) -> bool:
    """Whether small scales build a test set: mixtures only, for those of principal tasks are other tables' as well."""
    return "+" in key.task


def missing_sets(runs: Sequence[RunSettings]) -> list[SetKey]:
    """The mixtures that these runs are tested on and that nobody has built; what is there is never replaced."""
    keys = dict.fromkeys(key for run in runs for key in stored_keys(run))
    return [key for key in keys if built_on_the_spot(key) and not known_entry(key)]


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
