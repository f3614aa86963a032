"""POMO's decoder: from where the vehicle is to a score for every next node.

A decoder first computes what is linear in the nodes, once per instance; a state then only pays for its softmax
and its tanh. Two forms compute the same function. `TableDecoder` tabulates the attention scores of every pair of
nodes and folds values, output projection and pointer into one matrix: best while N is small. `GlimpseDecoder`
keeps the two steps, attention and pointer, apart: its work per state grows with N, not with N squared.

Shapes: B instances, P tours, S states of a tour, X = P * S, N nodes, D width, H heads, d = D / H.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor
from torch.nn import functional

from dree import kernels
from dree.problems import Instances

KERNEL_NODES = 256  # beyond, a tile of states does not fit in a multiprocessor's registers
TABLE_NODES = 64  # the table form is used up to this many nodes


ENDLESS = (
    "A tour does not end. Either the solver's weights are no longer finite numbers (try a smaller learning rate), or a "
    "demand exceeds the capacity (Instances.validated() says which)."
)


@dataclass(frozen=True)
class Projections:
    """The nodes as the decoder's linear maps see them."""

    last: Tensor  # [B, N, D] query of the node the vehicle is at
    context: Tensor  # query of the start node [B, N, D] (TSP) or of a full load [B, 1, D] (CVRP)
    keys: Tensor  # [B, N, D], scaled
    values: Tensor  # [B, N, D]
    pointer: Tensor  # [B, N, D] what the attended values are compared with, output projection included
    offset: Tensor  # [B, N] what is added to that


class Glimpse(NamedTuple):
    """What a group of states attended to."""

    attention: Tensor  # [B, X, H * N]: the weights of every head
    row: Tensor  # [B, X]: where the vehicle is, as a row of the table of all instances
    load: Tensor | None  # [B, X]: as a share of the capacity


class AnyTape(Protocol):
    """The decisions of a rollout, as they were taken."""

    def score(self, weights_BP: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The log-probability of each tour, and the gradient of their weighted sum for the decoder's tensors."""


class Decoder(ABC):
    """Scores of the next node, from tensors whose first dimension is B."""

    def __init__(self, heads: int, tensors: tuple[Tensor, ...]) -> None:
        self.heads = heads
        self.tensors = tensors
        self.recorded: tuple[Tensor, AnyTape] | None = None  # the actions of a rollout that was recorded, and its tape

    def part(self, tensors: tuple[Tensor, ...]) -> Self:
        """The same decoder over other tensors: some rows of its own, or detached ones."""
        return type(self)(self.heads, tensors)

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same decoder with every tensor changed in the same way."""
        return self.part(tuple(map(change, self.tensors)))

    def __getitem__(self, rows: slice | Tensor) -> Self:
        """The decoder of some instances."""
        return self.map(lambda tensor: tensor[rows])

    def context(self, starts_BP: Tensor) -> Tensor:
        """What all states of a tour have in common: its start [B, P, K] (TSP), or nothing but the load [B, 1, K]."""
        table_BNK = self.tensors[1]
        if table_BNK.shape[1] == 1:
            return table_BNK
        return rows_of(table_BNK, starts_BP)

    @property
    def dtype(self) -> torch.dtype:
        """In which masks and loads are given."""
        return self.tensors[0].dtype

    def rollout(
        self,
        instances: Instances,
        starts_BP: Tensor,
        longest: int,
        clip: float,
        generator: torch.Generator | None,
        *,
        record: bool,
    ) -> tuple[Tensor, tuple[Tensor, AnyTape] | None] | None:
        """Tours of at most `longest` actions, and with `record` these and their tape; None: decide step by step."""
        return None

    def imitate(
        self, instances: Instances, actions_BPT: Tensor, teacher: Decoder, clip: float
    ) -> tuple[Tensor, tuple[Tensor, ...]] | None:
        """How far each tour's policy is from the teacher's, and the gradient of the sum; None: compare policies."""
        return None

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
        tables = [by_head(query, nodes.keys, heads).transpose(1, 2).flatten(2) for query in (nodes.last, nodes.context)]
        fold = by_head(nodes.pointer, nodes.values, heads).transpose(1, 2).flatten(2)
        return TableDecoder(heads, (*tables, fold, nodes.offset))

    def scores(self, current_BX: Tensor, context: Tensor, load_BX: Tensor | None, mask_BXN: Tensor) -> Tensor:
        """Two table rows, a softmax for each head, and one product."""
        last, _, fold, offset = self.tensors
        scores: Tensor = _TableScores.apply(  # type: ignore[no-untyped-call]
            last, context, fold, offset, current_BX, load_BX, mask_BXN
        )
        return scores

    def look(
        self, current_BX: Tensor, context: Tensor, load_BX: Tensor | None, mask_BXN: Tensor
    ) -> tuple[Tensor, Glimpse]:
        """Scores without gradient, and what was attended to."""
        last, _, fold, offset = self.tensors
        glimpse = _look(last, context, current_BX, load_BX, mask_BXN)
        return torch.baddbmm(offset[:, None], glimpse.attention, fold.transpose(1, 2)), glimpse


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
        queries = rows_of(last, current_BX)
        if load_BX is None:
            by_tour = queries.view(*context.shape[:2], -1, queries.shape[-1])
            queries = (by_tour + context[:, :, None]).flatten(1, 2)
        else:
            queries = queries + load_BX[..., None] * context
        query, key, value = (split_heads(each, self.heads) for each in (queries, keys, values))
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask_BXN[:, None], scale=1.0)
        return torch.baddbmm(offset[:, None], attended.transpose(1, 2).flatten(2), pointer.transpose(1, 2))


def kernels_serve(device: torch.device, nodes: int, head_width: int, clip: float) -> bool:
    """Whether there are kernels for such nodes. They take exponentials of scores as they are, up to the clip."""
    return nodes <= KERNEL_NODES and clip <= 20 and kernels.serve(device, head_width)


def make_decoder(heads: int, packed_BNGD: Tensor, load_query_B1D: Tensor, offset_BN: Tensor) -> Decoder:
    """The faster form for this size, from the nodes as `POMO` projects them."""
    last, keys, values, pointer, *start = packed_BNGD.unbind(2)
    nodes = Projections(last, start[0] if start else load_query_B1D, keys, values, pointer, offset_BN)
    form = TableDecoder if packed_BNGD.shape[1] <= TABLE_NODES else GlimpseDecoder
    return form.build(heads, nodes)


def split_heads(nodes_BND: Tensor, heads: int) -> Tensor:
    """[B, N, D] as [B, H, N, d]."""
    return nodes_BND.view(*nodes_BND.shape[:2], heads, -1).transpose(1, 2)


def by_head(left_BMD: Tensor, right_BND: Tensor, heads: int) -> Tensor:
    """The inner products of every pair of rows, for each head: [B, H, M, N]."""
    left, right = split_heads(left_BMD, heads), split_heads(right_BND, heads)
    product: Tensor = _InnerProducts.apply(left, right)  # type: ignore[no-untyped-call]
    return product


class _InnerProducts(torch.autograd.Function):
    """Batched products of [B, H, M, d] and [B, H, N, d], all contiguous: else each matrix is multiplied alone."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        flat = [each.contiguous().flatten(0, 1) for each in (left, right)]
        ctx.save_for_backward(*flat)
        return torch.bmm(flat[0], flat[1].transpose(1, 2)).view(*left.shape[:3], right.shape[2])

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor]:
        left, right = ctx.saved_tensors
        batch = upstream[0].shape[:2]
        gradient = upstream[0].contiguous().flatten(0, 1)
        to_left, to_right = torch.bmm(gradient, right), torch.bmm(gradient.transpose(1, 2), left)
        return to_left.view(*batch, *to_left.shape[1:]), to_right.view(*batch, *to_right.shape[1:])


class TableGradients:
    """The gradient of table scores, summed over groups of states."""

    def __init__(self, last_BNK: Tensor, context_BCK: Tensor, fold_BNK: Tensor, offset_BN: Tensor) -> None:
        self.fold_BNK = fold_BNK
        self.to_last = torch.zeros_like(last_BNK)
        self.to_context = torch.zeros_like(context_BCK)
        self.to_fold = torch.zeros_like(fold_BNK)
        self.to_offset = torch.zeros_like(offset_BN)

    def add(self, glimpse: Glimpse, gradient_BXN: Tensor) -> None:
        """Add the gradient of states whose scores have this gradient."""
        attention = glimpse.attention
        batch, nodes = self.to_offset.shape
        self.to_offset += gradient_BXN.sum(1)
        self.to_fold.baddbmm_(gradient_BXN.transpose(1, 2), attention)
        to_attention = torch.bmm(gradient_BXN, self.fold_BNK).view(batch, attention.shape[1], -1, nodes)
        to_rows = torch._softmax_backward_data(
            to_attention, attention.view_as(to_attention), -1, attention.dtype
        ).flatten(2)
        self.to_last.flatten(0, 1).index_add_(0, glimpse.row.flatten(), to_rows.flatten(0, 1))
        if glimpse.load is not None:
            self.to_context.baddbmm_(glimpse.load[:, None], to_rows)
        elif self.to_context.shape == to_rows.shape:
            self.to_context += to_rows
        else:
            self.to_context += to_rows.view(batch, self.to_context.shape[1], -1, to_rows.shape[-1]).sum(2)


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
        fold_BNK: Tensor,
        offset_BN: Tensor,
        current_BX: Tensor,
        load_BX: Tensor | None,
        mask_BXN: Tensor,
    ) -> Tensor:
        glimpse = _look(last_BNK, context, current_BX, load_BX, mask_BXN)
        ctx.save_for_backward(*glimpse, last_BNK, context, fold_BNK, offset_BN)
        return torch.baddbmm(offset_BN[:, None], glimpse.attention, fold_BNK.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        attention, row, load, *tensors = ctx.saved_tensors
        total = TableGradients(*tensors)
        total.add(Glimpse(attention, row, load), upstream[0])
        return total.to_last, total.to_context, total.to_fold, total.to_offset, None, None, None


def _look(last_BNK: Tensor, context: Tensor, current_BX: Tensor, load_BX: Tensor | None, mask_BXN: Tensor) -> Glimpse:
    """Add up two table rows for every state, and take the softmax for each head."""
    batch, states, nodes = mask_BXN.shape
    row_BX = _flat(current_BX, nodes)
    scores = last_BNK.flatten(0, 1).index_select(0, row_BX.flatten()).view(batch, states, -1)
    if load_BX is None:
        scores.view(batch, context.shape[1], -1, scores.shape[-1]).add_(context[:, :, None])
    else:
        scores.addcmul_(load_BX[..., None], context)
    attention = scores.view(batch, states, -1, nodes).add_(mask_BXN[:, :, None]).softmax(-1)
    return Glimpse(attention.flatten(2), row_BX, load_BX)


def rows_of(table_BNK: Tensor, index_BX: Tensor) -> Tensor:
    """The rows of each instance's table that the index names: [B, X, K]."""
    rows = _flat(index_BX, table_BNK.shape[1]).flatten()
    return table_BNK.flatten(0, 1).index_select(0, rows).view(*index_BX.shape, -1)


def _flat(index_BX: Tensor, nodes: int) -> Tensor:
    """Row numbers in a table of all instances' nodes."""
    offsets = torch.arange(0, len(index_BX) * nodes, nodes, device=index_BX.device)
    return index_BX + offsets[:, None]
