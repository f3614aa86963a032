"""How a starting model is meta-learned: all hyper-parameters, with Omni's values as defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from dree.errors import DreeError, unknown
from dree.solvers.precision import PRECISIONS

ORDERS = ("second", "second-then-first", "first")


@dataclass(frozen=True)
class MetaSettings:
    """Meta-training across sizes and distributions."""

    iterations: int = 250_000  # each with one update of the starting model
    order: str = "second"  # of derivatives through the inner steps; first: those are taken for constants
    second_order_iterations: int = 50_000  # second-then-first: as long as that
    tasks: int = 1  # in an iteration
    inner_steps: int = 1  # from the starting model to one adapted to a task
    batch_size: int = 64  # instances of an inner step, and as many fresh ones for the adapted model
    large_above: int = 150  # customers: from more on the batches are smaller
    large_batch_size: int = 32
    learning_rate: float = 1e-4  # of inner and outer steps, which are Adam's
    weight_decay: float = 1e-6
    decay_at: int = 225_000  # the iteration from which on the learning rate is
    decay_by: float = 0.1  # times this
    outer_weight: float = 0.9  # of the adapted model's loss
    smallest: int = 50  # customers
    largest: int = 200
    size_step: int = 5
    curriculum: int = 225_000  # iterations from the smallest size to the largest
    refresh_every: int = 100  # iterations between looks at how well each distribution is solved
    pool: int = 200  # instances with references of each distribution and size
    probe: int = 50  # how many of them one look takes
    temperature: float = 1.0  # per cent of gap: how much more often worse distributions are learned
    second_order_bytes: int | None = None  # what second derivatives may hold at once, about; None: by device
    precision: str = "auto"  # bf16, products of matrices in half the bits, on CUDA devices; fp32 elsewhere

    def __post_init__(self) -> None:
        """Refuse what cannot be learned by."""
        for field in fields(MetaSettings):
            value = getattr(self, field.name)
            least = 0 if field.name in ("weight_decay", "second_order_iterations") else None
            if isinstance(value, int | float) and not (least == value or 0 < value < math.inf):
                raise DreeError(f"Setting '{field.name}' must be positive, not {value}.")
        if self.order not in ORDERS:
            raise unknown("order", self.order, ORDERS)
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        if not 2 <= self.smallest <= self.largest:
            raise DreeError(
                f"Sizes go from 'smallest', at least 2, to 'largest', not {self.smallest} to {self.largest}."
            )
        if self.probe > self.pool:
            raise DreeError(f"A look cannot take {self.probe} instances of a pool of {self.pool}. Set probe or pool.")

    def batch_at(self, size: int) -> int:
        """Instances in a batch of this size."""
        return self.batch_size if size <= self.large_above else self.large_batch_size

    def rate_at(self, iteration: int) -> float:
        """The learning rate of an iteration; the first is 1."""
        return self.learning_rate * (self.decay_by if iteration >= self.decay_at else 1)

    def size_at(self, iteration: int) -> int:
        """Customers in an iteration: linear, in whole steps, then the largest."""
        grown = min(iteration, self.curriculum) * (self.largest - self.smallest) // self.curriculum
        return self.smallest + grown // self.size_step * self.size_step

    def second_order_at(self, iteration: int) -> bool:
        """Whether derivatives go through the inner steps in an iteration."""
        if self.order == "second-then-first":
            return iteration <= self.second_order_iterations
        return self.order == "second"
