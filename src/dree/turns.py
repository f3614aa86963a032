"""Runs of one process that take turns, so that what they have the GPU do overlaps there.

Each run has a thread and a stream of its own, but only the one whose turn it is goes on. Where it would wait, for the
device or for a file, it says so here, and it is another's turn. So nothing but what happens at such places has to
expect other threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import torch

AHEAD = 2  # batches that a run may have under way on the device: the next is launched while one is computed


@dataclass
class Turns:
    """Whose turn it is. Who waits longest is next."""

    runs: int  # that take part at most
    _taken: bool = False
    _waiting: deque[threading.Event] = field(default_factory=deque)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def taking(self) -> Iterator[None]:
        """What is done here by this thread is done when it is its turn."""
        self.take()
        token = _TURNS.set(self)
        try:
            yield
        finally:
            _TURNS.reset(token)
            self.pass_on()

    def take(self) -> None:
        """Wait for it."""
        mine = threading.Event()
        with self._guard:
            if not self._taken:
                self._taken = True
                return
            self._waiting.append(mine)
        mine.wait()

    def pass_on(self) -> None:
        """To the next one, if somebody waits for it."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._taken = False


_TURNS: ContextVar[Turns | None] = ContextVar("turns", default=None)  # of the run that this thread is about


def at_once() -> int:
    """How many runs take turns with this one at most, itself included."""
    turns = _TURNS.get()
    return 1 if turns is None else turns.runs


@contextmanager
def others_turn() -> Iterator[None]:
    """Wait for something here: meanwhile it is another run's turn, if there is one."""
    turns = _TURNS.get()
    if turns is None:
        yield
        return
    token = _TURNS.set(None)  # whoever waits once more in here has nothing to pass on
    turns.pass_on()
    try:
        yield
    finally:
        turns.take()
        _TURNS.reset(token)


class Pace:
    """How far a run may be ahead of the device: not so far that the others find it busy for long."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._under_way: deque[torch.cuda.Event] = deque()

    def launched(self) -> None:
        """A batch is on its way: it is another run's turn, until the device has few of this one's left."""
        if at_once() == 1:
            return
        if self._device.type == "cuda":
            self._under_way.append(torch.cuda.current_stream(self._device).record_event())
        self._wait(AHEAD)

    def arrive(self) -> None:
        """Wait for all that is under way."""
        if at_once() > 1:
            self._wait(0)

    def _wait(self, left: int) -> None:
        with others_turn():
            while len(self._under_way) > left:
                self._under_way.popleft().synchronize()
