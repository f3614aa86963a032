"""The other processes of a run that several learn together (`processes`), from its start to its end."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from dree.errors import DreeError
from dree.experiments.configuration import RunSettings
from dree.experiments.folder import RunFolder
from dree.experiments.processes import end_with_parent, how_it_ended, not_interrupted, visible_devices
from dree.lifelong.parallel import Together, joined

NOTICE = 60.0  # seconds in which a process should notice that another has died; over NCCL it may wait for hours


class CompanionError(DreeError):
    """A run's process that has died."""


@contextmanager
def companions(path: Path, settings: RunSettings) -> Iterator[Together]:
    """What the first process of a run is among several, which are there while this lasts."""
    size, device = settings.processes, settings.torch_device()
    if size == 1:
        yield Together()
        return
    devices = visible_devices() if device.type == "cuda" else [""] * size
    if len(devices) < size:
        raise DreeError(f"A run of {size} processes needs as many GPUs, but there are {len(devices)}.")
    with tempfile.TemporaryDirectory(prefix="dree-") as folder:
        meeting = Path(folder) / "meeting"
        threads = torch.get_num_threads()
        others = [
            get_context("spawn").Process(target=_accompany, args=(rank, path, meeting, devices[rank], threads))
            for rank in range(1, size)
        ]
        with not_interrupted():
            for process in others:
                process.start()
        over = threading.Event()
        threading.Thread(target=_watch, args=(others, over), name="companions", daemon=True).start()
        try:
            with joined(0, size, meeting, device) as together, _told_apart(others, path):
                yield together
            for process in others:
                process.join(NOTICE)
        finally:
            over.set()
            _kill(others)


@contextmanager
def _told_apart(others: Sequence[BaseProcess], path: Path) -> Iterator[None]:
    """Whatever goes wrong, end the others before they hear of it; and say so if one of them was the cause."""
    try:
        yield
    except BaseException as error:
        for process in others:
            process.join(1 / len(others))  # one that has died may take a moment to be gone
        dead = [process.exitcode for process in others if process.exitcode]
        _kill(others)
        if dead and isinstance(error, RuntimeError):
            raise CompanionError(
                f"One of the processes of {path} {how_it_ended(dead[0])}. Started again, the run goes on from its last "
                "checkpoint."
            ) from error
        raise


def _kill(others: Sequence[BaseProcess]) -> None:
    for process in others:
        process.kill()
        process.join()


def _watch(others: Sequence[BaseProcess], over: threading.Event) -> None:
    """End this process if it does not notice that one of the others is gone: its run can go on, this way it cannot."""
    while not wait([process.sentinel for process in others], timeout=1):
        if over.is_set():
            return
    if not over.wait(NOTICE):
        print("One of the processes of a run has died, and the others wait for it in vain.", file=sys.stderr)
        os._exit(1)


def _accompany(rank: int, path: Path, meeting: Path, device: str, threads: int) -> None:
    """The life of such a process."""
    from dree.experiments.run import Run  # which starts these

    end_with_parent()
    if device:
        os.environ["CUDA_VISIBLE_DEVICES"] = device  # in time: CUDA is not started by imports
    torch.set_num_threads(threads)
    settings = RunFolder(path).settings()
    try:
        with joined(rank, settings.processes, meeting, settings.torch_device()) as together:
            Run.accompany(path, together)
    except DreeError:
        return  # the first process has come to the same, and says it
    except Exception:
        time.sleep(1)  # where the first process has died, this one is ended now, without a word
        raise
