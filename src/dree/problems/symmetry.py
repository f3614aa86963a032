"""The eight symmetries of the unit square, under which no tour changes its cost."""

from __future__ import annotations

import torch

from dree.problems.instances import Instances

SYMMETRIES = 8


def augment(instances: Instances, copies: int = SYMMETRIES) -> Instances:
    """`copies` (1 or 8) symmetric copies of every instance, copy-major: row = copy * B + instance."""
    if copies not in (1, SYMMETRIES):
        raise ValueError(f"copies must be 1 or {SYMMETRIES}, not {copies}")
    if copies == 1:
        return instances
    x, y = instances.coords.unbind(-1)
    flips = [(x, y), (1 - x, y), (x, 1 - y), (1 - x, 1 - y)]
    flips += [(b, a) for a, b in flips]
    # Swapping axes after the flips gives the order (y,x), (y,1-x), (1-y,x), (1-y,1-x); the customary one
    # flips the first axis first.
    flips[5], flips[6] = flips[6], flips[5]
    coords = torch.cat([torch.stack(pair, dim=-1) for pair in flips])
    if instances.demands is None or instances.capacity is None:
        return Instances(coords)
    return Instances(coords, instances.demands.repeat(copies, 1), instances.capacity.repeat(copies))
