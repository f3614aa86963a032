"""A network's weights, and their gradient, as one tensor each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

ALIGNMENT = 64  # elements: every weight begins where matrix products like it


class FlatParameters:
    """All weights of a module in one tensor, of which the module's own become views; and likewise their gradients.

    So whatever is done to all weights at once, such as a step of the optimiser, is done once.
    """

    def __init__(self, module: nn.Module) -> None:
        self.parameters = list(module.parameters())
        sizes = [-(-parameter.numel() // ALIGNMENT) * ALIGNMENT for parameter in self.parameters]
        self._begins = [sum(sizes[:index]) for index in range(len(sizes))]
        first = self.parameters[0]
        self.weights = nn.Parameter(torch.zeros(sum(sizes), dtype=first.dtype, device=first.device))
        self.weights.grad = torch.zeros_like(self.weights)
        gradients = self.views(self.weights.grad)
        for parameter, weights, gradient in zip(
            self.parameters, self.views(self.weights.detach()), gradients, strict=True
        ):
            weights.copy_(parameter.detach())
            parameter.data = weights
            parameter.grad = gradient

    def views(self, flat: Tensor) -> list[Tensor]:
        """The part of a flat tensor that belongs to each parameter, in its shape."""
        return [
            flat[begin : begin + parameter.numel()].view(parameter.shape)
            for begin, parameter in zip(self._begins, self.parameters, strict=True)
        ]

    def gather(self, tensors: Sequence[Tensor], flat: Tensor) -> None:
        """Write tensors in the parameters' shapes into a flat one."""
        torch._foreach_copy_(self.views(flat), [tensor.contiguous() for tensor in tensors])

    def clear_gradient(self) -> None:
        """Set the gradient to zero, in place: the parameters' are views of it."""
        assert self.weights.grad is not None
        self.weights.grad.zero_()
