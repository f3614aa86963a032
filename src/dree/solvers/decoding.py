"""POMO's decoder: from where the vehicle is to a score for every next node.

A decoder first computes what is linear in the nodes, once per instance; a state then only pays for its softmax
and its tanh. Two forms compute the same function. `TableDecoder` tabulates the attention scores of every pair of
nodes and folds values, output projection and pointer into one matrix: best while N is small. `GlimpseDecoder`
keeps the two steps, attention and pointer, apart: its work per state grows with N, not with N squared.

Shapes: B instances, P tours, S states of a tour, X = P * S, N nodes, D width, H heads, d = D / H.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional

TABLE_NODES = 64  # the table form is used up to this many nodes


@dataclass(frozen=True)
class Projections:
    """The nodes as the decoder's linear maps see them."""

    last: Tensor  # [B, N, D] query of the node the vehicle is at
    context: Tensor  # query of the start node [B, N, D] (TSP) or of a full load [B, 1, D] (CVRP)
    keys: Tensor  # [B, N, D]
    values: Tensor  # [B, N, D]
    pointer: Tensor  # [B, N, D] what the attended values are compared with, output projection included
    offset: Tensor  # [B, N] what is added to that


class Decoder(ABC):
    """Scores of the next node, from tensors whose first dimension is B."""

    def __init__(self, heads: int, tensors: tuple[Tensor, ...]) -> None:
        self.heads = heads
        self.tensors = tensors

    def part(self, tensors: tuple[Tensor, ...]) -> Self:
        """The same decoder over other tensors: some rows of its own, or detached ones."""
        return type(self)(self.heads, tensors)

    def context(self, starts_BP: Tensor) -> Tensor:
        """What all states of a tour have in common: its start [B, P, K] (TSP), or nothing but the load [B, 1, K]."""
        table_BNK = self.tensors[1]
        if table_BNK.shape[1] == 1:
            return table_BNK
        return _rows(table_BNK, starts_BP)

    @abstractmethod
    def scores(self, current_BX: Tensor, context: Tensor, load_BX: Tensor | None, mask_BXN: Tensor) -> Tensor:
        """Scores before clipping: [B, X, N].

        Where there is a load (as a share of the capacity), it scales the context. The mask is added to the
        attention scores.
        """


class TableDecoder(Decoder):
    """Attention scores by table, values and pointer folded into one matrix."""

    @staticmethod
    def build(heads: int, nodes: Projections) -> TableDecoder:
        """Tabulate the attention scores of every pair of nodes, and fold."""
        keys = split_heads(nodes.keys, heads).transpose(2, 3) / math.sqrt(nodes.keys.shape[-1] // heads)
        tables = [
            (split_heads(query, heads) @ keys).transpose(1, 2).flatten(2) for query in (nodes.last, nodes.context)
        ]
        fold = split_heads(nodes.values, heads) @ split_heads(nodes.pointer, heads).transpose(2, 3)
        return TableDecoder(heads, (*tables, fold.flatten(1, 2), nodes.offset))

    def scores(self, current_BX: Tensor, context: Tensor, load_BX: Tensor | None, mask_BXN: Tensor) -> Tensor:
        """Two table rows, a softmax for each head, and one product."""
        last, _, fold, offset = self.tensors
        scores: Tensor = _TableScores.apply(  # type: ignore[no-untyped-call]
            last, context, fold, offset, current_BX, load_BX, mask_BXN
        )
        return scores


class GlimpseDecoder(Decoder):
    """Fused attention, then the pointer."""

    @staticmethod
    def build(heads: int, nodes: Projections) -> GlimpseDecoder:
        """Nothing to prepare beyond the projections."""
        tensors = (nodes.last, nodes.context, nodes.keys, nodes.values, nodes.pointer, nodes.offset)
        return GlimpseDecoder(heads, tensors)

    def scores(self, current_BX: Tensor, context: Tensor, load_BX: Tensor | None, mask_BXN: Tensor) -> Tensor:
        """Attend, then point."""
        last, _, keys, values, pointer, offset = self.tensors
        queries = _rows(last, current_BX)
        if load_BX is None:
            by_tour = queries.view(*context.shape[:2], -1, queries.shape[-1])
            queries = (by_tour + context[:, :, None]).flatten(1, 2)
        else:
            queries = queries + load_BX[..., None] * context
        query, key, value = (split_heads(each, self.heads) for each in (queries, keys, values))
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask_BXN[:, None])
        return torch.baddbmm(offset[:, None], attended.transpose(1, 2).flatten(2), pointer.transpose(1, 2))


def make_decoder(heads: int, nodes: Projections) -> Decoder:
    """The faster form for this size."""
    form = TableDecoder if nodes.keys.shape[1] <= TABLE_NODES else GlimpseDecoder
    return form.build(heads, nodes)


def split_heads(nodes_BND: Tensor, heads: int) -> Tensor:
    """[B, N, D] as [B, H, N, d]."""
    return nodes_BND.view(*nodes_BND.shape[:2], heads, -1).transpose(1, 2)


class _TableScores(torch.autograd.Function):
    """Table rows, masked softmax and product as one function with a hand-written gradient.

    The attention scores [B, X, H * N] are by far the largest thing here, and autograd would copy them and their
    gradient once more for each of the additions.
    """

    @staticmethod
    def forward(
        ctx: Any,
        last_BNK: Tensor,
        context: Tensor,
        fold_BKN: Tensor,
        offset_BN: Tensor,
        current_BX: Tensor,
        load_BX: Tensor | None,
        mask_BXN: Tensor,
    ) -> Tensor:
        batch, states, nodes = mask_BXN.shape
        flat = _flat(current_BX, nodes)
        rows = last_BNK.flatten(0, 1).index_select(0, flat).view(batch, states, -1)
        if load_BX is None:
            rows.view(batch, context.shape[1], -1, rows.shape[-1]).add_(context[:, :, None])
        else:
            rows.addcmul_(load_BX[..., None], context)
        attention = rows.view(batch, states, -1, nodes).add_(mask_BXN[:, :, None]).softmax(-1).flatten(2)
        ctx.save_for_backward(attention, fold_BKN, flat, load_BX)
        ctx.context_rows = context.shape[1]
        return torch.baddbmm(offset_BN[:, None], attention, fold_BKN)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        attention, fold_BKN, flat, load_BX = ctx.saved_tensors
        (gradient,) = upstream
        batch, width, nodes = fold_BKN.shape
        to_fold = torch.bmm(attention.transpose(1, 2), gradient)
        to_attention = torch.bmm(gradient, fold_BKN.transpose(1, 2)).view(batch, -1, width // nodes, nodes)
        to_rows = torch._softmax_backward_data(
            to_attention, attention.view_as(to_attention), -1, attention.dtype
        ).flatten(2)
        to_last = torch.ops.aten.embedding_dense_backward(to_rows.flatten(0, 1), flat, batch * nodes, -1, False)
        if load_BX is None:
            to_context = to_rows.view(batch, ctx.context_rows, -1, width).sum(2)
        else:
            to_context = torch.bmm(load_BX[:, None], to_rows)
        return to_last.view(batch, nodes, width), to_context, to_fold, gradient.sum(1), None, None, None


def _rows(table_BNK: Tensor, index_BX: Tensor) -> Tensor:
    """The rows of each instance's table that the index names: [B, X, K]."""
    return table_BNK.flatten(0, 1).index_select(0, _flat(index_BX, table_BNK.shape[1])).view(*index_BX.shape, -1)


def _flat(index_BX: Tensor, nodes: int) -> Tensor:
    """Row numbers in a table of all instances' nodes: [B * X]."""
    offsets = torch.arange(0, len(index_BX) * nodes, nodes, device=index_BX.device)
    return (index_BX + offsets[:, None]).flatten()
