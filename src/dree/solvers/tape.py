"""A tape of decisions as they are taken, so that scoring them afterwards need not look at the states again.

It holds the attention weights of all states, which is why it is only used where they are few enough. What it
computes is what scoring in chunks computes, by the same gradient.

Shapes: B instances, P tours of each, N nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dree.solvers.decoding import Glimpse, TableDecoder, TableGradients, rows_of


@dataclass(frozen=True)
class Decision:
    """One step of all tours."""

    glimpse: Glimpse
    clipped: Tensor  # [B, P, N]: tanh of the scores
    policy: Tensor  # [B, P, N]
    action: Tensor  # [B, P]


class Tape:
    """The decisions of one rollout. It can be scored once."""

    def __init__(self, decoder: TableDecoder, starts_BP: Tensor, clip: float) -> None:
        self._decoder = decoder
        self._starts = starts_BP
        self._clip = clip
        self._decisions: list[Decision] = []

    @staticmethod
    def bytes_needed(decoder: TableDecoder, tours: int, steps: int) -> int:
        """How much a tape of so many tours, of at most so many steps, holds."""
        last_BNK = decoder.tensors[0]
        floats = last_BNK.shape[2] + 2 * last_BNK.shape[1]
        return len(last_BNK) * tours * steps * floats * last_BNK.element_size()

    def add(self, glimpse: Glimpse, clipped_BPN: Tensor, policy_BPN: Tensor, action_BP: Tensor) -> None:
        """Note the next step."""
        self._decisions.append(Decision(glimpse, clipped_BPN, policy_BPN, action_BP))

    def score(self, weights_BP: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The log-probability of each tour, and the gradient of their weighted sum for the decoder's tensors."""
        last, context, fold, offset = (tensor.detach() for tensor in self._decoder.tensors)
        per_tour = context.shape[1] > 1
        total = TableGradients(last, rows_of(context, self._starts) if per_tour else context, fold, offset)
        probabilities = []
        weights_BP1 = self._clip * weights_BP[..., None]
        minus_weights = -weights_BP1
        while self._decisions:
            step = self._decisions.pop()
            taken = step.action[..., None]
            probabilities.append(step.policy.gather(-1, taken))
            to_logits = step.policy.mul_(minus_weights).scatter_add_(-1, taken, weights_BP1)
            total.add(step.glimpse, torch.ops.aten.tanh_backward(to_logits, step.clipped))
        log_prob = torch.cat(probabilities, dim=-1).log_().sum(-1)
        to_context = total.to_context
        if per_tour:
            to_context = torch.zeros_like(context)
            index = self._starts[..., None].expand_as(total.to_context)
            to_context.scatter_add_(1, index, total.to_context)
        return log_prob, (total.to_last, to_context, total.to_fold, total.to_offset)
