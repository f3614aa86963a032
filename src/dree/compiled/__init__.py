"""Kernels for the CPU, compiled by Numba: POMO's tours, and the gradient of their log-probabilities.

Nothing else here is imported where there is no Numba, and nothing before a kernel is needed: that takes a moment.
"""

from __future__ import annotations

from functools import cache

import torch

TABLE = 2**23  # numbers in a table of all pairs of nodes, for each head, that a thread may have: 1024 nodes, 8 heads


def serve(device: torch.device, dtype: torch.dtype, nodes: int, heads: int) -> bool:
    """Whether there are kernels for so many nodes, in such numbers."""
    return device.type == "cpu" and dtype == torch.float32 and nodes**2 * heads <= TABLE and able()


@cache
def able() -> bool:
    """Whether there is a Numba that suits the other packages, and that may compile."""
    try:
        import numba
    except (ImportError, OSError):  # OSError: the compiler itself cannot be loaded
        return False
    return not numba.config.DISABLE_JIT
