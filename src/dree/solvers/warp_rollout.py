"""Tours, and the gradient of sampled ones, by kernels in CUDA C++: POMO's decoder where it computes in 16 bits.

They do, faster, what `KernelDecoder` does by Triton for any precision and size: each warp makes 16 tours, or has one
head's part of the gradient, with all it knows of them in its registers.

Shapes: B instances, P tours, N nodes, G groups of them, D width, H heads, T actions of the longest tour.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dree import cuda
from dree.problems import Instances
from dree.solvers.kernel_gradients import roomy

HEADS, WIDTH = 8, 128
NODES = 128  # at most
TILE = 16  # nodes, and tours of a warp
STATES = 3 * 32  # in shared memory, see states.cuh
STATE_BYTES = WIDTH * 2 + 16 + HEADS * 4 + 16  # of a state, but for its row of the tape


def serves(packed_BNGD: Tensor, heads: int, tours: int, clip: float, *, record: bool = True) -> bool:
    """Whether the kernels are for such a decoder; what is recorded is in bf16, and of so many tours at most."""
    _, nodes, _, width = packed_BNGD.shape
    return (
        packed_BNGD.dtype in ((torch.bfloat16,) if record else (torch.bfloat16, torch.float16))
        and (heads, width) == (HEADS, WIDTH)
        and nodes <= NODES
        and (tours <= _tiles(nodes) * TILE or not record)
        and float(clip).is_integer()
        and cuda.serve(packed_BNGD.device)
    )


@dataclass(frozen=True)
class WarpTape:
    """A rollout as it was taken. After a tour's end nothing is set but actions."""

    tensors: tuple[Tensor, ...]  # of the decoder
    actions: Tensor  # [B, P, T]
    log_prob: Tensor  # [B, P]
    lengths: Tensor  # [B, P]
    gradient: Tensor  # [B, P, T - 1, N padded]: of log-probabilities for scores; minus zero where blocked
    attended: Tensor  # [B, P, T - 1, D]: what the heads read of the values
    logsum: Tensor  # [B, P, T - 1, H]: of the exponentials of the attention scores
    loads: Tensor  # [B, P, T - 1] (CVRP)

    def score(self, weights_BP: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The log-probability of each tour, and the gradient of their weighted sum for the decoder's tensors."""
        packed, load_query, offset = self.tensors
        batch, nodes, groups, _ = packed.shape
        tours, longest = self.actions.shape[1:]
        weights = weights_BP.to(torch.float32).contiguous()
        to_packed, to_offset = torch.empty_like(packed), torch.empty_like(offset)
        to_last = offset.new_zeros(batch, nodes, WIDTH)
        to_start = torch.zeros_like(to_last) if groups > 4 else to_last
        to_load_query = offset.new_zeros(load_query.shape)
        routed, tiles = groups == 4, _tiles(nodes)
        # Bytes of shared memory, see states.cuh and gradient.cu.
        of_states = STATES * (2 * TILE * tiles + 16 + STATE_BYTES) + 12 * TILE * tiles
        of_nodes = TILE * tiles * (3 * 2 * WIDTH + (groups - 3) * (2 * WIDTH + 16))
        cuda.kernel("gradient.cu", "attention_gradient", TILES=tiles, ROUTED=int(routed)).launch(
            (1, batch),
            32 * HEADS,
            of_states + of_nodes,
            packed,
            load_query,
            self.actions,
            self.loads,
            weights,
            self.gradient,
            self.attended,
            self.logsum,
            self.lengths,
            to_packed,
            to_last,
            to_start,
            to_load_query,
            tours,
            nodes,
            longest,
        )
        cuda.kernel("gradient.cu", "pointer_gradient", TILES=tiles, ROUTED=int(routed)).launch(
            (1, batch),
            32 * HEADS,
            of_states,
            self.actions,
            weights,
            self.gradient,
            self.attended,
            self.lengths,
            to_packed,
            to_offset,
            tours,
            nodes,
            longest,
        )
        to_packed[:, :, 0] = to_last
        if groups > 4:
            to_packed[:, :, 4] = to_start
        return self.log_prob, (to_packed, to_load_query.to(load_query.dtype), to_offset)


def recorded_rollout(
    tensors: tuple[Tensor, ...],
    instances: Instances,
    starts_BP: Tensor,
    longest: int,
    clip: float,
    generator: torch.Generator,
) -> WarpTape:
    """Sampled tours and their tape."""
    packed, load_query, offset = (tensor.detach() for tensor in tensors)
    batch, nodes, groups, _ = packed.shape
    tours = starts_BP.shape[1]
    place = (batch, tours, longest - 1)
    tape = WarpTape(
        (packed, load_query, offset),
        torch.zeros(batch, tours, longest, dtype=torch.int64, device=packed.device),
        offset.new_empty(batch, tours),
        torch.empty(batch, tours, dtype=torch.int32, device=packed.device),
        roomy((*place, _tiles(nodes) * TILE), packed.dtype, packed.device),
        roomy((*place, WIDTH), packed.dtype, packed.device),
        offset.new_empty(*place, HEADS),
        offset.new_empty(place if groups == 4 else 1),
    )
    seed = torch.randint(2**62, (1,), generator=generator, device=packed.device)
    recorded = (tape.gradient, tape.attended, tape.logsum, tape.loads)
    results = (tape.actions, tape.log_prob, tape.lengths, *recorded)
    _launch(tape.tensors, instances, starts_BP, longest, clip, seed, results)
    return tape


def rollout(
    tensors: tuple[Tensor, ...],
    instances: Instances,
    starts_BP: Tensor,
    longest: int,
    clip: float,
    generator: torch.Generator | None,
) -> tuple[Tensor, Tensor]:
    """Tours without a tape, sampled with a generator, greedy without, and their lengths: zero if one does not end."""
    packed, load_query, offset = (tensor.detach() for tensor in tensors)
    actions = torch.zeros(*starts_BP.shape, longest, dtype=torch.int64, device=packed.device)
    lengths = torch.empty(starts_BP.shape, dtype=torch.int32, device=packed.device)
    seed = unused = actions
    if generator is not None:
        seed = torch.randint(2**62, (1,), generator=generator, device=packed.device)
    results = (actions, unused, lengths, *[unused] * 4)
    modes = {"HALF": int(packed.dtype == torch.float16), "SAMPLE": int(generator is not None), "RECORD": 0}
    _launch((packed, load_query, offset), instances, starts_BP, longest, clip, seed, results, **modes)
    return actions, lengths


def _launch(
    tensors: tuple[Tensor, ...],
    instances: Instances,
    starts_BP: Tensor,
    longest: int,
    clip: float,
    seed: Tensor,
    results: tuple[Tensor, ...],
    **modes: int,
) -> None:
    """Start the kernel, with a warp for every 16 tours, and at most a warp for every 16 nodes in a block."""
    _, nodes, groups, _ = tensors[0].shape
    batch, tours = starts_BP.shape
    tiles, warps = _tiles(nodes), -(-tours // TILE)
    blocks = -(-warps // tiles)
    cuda.kernel("rollout.cu", "rollout", TILES=tiles, ROUTED=int(groups == 4), CLIP=int(clip), **modes).launch(
        (blocks, batch),
        32 * -(-warps // blocks),
        TILE * tiles * (3 * 2 * WIDTH + 8) + 4 * WIDTH,
        *tensors,
        seed if instances.demands is None else instances.demands.contiguous(),  # not read for TSP
        seed if instances.capacity is None else instances.capacity.contiguous(),
        starts_BP.contiguous(),
        seed,
        *results,
        tours,
        nodes,
        longest,
    )


def _tiles(nodes: int) -> int:
    return -(-nodes // TILE)
