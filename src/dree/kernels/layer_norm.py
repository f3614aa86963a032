"""Residual and layer norm in one kernel each way, once or twice: a program takes some tokens after others.

    once:   norm(x + y)
    twice:  norm'(x + norm(x + y)), as a view's encoder has it after its attention

Nothing is kept for the gradient but x and y.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

ROWS = 16  # tokens of a program at a time
PROGRAMS = 2048  # at most so many add up the gradients of gains and biases


def residual_norm(x_RMD: Tensor, y_RMD: Tensor, first: nn.LayerNorm, second: nn.LayerNorm | None = None) -> Tensor:
    """The sum of two tensors, each token of it standardised; with a second norm, added to x and so once more.

    The first tensor may be the first tokens of a longer one.
    """
    norms = [norm for norm in (first, second) if norm is not None]
    parameters = [parameter for norm in norms for parameter in (norm.weight, norm.bias)]
    normed: Tensor = _ResidualNorm.apply(x_RMD, y_RMD, [norm.eps for norm in norms], *parameters)  # type: ignore[no-untyped-call]
    return normed


class _ResidualNorm(torch.autograd.Function):
    """Everything in single precision, whatever that of the tensors."""

    @staticmethod
    def forward(ctx: Any, x_RMD: Tensor, y_RMD: Tensor, epsilons: list[float], *parameters: Tensor) -> Tensor:
        if x_RMD.stride()[1:] != (x_RMD.shape[2], 1):
            x_RMD = x_RMD.contiguous()
        y_RMD = y_RMD.contiguous()
        out, ctx.epsilons = torch.empty_like(y_RMD), epsilons
        ctx.save_for_backward(x_RMD, y_RMD, *parameters)
        _forward_kernel[(_blocks(out),)](out, *_inputs(x_RMD, y_RMD, parameters), **_shape(x_RMD, epsilons))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        x_RMD, y_RMD, *parameters = ctx.saved_tensors
        to_y = torch.empty_like(y_RMD)
        to_x = to_y if len(parameters) == 2 else torch.empty_like(y_RMD)
        programs = min(PROGRAMS, _blocks(y_RMD))
        partial = torch.empty(programs, len(parameters), y_RMD.shape[2], device=y_RMD.device)
        _backward_kernel[(programs,)](
            upstream[0].contiguous(),
            to_x,
            to_y,
            partial,
            *_inputs(x_RMD, y_RMD, parameters),
            **_shape(x_RMD, ctx.epsilons),
        )
        to_parameters = (total.to(of.dtype) for total, of in zip(partial.sum(0), parameters, strict=True))
        return to_x, to_y, None, *to_parameters


def _blocks(tokens_RMD: Tensor) -> int:
    return max(1, -(-tokens_RMD.shape[0] * tokens_RMD.shape[1] // ROWS))


def _inputs(x_RMD: Tensor, y_RMD: Tensor, parameters: Any) -> tuple[Any, ...]:
    """What both kernels read: the tensors, gains and biases (the first again, where there is no second), and sizes."""
    states, tokens, width = x_RMD.shape
    gains_and_biases = (*parameters, *parameters)[:4]
    return x_RMD, y_RMD, *gains_and_biases, states * tokens, tokens, x_RMD.stride(0), width


def _shape(x_RMD: Tensor, epsilons: list[float]) -> dict[str, Any]:
    return {
        "EPSILON": epsilons[0],
        "SECOND": None if len(epsilons) == 1 else epsilons[1],
        "ROWS": ROWS,
        "WIDTH": triton.next_power_of_2(x_RMD.shape[2]),
    }


@triton.jit
def _cells(block, rows, tokens, stride, width, ROWS: tl.constexpr, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    """Where some tokens are in x and in y, and which of them exist: each [ROWS, WIDTH]."""
    row = block * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, WIDTH)
    in_x = (row // tokens).to(tl.int64) * stride + row % tokens * width
    in_y = row.to(tl.int64) * width
    inside = (row < rows)[:, None] & (lane < width)[None, :]
    return in_x[:, None] + lane[None, :], in_y[:, None] + lane[None, :], inside


@triton.jit
def _standardised(total, inside, width, EPSILON: tl.constexpr):  # type: ignore[no-untyped-def]
    """Every row with zero mean and unit variance, and by what it was multiplied."""
    centred = tl.where(inside, total - (tl.sum(total, 1) / width)[:, None], 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 1) / width + EPSILON)
    return centred * scale[:, None], scale


@triton.jit
def _to_total(upstream, normed, scale, gain, width):  # type: ignore[no-untyped-def]
    """The gradient of what was standardised, given that of what came of it."""
    upstream = upstream * gain[None, :]
    level, slope = tl.sum(upstream, 1) / width, tl.sum(upstream * normed, 1) / width
    return (upstream - level[:, None] - normed * slope[:, None]) * scale[:, None]


@triton.jit(do_not_specialize=["rows", "tokens"])
def _forward_kernel(  # type: ignore[no-untyped-def]
    out_ptr,  # [R, M, D]
    x_ptr,  # [R, M, D], states being apart by the stride
    y_ptr,  # [R, M, D]
    gain_ptr,
    bias_ptr,
    second_gain_ptr,
    second_bias_ptr,
    rows,
    tokens,
    stride,
    width,
    EPSILON: tl.constexpr,
    SECOND: tl.constexpr,  # the second norm's epsilon, or None
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    in_x, in_y, inside = _cells(tl.program_id(0), rows, tokens, stride, width, ROWS, WIDTH)
    lane = tl.arange(0, WIDTH)
    wide = lane < width
    x = tl.load(x_ptr + in_x, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + in_y, mask=inside, other=0.0).to(tl.float32)
    gain = tl.load(gain_ptr + lane, mask=wide, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + lane, mask=wide, other=0.0).to(tl.float32)
    normed, _ = _standardised(x + y, inside, width, EPSILON)
    out = normed * gain[None, :] + bias[None, :]
    if SECOND is not None:
        gain = tl.load(second_gain_ptr + lane, mask=wide, other=0.0).to(tl.float32)
        bias = tl.load(second_bias_ptr + lane, mask=wide, other=0.0).to(tl.float32)
        normed, _ = _standardised(x + out, inside, width, SECOND)
        out = normed * gain[None, :] + bias[None, :]
    tl.store(out_ptr + in_y, out.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["rows", "tokens"])
def _backward_kernel(  # type: ignore[no-untyped-def]
    upstream_ptr,  # [R, M, D]
    to_x_ptr,  # out [R, M, D]; with one norm it is the same as the next
    to_y_ptr,  # out [R, M, D]
    partial_ptr,  # out [programs, 2 or 4, D]: to gains and biases
    x_ptr,
    y_ptr,
    gain_ptr,
    bias_ptr,
    second_gain_ptr,
    second_bias_ptr,
    rows,
    tokens,
    stride,
    width,
    EPSILON: tl.constexpr,
    SECOND: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    lane = tl.arange(0, WIDTH)
    wide = lane < width
    gain = tl.load(gain_ptr + lane, mask=wide, other=0.0).to(tl.float32)
    to_gain = tl.zeros((WIDTH,), tl.float32)
    to_bias = tl.zeros((WIDTH,), tl.float32)
    to_second_gain = tl.zeros((WIDTH,), tl.float32)
    to_second_bias = tl.zeros((WIDTH,), tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0)):
        in_x, in_y, inside = _cells(block, rows, tokens, stride, width, ROWS, WIDTH)
        x = tl.load(x_ptr + in_x, mask=inside, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + in_y, mask=inside, other=0.0).to(tl.float32)
        upstream = tl.load(upstream_ptr + in_y, mask=inside, other=0.0).to(tl.float32)
        normed, scale = _standardised(x + y, inside, width, EPSILON)
        if SECOND is not None:
            bias = tl.load(bias_ptr + lane, mask=wide, other=0.0).to(tl.float32)
            second_gain = tl.load(second_gain_ptr + lane, mask=wide, other=0.0).to(tl.float32)
            total = x + normed * gain[None, :] + bias[None, :]
            second, second_scale = _standardised(total, inside, width, SECOND)
            to_second_gain += tl.sum(upstream * second, 0)
            to_second_bias += tl.sum(upstream, 0)
            upstream = _to_total(upstream, second, second_scale, second_gain, width)
        to_gain += tl.sum(upstream * normed, 0)
        to_bias += tl.sum(upstream, 0)
        to_y = _to_total(upstream, normed, scale, gain, width)
        tl.store(to_y_ptr + in_y, to_y.to(to_y_ptr.dtype.element_ty), mask=inside)
        if SECOND is not None:
            to_x = to_y + upstream
            tl.store(to_x_ptr + in_y, to_x.to(to_x_ptr.dtype.element_ty), mask=inside)
    if SECOND is not None:
        partial_ptr += tl.program_id(0) * 4 * width + lane
        tl.store(partial_ptr + 2 * width, to_second_gain, mask=wide)
        tl.store(partial_ptr + 3 * width, to_second_bias, mask=wide)
    else:
        partial_ptr += tl.program_id(0) * 2 * width + lane
    tl.store(partial_ptr, to_gain, mask=wide)
    tl.store(partial_ptr + width, to_bias, mask=wide)
