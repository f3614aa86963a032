"""How good a solver is: greedy, all starts, no augmentation, against reference costs."""

from __future__ import annotations

import torch
from torch import Tensor

from dree.data import TestSet
from dree.problems import Instances
from dree.solvers import Solver

STATES_AT_ONCE = 2**21  # instances x starts x nodes solved together; bounds memory


def solve_greedily(solver: Solver, instances: Instances) -> Tensor:
    """The cost of the best greedy tour over all starts of each instance: [B]."""
    batch = max(1, STATES_AT_ONCE // (instances.customers * instances.nodes))
    device = next(solver.parameters()).device
    parts = [instances[row : row + batch].to(device) for row in range(0, len(instances), batch)]
    return torch.cat([solver.solve(part).costs.min(1).values.cpu() for part in parts])


def gaps(costs: Tensor, references: Tensor) -> Tensor:
    """Excess over the reference in per cent, for each instance."""
    return (costs.double() / references.double() - 1) * 100


def average_gap(solver: Solver, test: TestSet) -> float:
    """The mean gap in per cent on a test set."""
    return float(gaps(solve_greedily(solver, test.instances), test.references).mean())
