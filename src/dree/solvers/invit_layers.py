"""INViT's building blocks: the encoder of one view, and one layer of the decoder.

Shapes: R states, V places, L tokens of a view, M of them kept, C actions, D width, H heads, d = D / H.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from dree.solvers.invit_views import Scene

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
        mask = self._mask(scene, tokens)
        for layer in self.layers[:-1]:
            tokens = layer(tokens, mask, tokens.shape[1])
        # Nobody looks at what the last layer makes of the other places.
        encoded: Tensor = self.layers[-1](tokens, mask, 1 + self.anchored + candidates)
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

    def _mask(self, scene: Scene, tokens_RLD: Tensor) -> Tensor:
        """Minus infinity where a token is empty, else nought: [R, 1, 1, L]."""
        states, length, _ = tokens_RLD.shape
        before = 1 + self.anchored
        mask = tokens_RLD.new_zeros(states, -(-length // 8) * 8)  # rows as fused attention wants them
        mask[:, before:length].masked_fill_(scene.empty[:, : length - before], -math.inf)
        return mask[:, None, None, :length]


class ViewLayer(nn.Module):
    """Self-attention and a feed-forward block; the attention has a residual and a norm of its own, then another."""

    def __init__(self, width: int, heads: int, feed_forward: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.combine = nn.Linear(width, width, bias=False)
        self.norm_attention = nn.LayerNorm(width, eps=1e-6)
        self.norm1 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, feed_forward)
        self.contract = nn.Linear(feed_forward, width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, tokens_RLD: Tensor, mask: Tensor, kept: int) -> Tensor:
        """The first `kept` tokens after this layer: [R, M, D]."""
        kept_RMD = tokens_RLD[:, :kept]
        attended = self.combine(self._attend(tokens_RLD, mask, kept))
        once = self.norm_attention(attended + kept_RMD)
        twice = self.norm1(kept_RMD + once)
        changed: Tensor = self.norm2(twice + self.contract(functional.relu(self.expand(twice))))
        return changed

    def _attend(self, tokens_RLD: Tensor, mask: Tensor, kept: int) -> Tensor:
        """What the kept tokens see in all that the mask leaves: [R, M, D]."""
        width = tokens_RLD.shape[2]
        if kept == tokens_RLD.shape[1]:
            query, key, value = self.query_key_value(tokens_RLD).chunk(3, dim=2)
        else:
            of_query, of_others = self.query_key_value.weight.tensor_split([width])
            query = functional.linear(tokens_RLD[:, :kept], of_query)
            key, value = functional.linear(tokens_RLD, of_others).chunk(2, dim=2)
        query, key, value = (_by_head(part, self.heads).transpose(1, 2) for part in (query, key, value))
        scale = 1 / math.sqrt(width)  # of the whole width, as in the original
        with sdpa_kernel(ATTENTION):
            attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)
        return attended.transpose(1, 2).flatten(2)


class QueryLayer(nn.Module):
    """One query looks at the actions, then a feed-forward block; each with a residual and a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.combine = nn.Linear(width, width)
        self.norm1 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, width)
        self.contract = nn.Linear(width, width)
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


def _by_head(tokens_RLD: Tensor, heads: int) -> Tensor:
    """Every token in parts, one for each head: [R, L, H, d]."""
    return tokens_RLD.view(*tokens_RLD.shape[:2], heads, -1)
