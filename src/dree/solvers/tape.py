"""A tape of decisions as they are taken, so that scoring them afterwards need not look at the states again.

It holds the attention weights of all states, which is why it is only used where they are few enough. What it
computes is what scoring in chunks computes, by the same gradient.

Shapes: B instances, P tours of each, N nodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dree.solvers.decoding import Glimpse, Room, TableDecoder, TableGradients, rows_of


@dataclass(frozen=True)
class Decision:
    """One step of all tours."""

    glimpse: Glimpse
    clipped: Tensor  # [B, P, N]: tanh of the scores
    policy: Tensor  # [B, P, N]
    action: Tensor  # [B, P]


_spare: dict[tuple[torch.device, torch.dtype], Tensor] = {}  # the memory of tapes that were scored


class Tape:
    """The decisions of one rollout, of at most so many steps. It can be scored once.

    It takes over the memory of an earlier tape where that is enough: getting it anew takes longer than filling it.
    """

    def __init__(self, decoder: TableDecoder, starts_BP: Tensor, steps: int, clip: float) -> None:
        self._decoder = decoder
        self._starts = starts_BP
        self._clip = clip
        self._decisions: list[Decision] = []
        table = decoder.tensors[0]
        needed = self.bytes_needed(decoder, starts_BP.shape[1], steps) // table.element_size()
        spare = _spare.pop((table.device, table.dtype), None)
        self._memory = spare if spare is not None and len(spare) >= needed else table.new_empty(needed)
        self._used = 0
        self._rows = self._take(starts_BP.numel(), table.shape[2])

    @staticmethod
    def bytes_needed(decoder: TableDecoder, tours: int, steps: int) -> int:
        """How much a tape of so many tours, of at most so many steps, holds."""
        last_BNK = decoder.tensors[0]
        floats = (steps + 1) * last_BNK.shape[2] + 2 * steps * last_BNK.shape[1]
        return len(last_BNK) * tours * floats * last_BNK.element_size()

    def room(self) -> Room:
        """Memory for the next step."""
        nodes = self._decoder.tensors[0].shape[1]
        attention = self._take(*self._starts.shape, self._decoder.heads, nodes)
        return Room(self._rows, attention, *(self._take(*self._starts.shape, nodes) for _ in range(2)))

    def _take(self, *shape: int) -> Tensor:
        """Memory that nothing uses yet."""
        first, self._used = self._used, self._used + math.prod(shape)
        return self._memory[first : self._used].view(shape)

    def add(self, glimpse: Glimpse, clipped_BPN: Tensor, policy_BPN: Tensor, action_BP: Tensor) -> None:
        """Note the next step."""
        self._decisions.append(Decision(glimpse, clipped_BPN, policy_BPN, action_BP))

    def score(self, weights_BP: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The log-probability of each tour, and the gradient of their weighted sum for the decoder's tensors."""
        last, context, fold, offset = (tensor.detach() for tensor in self._decoder.tensors)
        per_tour = context.shape[1] > 1
        total = TableGradients(last, rows_of(context, self._starts) if per_tour else context, fold, offset)
        log_prob = torch.zeros_like(weights_BP)
        weights_BP1 = weights_BP[..., None]
        while self._decisions:
            step = self._decisions.pop()
            taken = step.action[..., None]
            log_prob += step.policy.gather(-1, taken).squeeze(-1).log_()
            to_logits = step.policy.mul_(-weights_BP1).scatter_add_(-1, taken, weights_BP1)
            slope = step.clipped.square_().neg_().add_(1).mul_(self._clip)
            total.add(step.glimpse, to_logits.mul_(slope))
        _spare[self._memory.device, self._memory.dtype] = self._memory
        to_context = total.to_context
        if per_tour:
            to_context = torch.zeros_like(context)
            index = self._starts[..., None].expand_as(total.to_context)
            to_context.scatter_add_(1, index, total.to_context)
        return log_prob, (total.to_last, to_context, total.to_fold, total.to_offset)
