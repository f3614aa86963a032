"""The lengths of tours in one kernel: a program takes all legs of some tours of one instance."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

TOURS = 16  # of a program
STEPS = 64  # of each of them at a time


def walk_lengths(coords_BN2: Tensor, actions_BPT: Tensor, *, from_depot: bool) -> Tensor:
    """Of closed walks, from node 0 and back to it or else back to where they begin: [B, P]. Without gradient."""
    batch, tours, steps = actions_BPT.shape
    lengths = torch.empty(batch, tours, device=coords_BN2.device)
    _length_kernel[(batch * triton.cdiv(tours, TOURS),)](
        coords_BN2.contiguous(),
        actions_BPT.contiguous(),
        lengths,
        tours,
        steps,
        coords_BN2.shape[1],
        FROM_DEPOT=from_depot,
        TOURS=TOURS,
        STEPS=STEPS,
    )
    return lengths


@triton.jit(do_not_specialize=["tours", "steps", "nodes"])
def _length_kernel(  # type: ignore[no-untyped-def]
    coords_ptr,  # [B, N, 2]
    actions_ptr,  # [B, P, T]
    length_ptr,  # out [B, P]
    tours,
    steps,
    nodes,
    FROM_DEPOT: tl.constexpr,
    TOURS: tl.constexpr,
    STEPS: tl.constexpr,
):
    blocks = tl.cdiv(tours, TOURS)
    instance = (tl.program_id(0) // blocks).to(tl.int64)
    tour = (tl.program_id(0) % blocks) * TOURS + tl.arange(0, TOURS)
    exists = tour < tours
    coords_ptr += instance * nodes * 2
    actions_ptr += (instance * tours + tour)[:, None] * steps
    total = tl.zeros([TOURS, STEPS], tl.float32)
    legs = steps
    if FROM_DEPOT:
        legs = steps + 1
    for base in range(0, legs, STEPS):
        leg = base + tl.arange(0, STEPS)  # to the action of that number
        before = leg - 1
        if FROM_DEPOT:
            leaves, reaches = (leg > 0) & (leg <= steps), leg < steps  # a node of the tour; else it is the depot
        else:
            before = tl.where(leg == 0, steps - 1, before)
            leaves, reaches = leg < steps, leg < steps
        left = tl.load(actions_ptr + before[None, :], mask=exists[:, None] & leaves[None, :], other=0)
        reached = tl.load(actions_ptr + leg[None, :], mask=exists[:, None] & reaches[None, :], other=0)
        x = tl.load(coords_ptr + 2 * left) - tl.load(coords_ptr + 2 * reached)
        y = tl.load(coords_ptr + 2 * left + 1) - tl.load(coords_ptr + 2 * reached + 1)
        total += tl.sqrt_rn(x * x + y * y)  # nought where there is no leg: it leads from node 0 to node 0
    tl.store(length_ptr + instance * tours + tour, tl.sum(total, 1), mask=exists)
