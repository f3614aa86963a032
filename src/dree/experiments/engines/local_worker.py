"""The process in which jobs are carried out, one after another."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection

import torch

from dree.experiments.engines.base import News, Outcome
from dree.experiments.engines.work import carry_out_one
from dree.experiments.processes import end_with_parent


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
