"""INViT's encoding, which is next to nothing: neighbours in order, and how policies are computed from then on.

Shapes: B instances, N nodes, M nodes of a sorted list, R states, K slots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from dree.solvers.invit_network import INViTNetwork
from dree.solvers.invit_views import Scene


@dataclass(frozen=True)
class Neighbours:
    """What INViT knows of instances before any decision; it also says which network goes on, and how exactly."""

    order: Tensor  # [B, N, M]: from each node, the customers from near to far
    network: INViTNetwork
    low: torch.dtype | None  # the precision of the views' products; None: that of the weights

    def map(self, change: Callable[[Tensor], Tensor]) -> Neighbours:
        """The same with every tensor changed in the same way."""
        return Neighbours(change(self.order), self.network, self.low)

    def __getitem__(self, rows: slice | Tensor) -> Neighbours:
        """Those of some instances."""
        return self.map(lambda tensor: tensor[rows])

    def weights(self) -> dict[str, Tensor]:
        """The weights in low precision, where one is wanted."""
        return {} if self.low is None else self.network.lowered(self.low)

    def policy(self, scene: Scene, weights: dict[str, Tensor] | None = None) -> Tensor:
        """The log-policy at some states [R, K], with gradient unless weights are given that have none."""
        weights = self.weights() if weights is None else weights
        policy: Tensor = functional_call(self.network, weights, scene) if weights else self.network(scene)
        return policy

    def policies(self, scenes: Sequence[Scene]) -> list[Tensor]:
        """The log-policies of several scenes. For their gradients they are computed again, as all would not fit."""
        if len(scenes) == 1 or not torch.is_grad_enabled():
            return [self.policy(scene) for scene in scenes]
        return [checkpoint(self.policy, scene, use_reentrant=False, preserve_rng_state=False) for scene in scenes]
