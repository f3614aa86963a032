"""How far a policy is from a teacher's on given tours, by kernels: of a state and a node only a gradient is in memory.

Shapes: B instances, P tours, T actions of a tour, S = T - 1 states, N nodes.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from dree.kernels.imitation import imitation_kernel
from dree.kernels.layout import rollout_layout, tiles
from dree.problems import Instances
from dree.problems.cvrp import loads_along
from dree.problems.rules import visit_steps
from dree.solvers.kernel_gradients import compiled_for, decoder_gradients, roomy


def imitation(
    heads: int,
    tensors: tuple[Tensor, ...],
    teacher: tuple[Tensor, ...],
    instances: Instances,
    actions_BPT: Tensor,
    clip: float,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """KL(teacher || policy) of each tour, and the gradient of their sum for the policy's tensors.

    Both policies are given by the tensors of their kernel decoders, which have the same sizes. What this holds is as
    large as the record of a rollout of these tours, and like that not bounded by a solver's `chunk_bytes`.
    """
    packed, actions = tensors[0].detach(), actions_BPT.contiguous()
    batch, tours, longest = actions.shape
    nodes, states = instances.nodes, (batch, tours, longest - 1)
    visited_at_BPN = visit_steps(actions, nodes).short()
    decisions_BP = visited_at_BPN[..., nodes - instances.customers :].amax(-1).int().add(1).clamp(max=longest - 1)
    loads, shares = _loads(instances, actions)
    distance_BPS = torch.empty(states, device=packed.device)
    gradient = roomy((*states, sum(tiles(nodes))), packed.dtype, packed.device)
    logsum = torch.empty(*states, heads, device=packed.device)
    layout = rollout_layout(nodes, packed.dtype)
    imitation_kernel[(triton.cdiv(tours * (longest - 1), layout.rows), batch)](
        *(tensor.detach() for tensor in (*tensors, *teacher)),
        actions,
        visited_at_BPN,
        decisions_BP,
        instances.demands if instances.demands is None else instances.demands.contiguous(),
        loads,
        shares,
        distance_BPS,
        gradient,
        logsum,
        tours,
        longest - 1,
        nodes,
        clip,
        CVRP=instances.problem == "cvrp",
        STATES=layout.rows,
        **layout.options,
        **compiled_for(packed, heads),
    )
    per_tour = distance_BPS.sum(-1)
    starts = actions[..., 0].contiguous()
    weights = torch.ones_like(per_tour)
    gradients = decoder_gradients(heads, tensors, actions, starts, shares, weights, gradient, logsum, decisions_BP)
    return per_tour, gradients


def _loads(instances: Instances, actions_BPT: Tensor) -> tuple[Tensor, Tensor]:
    """What the vehicle can still take at every state, and that as a share of the capacity: [B, P, S] (CVRP)."""
    if instances.capacity is None:
        return actions_BPT, actions_BPT  # not read
    loads = loads_along(instances, actions_BPT[..., :-1])
    return loads, loads / instances.capacity[:, None, None]
