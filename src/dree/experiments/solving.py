"""Problems in plain arrays, solved by any solver: `dree.solve`."""

from __future__ import annotations

from pathlib import Path

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from dree.evaluation.answers import Answers, answers
from dree.experiments.trained import load_solver
from dree.problems import SYMMETRIES, Instances
from dree.solvers import Solver


def solve(
    solver: Solver | str | Path,
    coords: ArrayLike | Tensor,
    demands: ArrayLike | Tensor | None = None,
    capacity: ArrayLike | Tensor | None = None,
    *,
    copies: int = SYMMETRIES,
) -> Answers:
    """The best tours of problems in your own coordinates, and their costs in the same units.

    `solver` is a solver, a run's folder, or the name of one that comes with dree (`tsp-drift`, `cvrp-drift`).
    Coordinates are [B, N, 2], or [N, 2] of a single problem, in any units: each problem is moved and scaled into the
    unit square for the solver. With demands, whole numbers [B, N] or [N], the first node is the depot, whose demand is
    0, and capacity is one number or one for each problem.

    The solver is greedy, from all its starts, and the best over `copies` (1 or 8) symmetric copies counts. The command
    `dree solve` goes on from there: it makes parts of the routes again.
    """
    chosen = solver if isinstance(solver, Solver) else load_solver(solver)
    instances = Instances.of(coords, demands, capacity, dtype=torch.float64)
    return answers(chosen, instances, copies)
