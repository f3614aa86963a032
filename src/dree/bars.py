"""How long work tells those who wait for it how far it is, whoever shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

Say = Callable[[str], object]  # hears what a person should know
Advance = Callable[[float], None]  # hears how many units of work were done since the last call
Part = Callable[[str, float], Advance]  # begins a part: what it is called, and how much a unit of it weighs
Bars = Callable[[float], AbstractContextManager[Part]]  # a bar for parts that weigh so much together


@contextmanager
def no_bar(total: float) -> Iterator[Part]:
    """A bar that nobody sees."""
    yield lambda words, weight: lambda done: None
