"""Triton kernels for CUDA devices: rollouts and their gradients without anything per state, head and node in memory.

Nothing else here is imported on other machines.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch


def serve(device: torch.device, head_width: int = 16) -> bool:
    """Whether kernels run on a device, for heads of this width, which must fill a matrix instruction."""
    return device.type == "cuda" and head_width >= 16 and head_width.bit_count() == 1 and _able(device)


@cache
def _able(device: torch.device) -> bool:
    """With Triton, and with matrix units that know bf16."""
    return find_spec("triton") is not None and torch.cuda.get_device_capability(device) >= (8, 0)
