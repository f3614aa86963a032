"""A sum over many states with its gradient, in bounded memory.

Scoring all decisions of all tours at once would keep activations for B x P x S states. But the weight of each
term is known beforehand, so each chunk's gradient can be taken as soon as its value is known; what remains
of a chunk are gradients with respect to the encoding, which is small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Chunk = tuple[slice, slice]  # rows of instances, columns of tours
Term = Callable[[Chunk, tuple[Tensor, ...]], tuple[Tensor, Tensor]]  # -> scalar with gradient, log_prob values


def split(rows: int, columns: int, cost_per_tour: int, budget: int) -> list[Chunk]:
    """Chunks of whole instances, or of some tours of one instance, that cost at most `budget` each if possible."""
    tours = max(1, budget // max(1, cost_per_tour))
    height = max(1, min(rows, tours // columns))
    width = columns if height > 1 or tours >= columns else tours
    return [
        (slice(row, min(row + height, rows)), slice(column, min(column + width, columns)))
        for row in range(0, rows, height)
        for column in range(0, columns, width)
    ]


def sum_in_chunks(term: Term, chunks: Sequence[Chunk], tensors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The sum of `term` over chunks, differentiable in `tensors` (first dimension B), and all values [B, P].

    `term` receives a chunk and the chunk's rows of each tensor.
    """
    wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    exact = torch.promote_types(tensors[0].dtype, torch.float32)
    gradients = [torch.zeros_like(tensor, dtype=exact) for tensor in tensors] if wanted else []
    total = tensors[0].new_zeros((), dtype=exact)
    values = total.new_zeros(tensors[0].shape[0], max(columns.stop for _, columns in chunks))
    for rows, columns in chunks:
        leaves = tuple(tensor[rows].detach().requires_grad_(wanted) for tensor in tensors)
        part, values[rows, columns] = term((rows, columns), leaves)
        if wanted:
            found = torch.autograd.grad(part, leaves, materialize_grads=True)
            for gradient, new in zip(gradients, found, strict=True):
                gradient[rows] += new
        total += part.detach()
    given = [gradient.to(tensor.dtype) for gradient, tensor in zip(gradients, tensors, strict=True)] if wanted else []
    return (with_gradient(total, tensors, given) if wanted else total), values


def with_gradient(value: Tensor, tensors: Sequence[Tensor], gradients: Sequence[Tensor]) -> Tensor:
    """A scalar whose gradient with respect to `tensors` is already known."""
    attached: Tensor = _KnownGradient.apply(value, gradients, *tensors)  # type: ignore[no-untyped-call]
    return attached


class GradientSum:
    """A sum of terms, each differentiated in the same parameters as soon as it is added."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters = [each for each in parameters if each.requires_grad] if torch.is_grad_enabled() else []
        self._gradients = [torch.zeros_like(each) for each in self._parameters]
        self._total = torch.zeros((), dtype=parameters[0].dtype, device=parameters[0].device)

    def add(self, term: Tensor) -> None:
        """One more term: a scalar, with gradient if anything has one."""
        if self._parameters:
            torch._foreach_add_(self._gradients, torch.autograd.grad(term, self._parameters, materialize_grads=True))
        self._total += term.detach()

    def value(self) -> Tensor:
        """The sum of all terms, with its gradient."""
        return with_gradient(self._total, self._parameters, self._gradients) if self._parameters else self._total


class _KnownGradient(torch.autograd.Function):
    """Backward only scales what is already there."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: Sequence[Tensor], *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*gradients)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *(gradient * upstream[0] for gradient in ctx.saved_tensors)
