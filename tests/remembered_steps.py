"""Steps of several sizes, in the middle of tours, as LLR-BC remembers them."""

from __future__ import annotations

from dataclasses import replace

import torch

from conftest import random_instances
from dree.lifelong.steps import Step
from dree.solvers import Solver


def remembered_step(solver: Solver, customers: int, seed: int, batch: int = 2) -> Step:
    """What a solver would decide somewhere on its own sampled tours."""
    instances = random_instances(solver.rules.name, batch, customers, seed)
    instances = replace(instances, coords=instances.coords.to(next(solver.parameters()).dtype))
    with torch.no_grad():
        actions = solver.solve(instances, generator=torch.Generator().manual_seed(seed)).actions
        at = seed % (actions.shape[-1] - 1)
        state = solver.rules.hindsight(instances, actions).map(lambda of_all: of_all[:, :, at].clone())
        starts = actions[..., 0].clone()
        return Step(instances, starts, state, solver.decide(instances, starts, state))
