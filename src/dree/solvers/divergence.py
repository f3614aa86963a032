"""How far one policy is from another, with as few passes over them as there can be."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def kl_divergence(policy: Tensor, target: Tensor, dims: int) -> Tensor:
    """KL(target || policy) of log-policies [..., K], summed over so many last dimensions; the target has no gradient.

    Both have minus infinity in the same places, which count for nothing.
    """
    value: Tensor = _Divergence.apply(policy, target, dims)  # type: ignore[no-untyped-call]
    return value


class _Divergence(torch.autograd.Function):
    """Policies of all states are large, and autograd would copy them and their gradient for each operation."""

    @staticmethod
    def forward(ctx: Any, policy: Tensor, target: Tensor, dims: int) -> Tensor:
        likelihood = target.exp()
        ctx.save_for_backward(likelihood)
        ctx.dims = dims
        difference = (target - policy).masked_fill_(target == -math.inf, 0)
        return difference.mul_(likelihood).sum(tuple(range(-dims, 0)))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        (likelihood,) = ctx.saved_tensors
        return likelihood * -upstream[0][(..., *[None] * ctx.dims)], None, None
