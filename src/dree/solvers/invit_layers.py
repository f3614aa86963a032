"""INViT's building blocks: the encoder of one view, and one layer of the decoder.

Shapes: R states, V places, L tokens of a view, M of them kept, C actions, D width, H heads, d = D / H.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from dree import kernels
from dree.solvers.invit_views import Scene
from dree.solvers.layers import ATTENTION_NODES
from dree.solvers.products import Linear, linear

# Not cuDNN's, which prepares itself for every new shape: views shrink as a tour ends, and tasks drift in size.
ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
FURTHEST = 1000.0  # in half the bits, at most so many sides of a view away: beyond, numbers are no longer finite


class View(nn.Module):
    """Encodes what is near: the vehicle's place, an anchor (where it has one), and places from near to far.

    It moves and scales all of them together, so that the vehicle and the places just fit in the unit square.
    """

    def __init__(
        self, others: int, features: int, width: int, heads: int, feed_forward: int, layers: int, *, anchored: bool
    ) -> None:
        super().__init__()
        self.others = others  # places beside the candidates
        self.anchored = anchored
        self.embed = nn.Linear(features, width)
        self.embed_last = nn.Linear(features, width)
        if anchored:
            self.embed_anchor = nn.Linear(2, width)
        self.layers = nn.ModuleList(ViewLayer(width, heads, feed_forward) for _ in range(layers))

    def forward(self, scene: Scene, candidates: int) -> Tensor:
        """The vehicle, the anchor and the candidates as encoded: [R, M, D]."""
        tokens = self._tokens(scene, candidates + self.others)
        before = 1 + self.anchored
        empty = functional.pad(scene.empty[:, : tokens.shape[1] - before], (before, 0))
        for layer in self.layers[:-1]:
            tokens = layer(tokens, empty, tokens.shape[1])
        # Nobody looks at what the last layer makes of the other places.
        encoded: Tensor = self.layers[-1](tokens, empty, before + candidates)
        return encoded

    def _tokens(self, scene: Scene, places: int) -> Tensor:
        """All tokens as embedded: [R, L, D]."""
        points, anchor = scene.points[:, : 1 + places], scene.anchor[:, None]
        corner = points.amin(1, keepdim=True)
        side = (points.amax(1, keepdim=True) - corner).amax(2, keepdim=True)
        side = side.masked_fill(side == 0, 1)
        points, anchor = (points - corner) / side, (anchor - corner) / side
        layer = self.layers[0]
        assert isinstance(layer, ViewLayer)
        exact = layer.query_key_value.weight.dtype
        if scene.amounts is None:
            anchor = anchor.clamp(0, 1)  # the other points are inside already
        else:
            if exact == torch.float16:
                anchor = anchor.clamp(-FURTHEST, FURTHEST)
            points = torch.cat([points, scene.amounts[:, : 1 + places]], dim=2)
        parts = [self.embed_last(points[:, :1]), self.embed(points[:, 1:])]
        if self.anchored:
            parts.insert(1, self.embed_anchor(anchor))
        return torch.cat(parts, dim=1).to(exact)


class ViewLayer(nn.Module):
    """Self-attention and a feed-forward block; the attention has a residual and a norm of its own, then another."""

    def __init__(self, width: int, heads: int, feed_forward: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = Linear(width, 3 * width, bias=False)
        self.combine = Linear(width, width, bias=False)
        self.norm_attention = nn.LayerNorm(width, eps=1e-6)
        self.norm1 = nn.LayerNorm(width)
        self.expand = Linear(width, feed_forward)
        self.contract = Linear(feed_forward, width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, tokens_RLD: Tensor, empty_RL: Tensor, kept: int) -> Tensor:
        """The first `kept` tokens after this layer: [R, M, D]."""
        kept_RMD = tokens_RLD[:, :kept]
        attended = self.combine(self._attend(tokens_RLD, empty_RL, kept))
        twice = _residual_norm(kept_RMD, attended, self.norm_attention, self.norm1)
        return _residual_norm(twice, self.contract(functional.relu(self.expand(twice))), self.norm2)

    def _attend(self, tokens_RLD: Tensor, empty_RL: Tensor, kept: int) -> Tensor:
        """What the kept tokens see in all that are not empty: [R, M, D]."""
        width = tokens_RLD.shape[2]
        scale = 1 / math.sqrt(width)  # of the whole width, as in the original
        if kept == tokens_RLD.shape[1]:
            return _attention(self.query_key_value(tokens_RLD), None, empty_RL, self.heads, scale)
        of_query, of_others = self.query_key_value.weight.tensor_split([width])
        query = linear(tokens_RLD[:, :kept], of_query)
        return _attention(linear(tokens_RLD, of_others), query, empty_RL, self.heads, scale)


def _attention(joint: Tensor, query_RMD: Tensor | None, empty_RL: Tensor, heads: int, scale: float) -> Tensor:
    """Multi-head attention to tokens that are not empty: [R, M, D].

    Queries, keys and values are side by side, [R, L, 3 D], or only keys and values, where queries are given.
    """
    width = joint.shape[2] // (3 if query_RMD is None else 2)
    if joint.shape[1] <= ATTENTION_NODES and _kernels_serve(joint, width // heads):
        from dree.kernels.attention import attend

        return attend(joint, heads, query_BMD=query_RMD, empty_BN=empty_RL, scale=scale)
    queries = () if query_RMD is None else (query_RMD,)
    parts = (*queries, *joint.chunk(3 - len(queries), dim=2))
    query, key, value = (_by_head(part, heads).transpose(1, 2) for part in parts)
    mask = torch.zeros_like(empty_RL, dtype=joint.dtype).masked_fill_(empty_RL, -math.inf)[:, None, None]
    with sdpa_kernel(ATTENTION):
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)
    return attended.transpose(1, 2).flatten(2)


def _residual_norm(x_RMD: Tensor, y_RMD: Tensor, first: nn.LayerNorm, second: nn.LayerNorm | None = None) -> Tensor:
    """The sum of two tensors, normed; with a second norm, added to the first tensor and normed once more."""
    if _kernels_serve(x_RMD):
        from dree.kernels.layer_norm import residual_norm

        return residual_norm(x_RMD, y_RMD, first, second)
    once: Tensor = first(x_RMD + y_RMD)
    return once if second is None else second(x_RMD + once)


class QueryLayer(nn.Module):
    """One query looks at the actions, then a feed-forward block; each with a residual and a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = Linear(width, width)
        self.combine = Linear(width, width)
        self.norm1 = nn.LayerNorm(width)
        self.expand = Linear(width, width)
        self.contract = Linear(width, width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, query_RD: Tensor, key_RCD: Tensor, value_RCD: Tensor, closed_RC: Tensor) -> Tensor:
        """The query after this layer: [R, D]."""
        key, value = _by_head(key_RCD, self.heads), _by_head(value_RCD, self.heads)
        query = _by_head(self.query(query_RD)[:, None], self.heads)
        scores = (query * key).sum(-1) / math.sqrt(key.shape[-1])
        weights = scores.masked_fill(closed_RC[..., None], -math.inf).softmax(1)
        attended = (weights[..., None] * value).sum(1).flatten(1)
        query_RD = self.norm1(query_RD + self.combine(attended))
        changed: Tensor = self.norm2(query_RD + self.contract(functional.relu(self.expand(query_RD))))
        return changed


def _kernels_serve(tokens: Tensor, head_width: int = 16) -> bool:
    """Not in double precision: kernels compute in single."""
    return tokens.dtype != torch.float64 and kernels.serve(tokens.device, head_width)


def _by_head(tokens_RLD: Tensor, heads: int) -> Tensor:
    """Every token in parts, one for each head: [R, L, H, d]."""
    return tokens_RLD.view(*tokens_RLD.shape[:2], heads, -1)
