"""A network's weights, and their gradient, as one tensor each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dree.errors import DreeError

ALIGNMENT = 64  # elements: every weight begins where matrix products like it


class FlatParameters:
    """All weights of a module in one tensor, of which the module's own become views; and likewise their gradients.

    So whatever is done to all weights at once, such as a step of the optimiser, is done once.
    """

    def __init__(self, module: nn.Module) -> None:
        self.parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        sizes = [-(-parameter.numel() // ALIGNMENT) * ALIGNMENT for parameter in self.parameters]
        self._begins = [sum(sizes[:index]) for index in range(len(sizes))]
        first = self.parameters[0]
        self.weights = nn.Parameter(torch.zeros(sum(sizes), dtype=first.dtype, device=first.device))
        self.weights.grad = self.gradient = torch.zeros_like(self.weights)
        gradients = self.views(self.gradient)
        for parameter, weights, gradient in zip(
            self.parameters, self.views(self.weights.detach()), gradients, strict=True
        ):
            weights.copy_(parameter.detach())
            parameter.data = weights
            parameter.grad = gradient
        self._places = [
            (parameter, parameter.data_ptr(), gradient.data_ptr())
            for parameter, gradient in ((self.parameters[at], gradients[at]) for at in (0, -1))
        ]

    def views(self, flat: Tensor) -> list[Tensor]:
        """The part of a flat tensor that belongs to each parameter, in its shape."""
        return [
            flat[begin : begin + parameter.numel()].view(parameter.shape)
            for begin, parameter in zip(self._begins, self.parameters, strict=True)
        ]

    def gather(self, tensors: Sequence[Tensor | None], flat: Tensor) -> None:
        """Write tensors in the parameters' shapes into a flat one; where there is none, it stays as it was."""
        there = [(place, tensor) for place, tensor in zip(self.views(flat), tensors, strict=True) if tensor is not None]
        torch._foreach_copy_([place for place, _ in there], [tensor.contiguous() for _, tensor in there])

    def gradient_of(self, value: Tensor) -> Tensor:
        """The gradient of a scalar for all weights, as a flat tensor."""
        flat = torch.zeros_like(self.gradient)
        self.gather(torch.autograd.grad(value, self.parameters, allow_unused=True), flat)
        return flat

    def clear_gradient(self) -> None:
        """Set the gradient to zero, in place: the parameters' are views of it."""
        for parameter, weights, gradient in self._places:
            own = parameter.grad
            if parameter.data_ptr() != weights or own is None or own.data_ptr() != gradient:
                raise DreeError(
                    "The solver's weights or gradients are no longer those its learner was made with. Move or convert "
                    "a solver before it is given to a learner, give it to one only, and leave zero_grad to that."
                )
        self.gradient.zero_()
