"""Omni: POMO with batch norm, meant to start from a meta-learned model (Zhou et al., 2023)."""

from __future__ import annotations

from typing import ClassVar

from dree.solvers.layers import BatchNorm, NodeNorm
from dree.solvers.pomo import POMO


class Omni(POMO):
    """POMO whose norm takes the statistics of the batch it is given, in tests too: it keeps no running ones."""

    norm: ClassVar[type[NodeNorm]] = BatchNorm
    encoding_batch = 100  # as its authors test it
