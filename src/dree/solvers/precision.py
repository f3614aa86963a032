"""In how many bits a solver computes: all 32, or 16 where matrices are multiplied."""

from __future__ import annotations

import torch

from dree import kernels

PRECISIONS = ("auto", "fp32", "bf16")  # for learning
TEST_PRECISIONS = (*PRECISIONS, "fp16")  # for solving alone, which has no tiny gradients to lose
_LOW = {"bf16": torch.bfloat16, "fp16": torch.float16}


def precision_on(device: torch.device, precision: str, *, learning: bool) -> str:
    """As asked for, or what suits the device: with kernels, bf16 to learn (it has range), fp16 to test (digits)."""
    if precision != "auto":
        return precision
    if not kernels.serve(device):
        return "fp32"
    return "bf16" if learning else "fp16"


def in_precision(precision: str, device: torch.device, *, learning: bool) -> torch.autocast:
    """A context in which solvers encode in this precision."""
    low = _LOW.get(precision_on(device, precision, learning=learning))
    return torch.autocast(device.type, low or torch.bfloat16, enabled=low is not None)
