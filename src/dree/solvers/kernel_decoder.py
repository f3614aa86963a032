"""POMO's decoder by kernels, for CUDA devices: nothing of a state, a head and a node is ever in memory at once.

Shapes: B instances, P tours, S states of a tour, X = P * S, N nodes, D width, T actions of the longest tour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from dree.errors import DreeError
from dree.kernels.gradient import scores_kernel
from dree.kernels.layout import rollout_layout, scores_layout, tiles
from dree.kernels.rollout import rollout_kernel
from dree.problems import Instances
from dree.solvers import warp_rollout
from dree.solvers.capture import captured
from dree.solvers.decoding import ENDLESS, AnyTape, Decoder
from dree.solvers.kernel_gradients import compiled_for, decoder_gradients, roomy
from dree.solvers.kernel_imitation import imitation


class KernelDecoder(Decoder):
    """The nodes in one tensor, [B, N, G, D], the query of a full load [B, 1, D] (CVRP) and offsets [B, N]."""

    @property
    def routed(self) -> bool:
        """Whether there are routes and loads (CVRP)."""
        return self.tensors[0].shape[2] == 4

    def scores(self, current_BX: Tensor, context: Tensor, load_BX: Tensor | None, mask_BXN: Tensor) -> Tensor:
        """Scores with gradient: [B, X, N]."""
        scores: Tensor = _Scores.apply(self.heads, *self.tensors, current_BX, context, load_BX, mask_BXN)  # type: ignore[no-untyped-call]
        return scores

    @property
    def dtype(self) -> torch.dtype:
        """Single precision, whatever that of the nodes."""
        return torch.float32

    def rollout(
        self,
        instances: Instances,
        starts_BP: Tensor,
        longest: int,
        clip: float,
        generator: torch.Generator | None,
        *,
        record: bool,
    ) -> tuple[Tensor, tuple[Tensor, AnyTape] | None]:
        """All tours in one kernel."""
        packed, load_query, offset = (tensor.detach() for tensor in self.tensors)
        batch, tours = starts_BP.shape
        if record and generator is not None and warp_rollout.serves(packed, self.heads, tours, clip):
            sampled = warp_rollout.recorded_rollout(self.tensors, instances, starts_BP, longest, clip, generator)
            return sampled.actions, (sampled.actions, sampled)
        if not record and warp_rollout.serves(packed, self.heads, tours, clip, record=False):
            actions, lengths = warp_rollout.rollout(self.tensors, instances, starts_BP, longest, clip, generator)
            _check_ended(lengths)
            return actions, None
        nodes, steps = packed.shape[1], longest - 1
        starts = starts_BP.contiguous()
        actions = torch.zeros(batch, tours, longest, dtype=torch.int64, device=packed.device)
        log_prob = torch.empty(batch, tours, device=packed.device)
        lengths = torch.empty(batch, tours, dtype=torch.int32, device=packed.device)
        kept = (batch, tours, steps) if record else (1, 1, 1)
        tape = roomy((*kept, sum(tiles(nodes))), packed.dtype, packed.device)
        logsum, loads = torch.empty(*kept, self.heads, device=packed.device), torch.empty(kept, device=packed.device)
        if self.routed and record:  # zero is what tours that end early leave
            for each in (tape, logsum, loads):
                each.zero_()
        seed = actions  # not read
        if generator is not None:
            seed = torch.randint(2**62, (1,), generator=generator, device=packed.device)
        layout = rollout_layout(nodes, packed.dtype)
        rollout_kernel[(triton.cdiv(tours, layout.rows), batch)](
            packed,
            load_query,
            offset,
            instances.demands if instances.demands is None else instances.demands.contiguous(),
            instances.capacity if instances.capacity is None else instances.capacity.contiguous(),
            starts,
            seed,
            actions,
            log_prob,
            lengths,
            tape,
            logsum,
            loads,
            tours,
            nodes,
            longest,
            clip,
            CVRP=self.routed,
            SAMPLE=generator is not None,
            RECORD=record,
            TOURS=layout.rows,
            **layout.options,
            **compiled_for(packed, self.heads),
        )
        if not record:
            _check_ended(lengths)
            return actions, None
        return actions, (actions, KernelTape(self, starts, actions, log_prob, lengths - 1, tape, logsum, loads))

    def imitate(
        self, instances: Instances, actions_BPT: Tensor, teacher: Decoder, clip: float
    ) -> tuple[Tensor, tuple[Tensor, ...]] | None:
        """All states in one kernel, if it is the teacher's as well."""
        if not isinstance(teacher, KernelDecoder):
            return None
        if compiled_for(teacher.tensors[0], teacher.heads) != compiled_for(self.tensors[0], self.heads):
            return None
        return imitation(self.heads, self.tensors, teacher.tensors, instances, actions_BPT, clip)


def _check_ended(lengths_BP: Tensor) -> None:
    """Of tours that are not recorded: of others a loss will not be finite, that is enough."""
    if not captured(lengths_BP.device) and not (lengths_BP > 0).all():
        raise DreeError(ENDLESS)


@dataclass(frozen=True)
class KernelTape:
    """A rollout as it was taken: for every decision, the gradient of its log-probability for the scores."""

    decoder: KernelDecoder
    starts: Tensor  # [B, P]
    actions: Tensor  # [B, P, T]
    log_prob: Tensor  # [B, P]
    steps: Tensor  # [B, P]: decisions of each tour
    gradient: Tensor  # [B, P, S, N padded], minus zero where blocked
    logsum: Tensor  # [B, P, S, H]: of the exponentials of the attention scores
    loads: Tensor  # [B, P, S]

    def score(self, weights_BP: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The log-probability of each tour, and the gradient of their weighted sum for the decoder's tensors."""
        gradients = decoder_gradients(
            self.decoder.heads,
            self.decoder.tensors,
            self.actions,
            self.starts,
            self.loads,
            weights_BP,
            self.gradient,
            self.logsum,
            self.steps,
        )
        return self.log_prob, gradients


class _Scores(torch.autograd.Function):
    """Scores of given states, with gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        heads: int,
        packed: Tensor,
        load_query: Tensor,
        offset: Tensor,
        current_BX: Tensor,
        starts_BP: Tensor,
        load_BX: Tensor | None,
        mask_BXN: Tensor,
    ) -> Tensor:
        batch, states, nodes = mask_BXN.shape
        tours = starts_BP.shape[1]
        starts, current, mask = starts_BP.contiguous(), current_BX.contiguous(), mask_BXN.contiguous()
        loads = mask if load_BX is None else load_BX.contiguous()
        scores = torch.empty(batch, states, nodes, device=packed.device)
        logsum = torch.empty(batch, states, heads, device=packed.device)
        layout = scores_layout(nodes, packed.dtype)
        scores_kernel[(triton.cdiv(states, layout.rows), batch)](
            packed,
            load_query,
            offset,
            current,
            starts,
            loads,
            mask,
            scores,
            logsum,
            tours,
            states // tours,
            nodes,
            CVRP=load_BX is not None,
            STATES=layout.rows,
            **layout.options,
            **compiled_for(packed, heads),
        )
        ctx.heads = heads
        ctx.save_for_backward(packed, load_query, offset, current, starts, loads, mask, logsum)
        return scores

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        packed, load_query, offset, current, starts, loads, mask, logsum = ctx.saved_tensors
        tours = starts.shape[1]
        steps = current.shape[1] // tours
        gradient = packed.new_full((*mask.shape[:2], sum(tiles(mask.shape[2]))), -0.0)
        real = gradient[..., : mask.shape[2]]
        torch.add(upstream[0], 0.0, out=real).masked_fill_(mask == -torch.inf, -0.0)  # no minus zero elsewhere
        gradients = decoder_gradients(
            ctx.heads,
            (packed, load_query, offset),
            current.view(len(current), tours, steps),
            starts,
            loads,
            torch.ones(starts.shape, device=packed.device),
            gradient,
            logsum,
            torch.full_like(starts, steps),
        )
        return None, *gradients, None, None, None, None
