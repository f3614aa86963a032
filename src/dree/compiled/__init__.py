"""Kernels for the CPU, compiled by Numba: POMO's tours, and the gradient of their log-probabilities.

Nothing else here is imported where there is no Numba, and nothing before a kernel is needed: that takes a moment.
"""

from __future__ import annotations

from functools import cache

import torch

NODES = 1024  # up to this many: a table of all pairs is made, and beyond it would fill tens of megabytes a thread


def serve(device: torch.device, dtype: torch.dtype, nodes: int) -> bool:
    """Whether there are kernels for so many nodes, in such numbers."""
    return device.type == "cpu" and dtype == torch.float32 and nodes <= NODES and _able()


@cache
def _able() -> bool:
    """With a Numba that suits the other packages, and that may compile."""
    try:
        import numba
    except ImportError:
        return False
    return not numba.config.DISABLE_JIT
