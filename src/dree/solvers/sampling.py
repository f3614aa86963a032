"""Decisions drawn from a policy.

Shapes: ... any number of leading dimensions, K actions.
"""

from __future__ import annotations

import torch
from torch import Tensor


def uniform_numbers(starts_BP: Tensor, steps: int, generator: torch.Generator) -> Tensor:
    """A number between nought and one for each decision of each tour: [B, P, steps]."""
    return torch.rand((*starts_BP.shape, steps), generator=generator, device=starts_BP.device)


def sample(policy: Tensor, uniform: Tensor) -> Tensor:
    """A sampled action of each policy [..., K]: the first whose share of the whole passes a uniform number [..., 1]."""
    passed = policy.cumsum(-1)
    # A threshold clearly below the whole, and blocked actions out of the question: no rounding makes a wrong tour.
    threshold = uniform * passed[..., -1:] * (1 - 2**-20)
    if policy.is_cuda:  # sums are not taken in order there, and a blocked action may seem to add to them
        return ((passed > threshold) & (policy > 0)).to(torch.int8).argmax(-1)
    return torch.searchsorted(passed, threshold, right=True).squeeze(-1).clamp_(max=passed.shape[-1] - 1)
