"""What REINFORCE compares the cost of a tour with.

`shared`: the mean over the tours of an instance. `greedy`: the cost of the tour that a frozen copy of the solver makes
of the same instance, greedily; the copy is replaced when the solver has become clearly better.

Shapes: B instances, P tours of each.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dree.problems import Instances, augment
from dree.solvers import Solver
from dree.solvers.chunks import split
from dree.tasks import Task

if TYPE_CHECKING:
    from dree.lifelong.learner import Learner

BASELINES = ("shared", "greedy")
CLEARLY = 1e-3  # better by more than this, on average
TESTED_AT_ONCE = {"cpu": 2**17, "cuda": 2**22}  # instances x copies x tours x nodes


class GreedyBaseline:
    """A frozen copy of a solver. Its weights change in place, so that captured work sees the new ones."""

    def __init__(self, solver: Solver) -> None:
        self.solver = copy.deepcopy(solver).requires_grad_(False)

    def costs(self, learner: Learner, instances: Instances, generator: torch.Generator) -> Tensor:
        """What greedy tours cost, from starts of their own: [B, P]."""
        starts = self.solver.starts(instances, generator)
        return self.solver.solve(instances, starts, encoding=learner.encode(instances, self.solver)).costs

    def test(self, learner: Learner, task: Task, generator: torch.Generator) -> bool:
        """Replace the copy if on new instances of a task the solver is clearly better; whether it was."""
        instances = task.sample(learner.settings.baseline_instances, generator).to(learner.device)
        better = mean_cost(learner, learner.solver, instances) + CLEARLY < mean_cost(learner, self.solver, instances)
        better = bool(learner.together.agreed(better))  # where rounding may decide
        if better:
            self.load_state_dict(learner.solver.state_dict())
        return better

    def state_dict(self) -> dict[str, Any]:
        """The weights."""
        return self.solver.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over weights."""
        self.solver.load_state_dict(state)


@torch.no_grad()
def mean_cost(learner: Learner, solver: Solver, instances: Instances) -> float:
    """The cost of greedy tours, the best over an instance's starts and symmetric copies, on average."""
    copies = learner.settings.augmentation
    tours = solver.starts(instances[:1]).shape[1]
    chunks = split(len(instances), 1, copies * tours * instances.nodes, TESTED_AT_ONCE[instances.device.type])
    best = []
    for rows, _ in chunks:
        every = augment(instances[rows], copies)
        costs = solver.solve(every, encoding=learner.encode(every, solver)).costs
        best.append(costs.view(copies, -1, tours).amin((0, 2)))
    return float(torch.cat(best).double().mean())
