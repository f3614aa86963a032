"""INViT's network: from what is seen of a state to a policy over its slots.

Shapes: R states, A candidates, C = A actions, or A + 1 with the depot, K slots of a policy, D width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from dree.errors import DreeError, unknown
from dree.settings import check_types
from dree.solvers.capture import side_by_side
from dree.solvers.invit_layers import QueryLayer, View
from dree.solvers.invit_views import Scene
from dree.solvers.precision import lowered
from dree.solvers.products import Linear, linear

STARTS = ("one", "all")


@dataclass(frozen=True)
class INViTSettings:
    """The size of the network, and how it is used. The defaults are the original's with two state views."""

    width: int = 128
    heads: int = 8
    feed_forward: int = 512
    layers: int = 2  # of each view's encoder
    decoder_layers: int = 2  # before the pointer
    action_view: int = 15  # candidates
    state_views: tuple[int, ...] = (35, 50)
    clip: float = 10.0
    strict_capacity: bool = False  # as in the original: no customer may fill the vehicle completely
    starts: str = "one"  # tours of an instance: one (from the depot, or from a random node of a TSP), or all
    chunk_bytes: int | None = None  # what is held at once, about; None: what suits the device

    def __post_init__(self) -> None:
        """Refuse sizes that make no network."""
        check_types(self)
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | float) and not isinstance(value, bool) and not 0 < value < math.inf:
                raise DreeError(f"Solver setting '{field.name}' must be positive, not {value}.")
        if self.width % self.heads:
            raise DreeError(f"Solver width {self.width} must be a multiple of its heads, {self.heads}.")
        if self.action_view < 2:
            raise DreeError(f"An action view of {self.action_view} leaves nothing to decide; it needs at least 2.")
        if not self.state_views or min(self.state_views) < self.action_view:
            raise DreeError(
                f"State views must be at least as wide as the action view, {self.action_view}, "
                f"not {list(self.state_views)}."
            )
        if self.starts not in STARTS:
            raise unknown("starts", self.starts, STARTS)


class INViTNetwork(nn.Module):
    """The encoders of all views, and a decoder that points at one of the candidates, or at the depot."""

    def __init__(self, depots: int, settings: INViTSettings) -> None:
        super().__init__()
        self.settings = settings
        self.slots = depots + settings.action_view
        width = settings.width

        def view(size: int, *, anchored: bool) -> View:
            shape = (2 + depots, width, settings.heads, settings.feed_forward, settings.layers)
            return View(size - settings.action_view, *shape, anchored=anchored)

        action = view(settings.action_view, anchored=depots > 0)
        self.views = nn.ModuleList([action, *(view(size, anchored=True) for size in settings.state_views)])
        seen, depth = len(self.views) * width, settings.decoder_layers + 1
        self.query = Linear(2 * seen - (0 if depots else width), width)
        self.keys = Linear(seen, depth * width)
        self.values = Linear(seen, depth * width)  # the last part, the pointer's, is never used, as in the original
        self.decoder = nn.ModuleList(QueryLayer(width, settings.heads) for _ in range(settings.decoder_layers))
        self.pointer = Linear(width, width)

    def forward(self, scene: Scene) -> Tensor:
        """The log-policy at some states: [R, K], minus infinity where an action is not allowed."""
        exact, width = scene.points.dtype, self.settings.width
        actions = scene.closed.shape[1]
        candidates = actions - (scene.amounts is not None)
        with torch.autocast(scene.points.device.type, enabled=False):
            seen = side_by_side([partial(view, scene, candidates) for view in self.views], scene.points.device)
            keys, values = self._project(torch.cat([each[:, -actions:] for each in seen], dim=2))
            query = self.query(torch.cat([each[:, :-candidates].flatten(1) for each in seen], dim=1).to(exact))
            for layer, key, value in zip(self.decoder, keys, values, strict=False):
                query = layer(query, key.to(exact), value.to(exact), scene.closed)
            scores = (self.pointer(query)[:, None] * keys[-1].to(exact)).sum(-1) / math.sqrt(width)
            logits = (self.settings.clip * scores.tanh()).masked_fill(scene.closed, -math.inf)
            return functional.pad(logits.log_softmax(-1), (0, self.slots - actions), value=-math.inf)

    def _project(self, seen_RCE: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Of every action the keys for each layer and for the pointer, and the values for each layer: [R, C, D]."""
        layers = self.settings.decoder_layers
        used = layers * self.settings.width
        values = linear(seen_RCE, self.values.weight[:used], self.values.bias[:used])
        keys: Tensor = self.keys(seen_RCE)
        return keys.chunk(layers + 1, dim=2), values.chunk(layers, dim=2)

    def lowered(self, low: torch.dtype) -> dict[str, Tensor]:
        """The weights whose products are taken in low precision: all but those of points, queries and the pointer."""
        wanted = {
            name: weight
            for name, weight in self.named_parameters()
            if ".layers." in name or name.startswith(("keys.", "values."))
        }
        return dict(zip(wanted, lowered(list(wanted.values()), low), strict=True))

    def state_bytes(self, left: int, element: int) -> int:
        """About what scoring a state with so many customers left holds, in numbers of so many bytes."""
        settings = self.settings
        tokens: int = sum(2 + min(size, left) for size in (settings.action_view, *settings.state_views))
        return tokens * settings.layers * (10 * settings.width + settings.feed_forward) * element
