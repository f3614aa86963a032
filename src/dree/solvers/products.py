"""Linear maps on whichever of PyTorch's libraries suits the processor.

On a CPU PyTorch multiplies matrices in single precision by MKL, which works with half the width of AMD's
processors since Zen 5. There oneDNN, which PyTorch has for other precisions, is twice as fast.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

HALF_USED = "znver5"  # a processor, as LLVM calls it, of whose width MKL uses half
LINEAR: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)  # by which PyTorch's own compiler calls oneDNN
FEW = 32  # rows: with fewer, preparing a product takes longer than the product


class Linear(nn.Linear):
    """A linear map, as fast as can be."""

    def forward(self, x: Tensor) -> Tensor:
        """Map the last dimension."""
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The same as PyTorch's function of that name; gradients, and gradients of these, too."""
    exact = x.dtype == weight.dtype == torch.float32 and x.device.type == "cpu"
    if not exact or x.numel() < FEW * x.shape[-1] or torch.is_autocast_enabled("cpu") or not _wide():
        return functional.linear(x, weight, bias)
    if not torch.is_grad_enabled():
        return _product(x, weight, bias)
    product: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return product


@cache
def _wide() -> bool:
    """Whether oneDNN is faster here, and can be called."""
    try:
        from llvmlite.binding import get_host_cpu_name
    except (ImportError, OSError):  # OSError: the compiler itself cannot be loaded
        return False
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return get_host_cpu_name() == HALF_USED and available and LINEAR is not None


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = LINEAR(x.contiguous(), weight, bias, "none", [], "")
    return product


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        (x, weight), (gradient,) = ctx.saved_tensors, upstream
        rows = gradient.flatten(0, -2)
        of_x, of_weight, of_bias = ctx.needs_input_grad
        to_x = linear(gradient, weight.t().contiguous()) if of_x else None
        to_weight = rows.t() @ x.flatten(0, -2) if of_weight else None
        return to_x, to_weight, rows.sum(0) if of_bias else None
