"""The test sets of real days: parts of a day's packages, drawn from a seed of the day's own, with tours from HGS.

They depend on the packages of the day and on nothing else, so all methods and seeds are tested on the same ones. What
was made is kept in the cache folder; what was solved, instance by instance, in the cache of references.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch

from dree.bars import Bars, no_bar
from dree.data import SetKey, TestSet, find_set, load_set, write_test
from dree.errors import DreeError
from dree.evaluation.building import Recipe, padded
from dree.evaluation.reference import reference_costs
from dree.files import cache_folder
from dree.problems import Instances
from dree.randomness import named_generator
from dree.tasks.lade import DayTask, LadeStream
from dree.turns import others_turn

INSTANCES = 1000  # of each process test, and of all days for Gen together
RECIPE = Recipe(INSTANCES, seed=1, iterations=2000)  # as the shipped sets of the TSP


class DayTests(NamedTuple):
    """The test sets of a stream by day."""

    process: dict[str, TestSet]
    held_out: dict[str, TestSet]  # for Gen


class _Wanted(NamedTuple):
    """A set that is asked for."""

    task: DayTask
    instances: Instances

    @property
    def key(self) -> SetKey:
        """Its name ends with the number of instances and a hash of them."""
        digest = hashlib.sha256(self.instances.coords.numpy().tobytes()).hexdigest()
        return SetKey(self.task.problem, self.task.name, f"x{len(self.instances)}-{digest[:16]}")

    @property
    def work(self) -> int:
        """About how long an instance takes to solve."""
        return self.task.size**2


def day_tests(stream: LadeStream, instances: int | None = None, bars: Bars = no_bar) -> DayTests:
    """The sets of a stream: so many instances for each process test, and so many for Gen, spread over its days.

    None stands for 1000. A smaller number takes the first instances of each day's.
    """
    count = INSTANCES if instances is None else instances
    if count > INSTANCES:
        raise DreeError(f"test_instances is {count}, but the test sets of real days have {INSTANCES}. Ask for fewer.")
    held_out = stream.held_out()
    shares = dict(zip(held_out, spread(count, len(held_out)), strict=True))
    wanted = {name: _wanted(task, count) for name, task in stream.tests().items()}
    wanted |= {name: _wanted(task, shares[name]) for name, task in held_out.items() if shares[name]}
    _build(wanted, bars)
    found = {name: load_set(each.key, kept_in()) for name, each in wanted.items()}
    return DayTests(
        {name: test for name, test in found.items() if name not in held_out},
        {name: test for name, test in found.items() if name in held_out},
    )


def spread(count: int, days: int) -> list[int]:
    """How many of the instances each day has: as evenly as can be, all together `count`."""
    return [(day + 1) * count // days - day * count // days for day in range(days)]


def digest_of(test: TestSet) -> str:
    """The hash of a set's instances and reference tours, the same however its file is packed."""
    assert test.tours is not None
    parts = (test.instances.coords.numpy().tobytes(), test.tours.numpy().tobytes())
    return hashlib.sha256(b"/".join(parts)).hexdigest()


def kept_in() -> Path:
    """The folder of the sets that were made."""
    return cache_folder() / "lade" / "tests"


def _wanted(task: DayTask, count: int) -> _Wanted:
    drawn = task.sample(RECIPE.count, named_generator(RECIPE.seed, "day test", task.name))
    return _Wanted(task, drawn[:count])


def _build(wanted: Mapping[str, _Wanted], bars: Bars) -> None:
    """Solve and keep the sets that are not there yet."""
    missing = {name: each for name, each in wanted.items() if find_set(each.key, kept_in()) is None}
    if not missing:
        return
    (solver,) = RECIPE.solvers
    with bars(sum(len(each.instances) * each.work for each in missing.values())) as part:
        for number, (name, (task, instances)) in enumerate(missing.items(), start=1):
            advance = part(f"reference tours of {name} ({number} of {len(missing)})", missing[name].work)
            with others_turn():
                found = reference_costs(
                    instances, solver, workers=os.cpu_count() or 1, progress=lambda *_, advance=advance: advance(1)
                )
            key, costs = missing[name].key, torch.tensor([cost for _, cost in found], dtype=torch.float64)
            test = TestSet(key.name, task.name, instances, costs, padded([actions for actions, _ in found]))
            write_test(key, test, RECIPE.made(), kept_in())
