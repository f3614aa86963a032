"""Omni: POMO with batch norm, meant to start from a meta-learned model (Zhou et al., 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dree.solvers.layers import BatchNorm, NodeNorm
from dree.solvers.pomo import POMO


class Omni(POMO):
    """POMO whose norm takes the statistics of the batch it is given, in tests too: it keeps no running ones."""

    norm: ClassVar[type[NodeNorm]] = BatchNorm
    learning: Mapping[str, Any] = {"learning_rate": 1e-4, "weight_decay": 1e-6}
    epoch_share = 1 / 8  # it starts from what was learned before: 16 batches for 128, 20 for 164
    encoding_batch = 100  # as its authors test it
