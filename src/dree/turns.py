"""Runs of one process that take turns, so that what they have the GPU do overlaps there.

Each run has a thread and streams of its own, but only the one whose turn it is goes on. Where it would wait, for the
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
from itertools import count

import torch

from dree.errors import DreeError

AHEAD = 2  # batches that a run may have under way on the device: the next is launched while one is computed
POOL = 32  # streams that PyTorch has for a device; who asks for more is given the same ones again


@dataclass
class Turns:
    """Whose turn it is. Who waits longest is next."""

    runs: int  # that take part at most
    streams: set[int] = field(default_factory=set)  # that they have, as CUDA knows them
    _taken: bool = False
    _waiting: deque[threading.Event] = field(default_factory=deque)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def taking(self) -> Iterator[None]:
        """What is done here by this thread, for one run, is done when it is its turn."""
        self.take()
        part = Part(self)
        token = _PART.set(part)
        try:
            yield
        finally:
            _PART.reset(token)
            self.streams -= part.streams
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


_NUMBERS = count(1)


@dataclass(frozen=True)
class Part:
    """What a run has while it takes part."""

    turns: Turns
    streams: set[int] = field(default_factory=set)
    number: int = field(default_factory=_NUMBERS.__next__)


_PART: ContextVar[Part | None] = ContextVar("part", default=None)  # of the run that this thread is about


def at_once() -> int:
    """How many runs take turns with this one at most, itself included."""
    part = _PART.get()
    return 1 if part is None else part.turns.runs


def run_number() -> int:
    """A number that no other run of this process has that takes turns; 0 for one that is alone."""
    part = _PART.get()
    return 0 if part is None else part.number


def new_stream(device: torch.device) -> torch.cuda.Stream:
    """A stream that no other run has, and this one only once.

    Two runs on one stream would wait for each other; and memory that one of them has freed on it would be taken by the
    other before all of the first one's streams were done with it.
    """
    part = _PART.get()
    if part is None:
        return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    for _ in range(POOL):
        stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        if stream.cuda_stream not in part.turns.streams:
            part.streams.add(stream.cuda_stream)
            part.turns.streams.add(stream.cuda_stream)
            return stream
    raise DreeError(f"So many runs cannot share a GPU: together they have the {POOL} streams that there are.")


@contextmanager
def others_turn() -> Iterator[None]:
    """Wait for something here: meanwhile it is another run's turn, if there is one."""
    part = _PART.get()
    if part is None:
        yield
        return
    token = _PART.set(None)  # whoever waits once more in here has nothing to pass on
    part.turns.pass_on()
    try:
        yield
    finally:
        part.turns.take()
        _PART.reset(token)


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
