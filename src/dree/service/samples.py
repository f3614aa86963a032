"""What is kept of a day to see forgetting: some of its instances, drawn before it is learned, and reference costs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from dree.data import TestSet
from dree.evaluation.classical import HGS
from dree.evaluation.evaluate import evaluate
from dree.evaluation.reference import reference_costs
from dree.problems import Instances
from dree.randomness import named_generator
from dree.service.days import UnlearnableError
from dree.solvers import Solver
from dree.tasks.orders import LARGEST, OrdersTask

INSTANCES = 4  # of a day, beside the whole day
COPIES = 8  # symmetric ones, of which the best tour counts, as in `dree solve --state`
REFERENCE = HGS(iterations=500)  # docs/decisions.md: as good as 2000 up to 50 stops, in a third of the time


@dataclass(frozen=True)
class Sample:
    """Test sets of a day: parts of it as they are learned and, if it is not too large, the whole."""

    tests: tuple[TestSet, ...]

    @property
    def work(self) -> float:
        """How long a test takes, in some unit."""
        return float(sum(len(test.instances) * test.instances.nodes**2 for test in self.tests))

    def gap(self, solver: Solver) -> float:
        """The mean gap of all its instances in per cent."""
        counts = [len(test.instances) for test in self.tests]
        gaps = [evaluate(solver, test, COPIES).mean for test in self.tests]
        return sum(count * gap for count, gap in zip(counts, gaps, strict=True)) / sum(counts)

    def state_dict(self) -> dict[str, Any]:
        """As tensors and plain values."""
        names = ("name", "task", "references")
        return {
            "tests": [
                {**{name: getattr(test, name) for name in names}, "instances": dict(vars(test.instances))}
                for test in self.tests
            ]
        }

    @staticmethod
    def from_state(state: Mapping[str, Any]) -> Sample:
        """What `state_dict` gave."""
        tests = (TestSet(**(each | {"instances": Instances(**each["instances"])})) for each in state["tests"])
        return Sample(tuple(tests))


def draw_sample(task: OrdersTask, seed: int, progress: Callable[[], None] = lambda: None) -> Sample:
    """Instances of a day and their reference costs; which ones depends on the seed and the day alone.

    `progress` is called after each instance.
    """
    generator = named_generator(seed, "sample", task.orders.key)
    sets = [task.sample(INSTANCES, generator)]
    if len(task.orders.places) <= LARGEST:
        sets.append(task.orders.instance())
    tests = []
    for instances in sets:
        found = reference_costs(instances, REFERENCE, workers=os.cpu_count() or 1, progress=lambda *_: progress())
        costs = torch.tensor([cost for _, cost in found], dtype=torch.float64)
        there = costs > 0  # of stops that all lie at one place there is no gap
        if there.any():
            tests.append(TestSet(task.name, task.name, instances[there], costs[there]))
    if not tests:
        few = f"{task.orders.day} has nearly all of its stops at one place"
        raise UnlearnableError(f"{few}, so there is nothing to learn.")
    return Sample(tuple(tests))
