"""One epoch of a learner: batches of the stream's task, as many as are wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from dree.errors import DreeError
from dree.lifelong.learner import Learner
from dree.lifelong.methods import in_hook
from dree.randomness import named_generator
from dree.tasks import Stream

GoOn = Callable[[int], bool]  # whether to learn one more batch, when so many of the epoch's are learned


@dataclass(frozen=True)
class Epoch:
    """What the batches of an epoch showed, on average."""

    batches: int
    loss: float
    cost: float
    broken: int | None  # the first batch, counted from 1, whose loss was not finite


def learn_epoch(learner: Learner, stream: Stream, epoch: int, batch_size: int, go_on: GoOn) -> Epoch:
    """Learn an epoch of a stream, at least one batch; what is drawn depends on seed, epoch and batch alone."""
    learner.begin(stream, epoch)
    totals = torch.zeros(2, device=learner.device)
    broken = []
    batch = 0
    while batch == 0 or go_on(batch):
        generator = named_generator(learner.seed, "instances", epoch, batch, device=learner.device)
        with in_hook(learner.method, "choose"):
            task = learner.method.choose(stream, epoch, named_generator(learner.seed, "task", epoch, batch))
        try:
            progress = learner.learn(task.sample(batch_size, generator))
        except DreeError as error:
            raise DreeError(f"Epoch {epoch}, batch {batch + 1}: {error}") from None
        totals += torch.stack([progress.loss, progress.cost])
        broken.append(~progress.loss.isfinite())
        batch += 1
    learner.end(stream, epoch)
    loss, cost = (totals / batch).tolist()
    first = torch.stack(broken).nonzero()
    return Epoch(batch, loss, cost, int(first[0]) + 1 if len(first) else None)
