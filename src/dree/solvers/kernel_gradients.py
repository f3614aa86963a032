"""From the gradient for the scores of states to the one for a kernel decoder's tensors, and how kernels are launched.

Shapes: B instances, P tours, S states of a tour, N nodes, G groups, D width, H heads, T actions of the longest tour.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
from torch import Tensor

from dree.kernels.gradient import gradient_kernel, offset_gradient_kernel
from dree.kernels.layout import gradient_layout, padded, tiles


def decoder_gradients(
    heads: int,
    tensors: tuple[Tensor, ...],
    current_BPT: Tensor,
    starts_BP: Tensor,
    loads_BPS: Tensor,
    weights_BP: Tensor,
    gradient_BPSN: Tensor,
    logsum_BPSH: Tensor,
    steps_BP: Tensor,
) -> tuple[Tensor, ...]:
    """The gradient for a kernel decoder's tensors, given the one for the scores of all states."""
    packed, load_query, offset = (tensor.detach() for tensor in tensors)
    batch, nodes, groups, _ = packed.shape
    tours = starts_BP.shape[1]
    to_packed = torch.empty_like(packed)
    to_last = packed.new_zeros(batch, nodes, packed.shape[-1], dtype=torch.float32)
    to_start = torch.zeros_like(to_last) if groups > 4 else to_last
    to_load_query = load_query.new_zeros(load_query.shape, dtype=torch.float32)
    to_offset = torch.zeros_like(offset)
    weights, steps = weights_BP.contiguous(), logsum_BPSH.numel() // (batch * tours * heads)
    layout = gradient_layout(nodes, packed.dtype)
    gradient_kernel[(heads, batch)](
        packed,
        load_query,
        current_BPT,
        starts_BP,
        loads_BPS,
        weights,
        gradient_BPSN,
        logsum_BPSH,
        steps_BP,
        steps_BP.amax(1),
        to_packed,
        to_last,
        to_start,
        to_load_query,
        tours,
        current_BPT.shape[-1],
        steps,
        nodes,
        CVRP=groups == 4,
        STATES=layout.rows,
        **layout.options,
        **compiled_for(packed, heads),
    )
    offset_gradient_kernel[(min(tours, 8), batch)](
        weights,
        gradient_BPSN,
        steps_BP,
        to_offset,
        tours,
        steps,
        nodes,
        ROW=gradient_BPSN.shape[-1],
        NODES=padded(nodes),
        STATES=32,
    )
    to_packed[:, :, 0] = to_last
    if groups > 4:
        to_packed[:, :, 4] = to_start
    return to_packed, to_load_query.to(load_query.dtype), to_offset


def roomy(shape: tuple[int, ...], precision: torch.dtype, device: torch.device) -> Tensor:
    """An empty tensor in a power of two of memory: as sizes drift, the memory of one serves for the next."""
    count = math.prod(shape)
    return torch.empty(int(triton.next_power_of_2(count)), dtype=precision, device=device)[:count].view(shape)


def compiled_for(packed_BNGD: Tensor, heads: int) -> dict[str, Any]:
    """What every kernel is compiled for: sizes, the number of nodes being padded to some tiles."""
    _, nodes, groups, width = packed_BNGD.shape
    return {
        "HEADS": heads,
        "WIDTH": width // heads,
        "GROUPS": groups,
        "NODES": sum(tiles(nodes)),
        "TILES": tiles(nodes),
        "DOT": "tf32x3" if packed_BNGD.dtype == torch.float32 else "tf32",
    }
