"""How much is learned of a day: so many minutes, tests included, or so many batches."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from dree.errors import DreeError

MINUTES = 5.0
SLACK = 1.25  # tests may take so much longer than the first of them lets expect


@dataclass(frozen=True)
class Budget:
    """Minutes for each day, or batches, with which learning repeats to the bit."""

    minutes: float = MINUTES
    batches: int | None = None

    def __post_init__(self) -> None:
        """Refuse what allows no learning."""
        if not 0 < self.minutes < math.inf:
            raise DreeError(f"--minutes must be a number above 0, not {self.minutes}.")
        if self.batches is not None and self.batches < 1:
            raise DreeError(f"--batches must be at least 1, not {self.batches}.")

    @property
    def total(self) -> float:
        """What a bar counts up to: seconds, or batches."""
        return 60 * self.minutes if self.batches is None else float(self.batches)


class Spending:
    """A budget while a day is being learned."""

    def __init__(self, budget: Budget, advance: Callable[[float], None]) -> None:
        """Begin; `advance` hears of seconds or batches as they are spent."""
        self.budget = budget
        self._advance = advance
        self._began = self._told = self._learning = time.perf_counter()
        self._batches = 0
        self._after = 0.0

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.perf_counter() - self._began

    def tell(self) -> None:
        """Move a bar of seconds to where the time is."""
        now = time.perf_counter()
        if self.budget.batches is None:
            self._advance(now - self._told)
        self._told = now

    def begin_learning(self, tests: float) -> None:
        """From here on batches are learned; leave room for tests after them that should take so many seconds."""
        self._learning, self._after = time.perf_counter(), SLACK * tests

    def go_on(self, batches: int) -> bool:
        """Whether there is room for one more batch, after so many."""
        if self.budget.batches is not None:
            self._advance(batches - self._batches)
            self._batches = batches
            return batches < self.budget.batches
        self.tell()
        each = (self._told - self._learning) / batches
        return self.seconds + each + self._after < self.budget.total
