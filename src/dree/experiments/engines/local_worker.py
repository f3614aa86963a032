"""The process in which jobs are carried out, one after another."""

from __future__ import annotations

import os
import threading
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait

import torch

from dree.experiments.engines.base import News, Outcome
from dree.experiments.engines.work import carry_out_one


def work_through(connection: Connection, devices: tuple[str, ...], threads: int | None) -> None:
    """Take jobs and answer with news and outcomes, until the other end is closed."""
    end_with_parent()
    if devices:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(devices)  # in time: CUDA is not started by imports
    if threads is not None:
        torch.set_num_threads(threads)

    def say(message: News | Outcome) -> None:
        try:
            connection.send(message)
        except OSError:
            os._exit(1)  # nobody listens any more

    while True:
        try:
            job, out = connection.recv()
        except EOFError:
            return
        say(carry_out_one(job, out, say))


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
