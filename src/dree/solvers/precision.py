"""In how many bits a solver computes: all 32, or 16 where matrices are multiplied."""

from __future__ import annotations

import torch

from dree import kernels

PRECISIONS = ("auto", "fp32", "bf16")


def precision_on(device: torch.device, precision: str) -> str:
    """fp32 or bf16: as asked for, or what suits the device."""
    if precision != "auto":
        return precision
    return "bf16" if kernels.serve(device) else "fp32"


def in_precision(precision: str, device: torch.device) -> torch.autocast:
    """A context in which solvers encode in this precision."""
    low = precision_on(device, precision) == "bf16"
    return torch.autocast(device.type, torch.bfloat16, enabled=low)
