"""How the gradient of a loss changes along a direction: the product of its Hessian with a vector."""

from __future__ import annotations

import torch
from torch import Tensor

from dree.lifelong.flat import FlatParameters
from dree.problems import Instances
from dree.solvers import POMO
from dree.solvers.pomo_twin import log_probability

BYTES = {"cpu": 2**30, "cuda": 2**33}  # what a chunk of tours may hold, about
HELD = 15  # floats for each state, node and head, measured at 50 and 100 nodes on a CPU


def curvature(
    solver: POMO,
    flat: FlatParameters,
    instances: Instances,
    actions_BPT: Tensor,
    weights_BP: Tensor,
    direction: Tensor,
    budget: int | None = None,
) -> Tensor:
    """Of the weighted sum of the tours' log-probabilities, for a direction in the space of all weights, flat as they.

    Tours are taken in chunks, each with the encoding of all instances, of which a norm over the batch allows no part.
    """
    along = flat.views(direction)
    total, part = torch.zeros_like(direction), torch.zeros_like(direction)
    actions = solver.rules.trimmed(actions_BPT)
    states = len(instances) * actions.shape[-1]
    column = states * instances.nodes * (solver.settings.heads + 2) * HELD * direction.element_size()
    width = max(1, (budget or BYTES[direction.device.type]) // column)
    for first in range(0, actions.shape[1], width):
        columns = slice(first, first + width)
        loss = (log_probability(solver, instances, actions[:, columns]) * weights_BP[:, columns]).sum()
        slopes = torch.autograd.grad(loss, flat.parameters, create_graph=True, materialize_grads=True)
        slope = torch.stack([(each * way).sum() for each, way in zip(slopes, along, strict=True)]).sum()
        flat.gather(torch.autograd.grad(slope, flat.parameters, materialize_grads=True), part)
        total += part
    return total
