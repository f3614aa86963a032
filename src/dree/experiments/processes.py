"""Processes that this package starts: they end with their parent, and leave Ctrl-C to it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process, resource_tracker
from multiprocessing.connection import wait

import torch


@contextmanager
def not_interrupted() -> Iterator[None]:
    """Processes started here never hear of Ctrl-C, which a terminal sends to all: their parent stops them."""
    resource_tracker.ensure_running()  # it would lift the block again when the first process starts it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent() -> None:
    """End this process, whatever it is at, when its parent dies: even one that is killed must not leave it behind.

    It would go on for nobody, and the lock that it holds would keep the next process from its run.
    """
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="end with parent", daemon=True).start()


def how_it_ended(code: int | None) -> str:
    """The end of a process in words, by its exit code."""
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    hint = ", as the system does when memory runs out" if -code == signal.SIGKILL else ""
    return f"was killed by {signal.Signals(-code).name}{hint}"


def visible_devices() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",")[:count] if named else [str(number) for number in range(count)]
