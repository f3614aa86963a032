"""A scenario and a law of your own. docs/own-scenario.md goes through them.

dree run --preset demo --scenario examples.own_scenario.ThereAndBack
"""

import torch

from dree.tasks import DriftStream, Law, SyntheticTask


class ThereAndBack(DriftStream):
    """A drift through all tasks that turns round halfway and comes back."""

    def task(self, t: int) -> SyntheticTask:
        """Twice as fast as a drift: up to the last task, then back to the first."""
        return super().task(min(2 * t, 2 * (self.epochs - t)))


class Road(Law):
    """Customers along a road across the map; who lives far from the depot orders more."""

    title = "Road"
    size = 30

    def draw(
        self,
        batch: int,
        n: int,
        generator: torch.Generator,
        depot_B2: torch.Tensor | None = None,
        spec: str = "text",
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Nodes near a level line, demands from 1 to 9."""
        along = torch.rand(batch, n, generator=generator, device=generator.device)
        level = torch.rand(batch, 1, generator=generator, device=generator.device)
        beside = torch.randn(batch, n, generator=generator, device=generator.device)
        coords = torch.stack([along, (level + 0.02 * beside).clamp(0, 1)], dim=-1)
        if depot_B2 is None:
            return coords, None
        distance = (coords - depot_B2[:, None]).norm(dim=-1)
        return coords, 1 + (8 * distance / 2**0.5).round().long()
