"""Where a residual block begins: a linear map, and the nodes themselves, with both their gradients added by a product.

branch(x, weight)        ->  x weight^T, x
branch(x, weight, bias)  ->  relu(x weight^T + bias), x
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

ROWS, COLUMNS = 64, 128  # of one program


def branch(x_BND: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """A linear map, with a bias the positive part of it; and the nodes, for the residual.

    The gradients of both are written over, so nobody else may need them once both are there. A residual's sum gives one
    tensor to both ways back; that is safe, as it is written over here, when the way through the block has been gone.
    """
    mapped: Tensor
    mapped, x_BND = _Branch.apply(x_BND, weight, bias)  # type: ignore[no-untyped-call]
    return mapped, x_BND


class _Branch(torch.autograd.Function):
    """Backwards, the map's gradient is cut to where it is positive, and what becomes of it added to the nodes'."""

    @staticmethod
    def forward(ctx: Any, x_BND: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        rows, positive = x_BND.flatten(0, 1), None
        if bias is None:
            mapped = rows @ weight.t()
        else:
            mapped = positive = torch._addmm_activation(bias, rows, weight.t())
        ctx.save_for_backward(x_BND, weight, positive)
        return mapped.view(*x_BND.shape[:2], -1), x_BND

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        x_BND, weight, positive = ctx.saved_tensors
        gradient, to_x = (each.contiguous().flatten(0, 1) for each in upstream)
        to_bias = None if positive is None else _cut(gradient, positive).to(weight.dtype)
        to_x.addmm_(gradient, weight)
        return to_x.view_as(x_BND), gradient.t() @ x_BND.flatten(0, 1), to_bias


def _cut(gradient: Tensor, positive: Tensor) -> Tensor:
    """Make a gradient zero, in place, where nothing positive was; and the sum of its rows."""
    rows, width = gradient.shape
    total = torch.zeros(width, device=gradient.device)
    _cut_kernel[(triton.cdiv(rows, ROWS), triton.cdiv(width, COLUMNS))](
        gradient, positive, total, rows, width, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=8
    )
    return total


@triton.jit(do_not_specialize=["rows"])
def _cut_kernel(  # type: ignore[no-untyped-def]
    gradient_ptr,  # [rows, width], in and out
    positive_ptr,  # [rows, width]
    total_ptr,  # out [width], zero before
    rows,
    width,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    cell = row[:, None] * width + column[None, :]
    positive = tl.load(positive_ptr + cell, mask=inside, other=0.0) > 0
    gradient = tl.where(positive, tl.load(gradient_ptr + cell, mask=inside, other=0.0), 0.0)
    tl.store(gradient_ptr + cell, gradient, mask=inside)
    tl.atomic_add(total_ptr + column, tl.sum(gradient.to(tl.float32), 0), mask=column < width, sem="relaxed")
