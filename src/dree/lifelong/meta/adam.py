"""Adam as a function: its step can be differentiated, and several steps can share its moments.

All weights are one flat tensor here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
LEAST = 1e-38  # far below what EPSILON adds; the root of zero has no slope


@dataclass(frozen=True)
class Moments:
    """What Adam remembers of earlier gradients."""

    first: Tensor
    second: Tensor
    steps: int = 0

    @staticmethod
    def none(weights: Tensor) -> Moments:
        """No memory."""
        return Moments(torch.zeros_like(weights), torch.zeros_like(weights))

    def state_dict(self) -> dict[str, Any]:
        """As tensors and plain values."""
        return dict(vars(self))

    @staticmethod
    def from_state(state: Mapping[str, Any], device: torch.device) -> Moments:
        """What `state_dict` gave, on a device."""
        return Moments(state["first"].to(device), state["second"].to(device), state["steps"])


def adam(weights: Tensor, gradient: Tensor, moments: Moments, rate: float, decay: float) -> tuple[Tensor, Moments]:
    """Weights and moments after one more step; both depend on weights and gradient differentiably."""
    gradient = gradient + decay * weights
    steps = moments.steps + 1
    first = BETA1 * moments.first + (1 - BETA1) * gradient
    second = BETA2 * moments.second + (1 - BETA2) * gradient.square()
    scale = (second / (1 - BETA2**steps)).clamp(min=LEAST).sqrt() + EPSILON
    return weights - rate / (1 - BETA1**steps) * first / scale, Moments(first, second, steps)


def descend(weights: Tensor, gradient: Tensor, moments: Moments, rate: float, decay: float) -> tuple[Tensor, Moments]:
    """Weights after a step down the gradient as it is, without decay; the moments hear nothing of it."""
    return weights - rate * gradient, moments
