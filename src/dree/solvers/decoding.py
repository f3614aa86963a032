"""POMO's decoder: from where the vehicle is to a score for every next node.

A decoder first computes what is linear in the nodes, once per instance; a state then only pays for its attention, its
softmax and its tanh. `GlimpseDecoder` does so with the operations of PyTorch, for any number of states at once and
with gradient. Others derive whole tours and their gradient from the same nodes by kernels: `CompiledDecoder` on a CPU,
`KernelDecoder` on CUDA devices.

Shapes: B instances, P tours, S states of a tour, X = P * S, N nodes, G groups of them, D width, H heads, d = D / H.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol, Self

import torch
from torch import Tensor
from torch.nn import functional

from dree import compiled, kernels
from dree.problems import Instances

KERNEL_NODES = 256  # beyond, a tile of states does not fit in a multiprocessor's registers
SMALL = 2_000_000  # instances times nodes cubed: PyTorch's operations are done with that before kernels are loaded

ENDLESS = (
    "A tour does not end. Either the solver's weights are no longer finite numbers (try a smaller learning rate), or a "
    "coordinate is none, or a demand exceeds the capacity (Instances.validated() says which)."
)


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
        """What all states of a tour have in common, as `scores` wants it: here its start."""
        return starts_BP

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

    def score(
        self, instances: Instances, actions_BPT: Tensor, weights_BP: Tensor, clip: float
    ) -> tuple[Tensor, tuple[Tensor, ...]] | None:
        """The log-probability of each tour, and the gradient of their weighted sum; None: score them in chunks."""
        if self.recorded is None or self.recorded[0] is not actions_BPT:
            return None
        (_, tape), self.recorded = self.recorded, None
        return tape.score(weights_BP)

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


class GlimpseDecoder(Decoder):
    """The nodes in one tensor, [B, N, G, D], the query of a full load [B, 1, D] (CVRP) and offsets [B, N]."""

    @property
    def routed(self) -> bool:
        """Whether there are routes and loads (CVRP)."""
        return self.tensors[0].shape[2] == 4

    def context(self, starts_BP: Tensor) -> Tensor:
        """The query of the start [B, P, D] (TSP), or of a full load [B, 1, D]."""
        packed, load_query, _ = self.tensors
        return load_query if self.routed else rows_of(packed[:, :, 4], starts_BP)

    def scores(self, current_BX: Tensor, context: Tensor, load_BX: Tensor | None, mask_BXN: Tensor) -> Tensor:
        """Attend, then point."""
        packed, _, offset = self.tensors
        last, keys, values, pointer = packed.unbind(2)[:4]
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
    """For nodes as `POMO` projects them: compiled where there are kernels and, if nothing is learned, much to solve."""
    tensors = (packed_BNGD, load_query_B1D, offset_BN)
    batch, nodes = packed_BNGD.shape[:2]
    worth_it = torch.is_grad_enabled() or batch * nodes**3 > SMALL
    if worth_it and compiled.serve(packed_BNGD.device, packed_BNGD.dtype, nodes, heads):
        from dree.solvers.compiled_decoder import CompiledDecoder

        return CompiledDecoder(heads, tensors)
    return GlimpseDecoder(heads, tensors)


def split_heads(nodes_BND: Tensor, heads: int) -> Tensor:
    """[B, N, D] as [B, H, N, d]."""
    return nodes_BND.view(*nodes_BND.shape[:2], heads, -1).transpose(1, 2)


def rows_of(table_BND: Tensor, index_BX: Tensor) -> Tensor:
    """The rows of each instance's table that the index names: [B, X, D]."""
    offsets = torch.arange(0, table_BND.shape[0] * table_BND.shape[1], table_BND.shape[1], device=index_BX.device)
    rows = (index_BX + offsets[:, None]).flatten()
    return table_BND.flatten(0, 1).index_select(0, rows).view(*index_BX.shape, -1)
