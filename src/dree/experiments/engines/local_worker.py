"""The process in which jobs are carried out: one after another or, on a GPU, several at once, which take turns."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread

import torch

from dree.experiments.engines.base import Job, News, Outcome
from dree.experiments.engines.work import carry_out_one
from dree.experiments.processes import end_with_parent
from dree.turns import Turns, new_stream


def work_through(connection: Connection, devices: tuple[str, ...], threads: int | None, runs: int) -> None:
    """Take jobs, at most so many at once, and answer with news and outcomes, until the other end is closed."""
    end_with_parent()
    if devices:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(devices)  # in time: CUDA is not started by imports
    if runs > 1:
        os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")  # so many streams have queues of their own
    if threads is not None:
        torch.set_num_threads(threads)
    turns = Turns(runs)

    def say(message: News | Outcome) -> None:
        try:
            connection.send(message)
        except OSError:
            os._exit(1)  # nobody listens any more

    def carry_out(job: Job, out: Path) -> None:
        with turns.taking(), _own_stream(of_several=runs > 1 and bool(devices)):
            outcome = carry_out_one(job, out, say)
            if outcome.error is not None and _device_is_lost():
                os._exit(1)  # a new process can use it again, for this job and for those that it was shared with
            say(outcome)

    def carry_out_in_a_thread(job: Job, out: Path) -> None:
        try:
            carry_out(job, out)
        except BaseException:  # such as SystemExit in code of the user's own
            traceback.print_exc()
            os._exit(1)  # a thread that ends alone would leave its job to nobody

    while True:
        try:
            job, out = connection.recv()
        except EOFError:
            return
        if runs == 1:
            carry_out(job, out)
        else:
            Thread(target=carry_out_in_a_thread, args=(job, out), name=job.name).start()


@contextmanager
def _own_stream(*, of_several: bool) -> Iterator[None]:
    """What a run has its GPU do is on a stream of its own, beside those of others."""
    if not of_several:
        yield
        return
    with torch.cuda.stream(new_stream(torch.device("cuda", torch.cuda.current_device()))):
        yield


def _device_is_lost() -> bool:
    """Whether nothing can be done any more on the GPU in this process, as after an index out of range in a kernel."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False
