"""What REINFORCE compares the cost of a tour with.

`shared`: the mean over the tours of an instance, where each of its symmetric copies is one of its own. `copies`: the
mean over the tours of all of them. `greedy`: the cost of the tour that a frozen copy of the solver makes of the same
instance, greedily; the copy is replaced when the solver has become clearly better.

Shapes: B instances, P tours of each.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dree.problems import Instances, Tours, augment
from dree.solvers import Solver
from dree.solvers.capture import taking_turns
from dree.solvers.chunks import split
from dree.tasks import Task

if TYPE_CHECKING:
    from dree.lifelong.learner import Learner

BASELINES = ("shared", "copies", "greedy")
CLEARLY = 1e-3  # better by more than this, on average
TESTED_AT_ONCE = {"cpu": 2**17, "cuda": 2**22}  # instances x copies x tours x nodes


def mean_over_copies(tours: Tours, copies: int) -> Tensor:
    """What the tours of an instance and of its symmetric copies cost on average, for each of these: [B, 1]."""
    of_each = tours.costs.mean(1).view(copies, -1).mean(0)
    return of_each.repeat(copies)[:, None]


class GreedyBaseline:
    """A frozen copy of a solver. Its weights change in place, so that captured work sees the new ones."""

    def __init__(self, solver: Solver) -> None:
        self.solver = copy.deepcopy(solver).requires_grad_(False)

    def solving(
        self, learner: Learner, instances: Instances, generator: torch.Generator
    ) -> Generator[None, None, Tours]:
        """Greedy tours, from starts of their own."""
        starts = self.solver.starts(instances, generator)
        return (yield from self.solver.solving(instances, starts, encoding=learner.encode(instances, self.solver)))

    def test(self, learner: Learner, task: Task, generator: torch.Generator) -> bool:
        """Replace the copy if on new instances of a task the solver is clearly better; whether it was."""
        instances = task.sample(learner.settings.baseline_instances, generator).to(learner.device)
        new, old = mean_costs(learner, [learner.solver, self.solver], instances)
        better = bool(learner.together.agreed(new + CLEARLY < old))  # where rounding may decide
        if better:
            self.load_state_dict(learner.solver.state_dict())
        return better

    def state_dict(self) -> dict[str, Any]:
        """The weights."""
        return self.solver.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over weights."""
        self.solver.load_state_dict(state)


def mean_costs(learner: Learner, solvers: Sequence[Solver], instances: Instances) -> list[float]:
    """The costs of several solvers' greedy tours, the best over an instance's starts and copies, on average."""
    return taking_turns([_mean_cost(learner, solver, instances) for solver in solvers], learner.device)


@torch.no_grad()
def _mean_cost(learner: Learner, solver: Solver, instances: Instances) -> Generator[None, None, float]:
    """Of one of them."""
    copies = learner.settings.augmentation
    tours = solver.starts(instances[:1]).shape[1]
    chunks = split(len(instances), 1, copies * tours * instances.nodes, TESTED_AT_ONCE[instances.device.type])
    best = []
    for rows, _ in chunks:
        every = augment(instances[rows], copies)
        solved = yield from solver.solving(every, encoding=learner.encode(every, solver))
        best.append(solved.costs.view(copies, -1, tours).amin((0, 2)))
    yield
    return float(torch.cat(best).double().mean())
