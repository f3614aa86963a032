"""How a learner learns, whatever its method."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from dree.errors import DreeError, unknown
from dree.lifelong.baseline import BASELINES
from dree.settings import check_types
from dree.solvers.precision import PRECISIONS

OPTIMISERS: dict[str, type[torch.optim.Adam]] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


@dataclass(frozen=True)
class LearnerSettings:
    """How a learner learns, whatever the method. The defaults are the paper's."""

    optimiser: str = "adam"  # or adamw
    learning_rate: float = 1e-4
    weight_decay: float = 1e-6
    augmentation: int = 8  # symmetric copies of every instance: 1 or 8
    baseline: str = "shared"  # or copies: symmetric copies share one; or greedy: a frozen copy of the solver
    baseline_instances: int = 640  # on which that copy is compared with the solver, after every epoch
    precision: str = "auto"  # bf16, products of matrices in half the bits, on CUDA devices; fp32 elsewhere

    def __post_init__(self) -> None:
        """Refuse what cannot learn."""
        check_types(self)
        if not 0 < self.learning_rate < math.inf:
            raise DreeError(f"The learning rate must be positive, not {self.learning_rate}.")
        if not 0 <= self.weight_decay < math.inf:
            raise DreeError(f"The weight decay must not be negative, as {self.weight_decay} is.")
        if self.augmentation not in (1, 8):
            raise DreeError(f"Augmentation must be 1 or 8 copies, not {self.augmentation}.")
        if self.baseline not in BASELINES:
            raise unknown("baseline", self.baseline, BASELINES)
        if self.baseline == "copies" and self.augmentation == 1:
            raise DreeError("Without symmetric copies none can share a baseline. Set learner.augmentation to 8.")
        if self.baseline_instances < 1:
            raise DreeError(f"A baseline needs at least one instance to be tested on, not {self.baseline_instances}.")
        if self.optimiser not in OPTIMISERS:
            raise unknown("optimiser", self.optimiser, OPTIMISERS)
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
