"""In how many bits a solver computes: all 32, or 16 where matrices are multiplied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dree import kernels

PRECISIONS = ("auto", "fp32", "bf16")  # for learning
TEST_PRECISIONS = (*PRECISIONS, "fp16")  # for solving alone, which has no tiny gradients to lose
_LOW = {"bf16": torch.bfloat16, "fp16": torch.float16}


def precision_on(device: torch.device, precision: str, *, learning: bool) -> str:
    """As asked for, or what suits the device: with kernels, bf16 to learn (it has range), fp16 to test (digits)."""
    if precision != "auto":
        return precision
    if not kernels.serve(device):
        return "fp32"
    return "bf16" if learning else "fp16"


def in_precision(precision: str, device: torch.device, *, learning: bool) -> torch.autocast:
    """A context in which solvers encode in this precision."""
    low = _LOW.get(precision_on(device, precision, learning=learning))
    return torch.autocast(device.type, low or torch.bfloat16, enabled=low is not None)


def autocast_precision(device: torch.device) -> torch.dtype | None:
    """The low precision of the context that is entered, if one is."""
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None


def lowered(weights: Sequence[Tensor], low: torch.dtype) -> tuple[Tensor, ...]:
    """Weights in another precision, with gradient, all at once: one by one, casting takes as long as computing."""
    result: tuple[Tensor, ...] = _Lowered.apply(low, *weights)  # type: ignore[no-untyped-call]
    return result


class _Lowered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, low: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.exact = weights[0].dtype
        ctx.set_materialize_grads(False)
        return _cast(weights, low)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        cast = iter(_cast(tuple(each for each in gradients if each is not None), ctx.exact))
        return None, *(None if each is None else next(cast) for each in gradients)


def _cast(tensors: tuple[Tensor, ...], to: torch.dtype) -> tuple[Tensor, ...]:
    results = tuple(torch.empty_like(tensor, dtype=to) for tensor in tensors)
    torch._foreach_copy_(results, tensors)
    return results
