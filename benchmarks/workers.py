"""Ways to do the same, each in a process of its own, so that none works in memory that another has cut up.

Nothing of dree is imported here: a worker may be a process of a Python that does not have it.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch


class Worker:
    """A process that does something once for every line that it is given."""

    def __init__(self, *command: object) -> None:
        words = list(map(str, command))
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def step(self) -> float:
        """Seconds that it takes once."""
        assert self.process.stdin
        print(file=self.process.stdin, flush=True)
        return self.answer()

    def memory(self) -> float:
        """The end: MiB above what the process had before its first step; of a GPU, all that was in use."""
        assert self.process.stdin
        self.process.stdin.close()
        return self.answer()

    def answer(self) -> float:
        assert self.process.stdout
        return float(self.process.stdout.readline())


def in_turn(workers: Sequence[Worker], repeats: int) -> list[float]:
    """The median seconds of each; they take turns, so that all meet the same machine. The first round is to warm up."""
    rounds = [[worker.step() for worker in workers] for _ in range(repeats + 1)]
    return list(map(statistics.median, zip(*rounds[1:], strict=True)))


def serve(step: Callable[[], object], first: Callable[[], object], device: str) -> None:
    """Be a worker: do a small first step, then one for every line that comes in; at the end, say how much memory."""
    first()
    before = high_water(device)
    for _ in sys.stdin:
        wait(device)
        began = time.perf_counter()
        step()
        wait(device)
        print(time.perf_counter() - began, flush=True)
    print(high_water(device) - (before if device == "cpu" else 0))


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def high_water(device: str) -> float:
    """The most memory this process ever had, in MiB."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def where(device: str) -> str:
    """What the workers run on."""
    return f"{torch.get_num_threads()} threads" if device == "cpu" else torch.cuda.get_device_name()
