"""How long to wait from one checkpoint to the next, so that writing them takes little of the time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

TIMES = 20  # as long as the last one took to write, at least


class Pause:
    """At least so many seconds; none at all where that is 0."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends = time.perf_counter() + seconds

    def is_over(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.perf_counter() >= self._ends

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A checkpoint is written; then the next pause begins."""
        began = time.perf_counter()
        yield
        ended = time.perf_counter()
        self._ends = ended + (self._seconds and max(self._seconds, TIMES * (ended - began)))
