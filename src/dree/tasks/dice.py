"""Random numbers for a batch of instances, all from one generator and on its device.

Shapes: B instances; every draw has the shape [B, *shape].
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Dice:
    """Draws for `batch` instances at once."""

    batch: int
    generator: torch.Generator

    @property
    def device(self) -> torch.device:
        """Where the numbers are drawn."""
        return self.generator.device

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        """Uniform on [low, high)."""
        unit = torch.rand((self.batch, *shape), generator=self.generator, device=self.device)
        return low + (high - low) * unit

    def normal(self, *shape: int, mean: float = 0.0, std: float = 1.0) -> Tensor:
        """Normal with this mean and standard deviation."""
        unit = torch.randn((self.batch, *shape), generator=self.generator, device=self.device)
        return mean + std * unit

    def exponential(self, *shape: int, rate: float) -> Tensor:
        """Exponential with mean 1 / rate."""
        empty = torch.empty((self.batch, *shape), device=self.device)
        return empty.exponential_(rate, generator=self.generator)

    def integers(self, *shape: int, low: int, high: int) -> Tensor:
        """Uniform on {low, ..., high}, int64."""
        size = (self.batch, *shape)
        return torch.randint(low, high + 1, size, generator=self.generator, device=self.device)

    def coin(self, *shape: int) -> Tensor:
        """True or False, equally likely."""
        return self.uniform(*shape) < 0.5

    def parts(self, count: int, size: int) -> Tensor:
        """The first `size` of the numbers below `count` in a random order, none of them twice: [B, size] int64."""
        # In double precision, for in single some of the keys would be equal.
        shape = (self.batch, count)
        keys = torch.rand(shape, generator=self.generator, device=self.device, dtype=torch.float64)
        return keys.argsort(dim=1, stable=True)[:, :size]
