"""How badly a solver does on each task of a size, so that meta-training can turn to the worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from dree.bars import Say
from dree.evaluation.classical import HGS
from dree.evaluation.evaluate import best_tours, gaps
from dree.evaluation.reference import reference_costs
from dree.experiments.pretrain_settings import PretrainSettings
from dree.problems import SYMMETRIES, Instances
from dree.randomness import named_generator
from dree.solvers import Solver
from dree.tasks import Task


class Probe:
    """A pool of instances for each task of the size at hand, with the costs of reference tours.

    `own` references are the shortest tours that were ever found here: on first sight of a task by the solver as it is
    then, over all symmetric copies, and after that whatever a look happens to find.
    """

    def __init__(self, settings: PretrainSettings, say: Say = lambda _: None) -> None:
        self._settings = settings
        self._say = say
        self._pools: dict[str, Instances] = {}
        self._references: dict[str, Tensor] = {}  # [pool] float64, by the tasks' names

    def gaps(self, solver: Solver, tasks: Sequence[Task], iteration: int) -> list[float]:
        """The mean gap of each task in per cent, greedy and without copies, on the same part of all pools."""
        names = {task.name for task in tasks}
        for kept in (self._pools, self._references):  # sizes that are done do not come again
            for gone in set(kept) - names:
                del kept[gone]
        unknown = len(names - set(self._references))
        if unknown and self._settings.reference == "hgs":
            self._say(f"Finding reference tours of {unknown * self._settings.pool} instances of n = {tasks[0].size}.")
        chance = named_generator(self._settings.seed, "probe", iteration)
        rows = torch.randperm(self._settings.pool, generator=chance)[: self._settings.probe]
        return [self._gap(solver, task, rows) for task in tasks]

    def _gap(self, solver: Solver, task: Task, rows: Tensor) -> float:
        pool = self._pool(task)
        if task.name not in self._references:
            self._references[task.name] = self._refer(solver, pool)
        references = self._references[task.name]
        costs = best_tours(solver, pool[rows]).costs[:, 0].double()
        if self._settings.reference == "own":
            references[rows] = torch.minimum(references[rows], costs)
        return float(gaps(costs, references[rows]).mean())

    def _pool(self, task: Task) -> Instances:
        """The instances of a task, which the seed fixes."""
        if task.name not in self._pools:
            generator = named_generator(self._settings.seed, "pool", task.problem, task.name)
            self._pools[task.name] = task.sample(self._settings.pool, generator)
        return self._pools[task.name]

    def _refer(self, solver: Solver, pool: Instances) -> Tensor:
        if self._settings.reference == "own":
            return best_tours(solver, pool, SYMMETRIES).costs[:, 0].double()
        hgs = HGS(iterations=self._settings.reference_iterations)
        found = reference_costs(pool, hgs, workers=self._settings.reference_workers)
        return torch.tensor([each.cost for each in found], dtype=torch.float64)

    def state_dict(self) -> dict[str, Any]:
        """The references; instances are drawn again."""
        return dict(self._references)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where an earlier `state_dict` was taken."""
        self._references = dict(state)
