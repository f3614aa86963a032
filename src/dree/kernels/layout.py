"""How kernels are cut, by the number of nodes and their precision."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton


@dataclass(frozen=True)
class Layout:
    """How a kernel is cut: so many rows of states to a program, so many warps, and so many loads ahead."""

    rows: int
    warps: int
    stages: int
    registers: int | None = None  # at most so many to a thread

    @property
    def options(self) -> dict[str, int | None]:
        """What a launch is told."""
        options: dict[str, int | None] = {"num_warps": self.warps, "num_stages": self.stages}
        return options if self.registers is None else {**options, "maxnreg": self.registers}


def rollout_layout(nodes: int, precision: torch.dtype) -> Layout:
    """The rollout's, as measured on an H200: where they fit, whole rows to a warp, so that none waits for another.

    And that of imitation, whose loops are the same. In fp32, measured with one tile of nodes, whatever their number.
    """
    if nodes <= 32:
        return Layout(32, 2, 1 if precision == torch.float32 else 3)
    if precision == torch.float32:
        return Layout(32, 4, 1) if nodes <= 64 else Layout(16, 4 if nodes <= 128 else 8, 1)
    return Layout(64, 4, 3) if nodes <= 128 else Layout(32 if nodes <= 256 else 16, 4, 2)


def scores_layout(nodes: int, precision: torch.dtype) -> Layout:
    """The scores': few states."""
    return Layout(32 if nodes <= 128 else 16, 4, 1)


def gradient_layout(nodes: int, precision: torch.dtype) -> Layout:
    """The gradient's, as measured on an H200; in fp32 with one tile of nodes, whatever their number."""
    if nodes <= 32:
        return Layout(64, 2, 1)
    if precision == torch.float32:
        return Layout(32, 4, 1) if nodes <= 64 else Layout(32 if nodes <= 128 else 16, 8, 1)
    if 64 < nodes <= 96:
        return Layout(32, 2, 3)
    return Layout(64, 4, 3) if nodes <= 128 else Layout(16, 8, 1)


def padded(nodes: int) -> int:
    """To a power of two, as kernels want it."""
    return max(16, int(triton.next_power_of_2(nodes)))


def tiles(nodes: int) -> tuple[int, ...]:
    """How the decoder's kernels cut so many nodes: one tile, or two where one would be much too large.

    From 129 nodes on always two: in fp32 a triangle of one tile, for sampling, would not fit into a multiprocessor.
    """
    if 64 < nodes <= 128:
        return 64, padded(nodes - 64)
    if 128 < nodes <= 256:
        return 128, 64 if nodes <= 192 else 128
    return (padded(nodes),)
