"""What a method must keep to, checked on its way through tiny streams with a tiny solver."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from dree.lifelong import Learner, LearnerSettings, Method
from dree.lifelong.checkpoint import load_checkpoint, save_checkpoint
from dree.problems import Instances
from dree.randomness import named_generator
from dree.solvers import POMOSettings, make_solver
from dree.tasks import DriftStream, PeriodicStream, Stream, Task
from dree.testing.common import located, problems, require
from dree.testing.observer import Observer
from dree.testing.streams import check_task

BATCHES, BATCH_SIZE, SEED = 3, 2, 0
SOLVER = POMOSettings(width=8, heads=2, layers=1, feed_forward=16)
LAWS = ("U", "R")
SIZES = (("U", 5), ("R", 7))


class UnrepeatableStream(DriftStream):
    """A drift whose instances come once and never again, as deliveries do."""

    can_sample_past: ClassVar[bool] = False


def check_method(make: Callable[[], Method], problem: str | None = None, *, within_epochs: bool = False) -> None:
    """Check the methods that `make()` gives (a class will do): for one problem, or for all.

    A method learns a few batches of a drift, of a periodic stream, and of a stream whose past cannot be sampled, with
    and without symmetric copies. What must hold: it repeats with its seed; stopped after any epoch and restored from a
    checkpoint, it goes on bit for bit; hidden randomness, leftover gradients, wrong losses, tasks from nowhere and
    changes of what is not its own are refused. With `within_epochs` it is stopped after every single batch as well.
    Give options that make a method act early: in these streams there are 4 epochs of 3 batches.
    """
    for name in problems(problem):
        streams: tuple[tuple[Stream, int], ...] = (
            (DriftStream(name, LAWS, 4, sizes=SIZES), 8),
            (PeriodicStream(name, LAWS, 4, sizes=SIZES), 1),
            (UnrepeatableStream(name, LAWS, 4, sizes=SIZES), 1),
        )
        for stream, copies in streams:
            with located(f"in check_method, {name}, {type(stream).__name__}, augmentation {copies}"):
                _check(make, stream, copies, within_epochs)


def _check(make: Callable[[], Method], stream: Stream, copies: int, within_epochs: bool) -> None:
    whole, again = Journey(make, stream, copies), Journey(make, stream, copies)
    for journey in (whole, again):
        _learn_all(journey)
    name = whole.name
    require(
        whole.losses == again.losses and whole.states == again.states,
        f"Two runs of {name} with one seed differ {_where(whole, again)}. What it keeps must belong to the object that "
        "make() gives, and what it draws must come from learner.generator or learner.chance.",
    )
    pauses = ["epoch", "batch"] if within_epochs else ["epoch"]
    for pause in pauses:
        stopped = Journey(make, stream, copies)
        _learn_all(stopped, pause)
        require(
            whole.losses == stopped.losses and whole.states == stopped.states,
            f"{name}, stopped after every {pause} and restored from its checkpoint, goes another way than without "
            f"stopping: they differ {_where(whole, stopped)}. All that it goes by must be in state_dict, and be taken "
            "over by load_state_dict.",
        )


def _learn_all(journey: Journey, pause: str = "") -> None:
    """Learn the whole stream; after every epoch or batch start anew from a checkpoint, if so wanted."""
    for epoch in range(1, journey.stream.epochs + 1):
        if pause:
            journey.stop_and_restore()
        learner = journey.learner
        learner.method.begin(learner, journey.stream, epoch)
        for batch in range(BATCHES):
            with located(f"in epoch {epoch}, batch {batch + 1}"):
                journey.learn(epoch, batch)
            if pause == "batch":
                journey.stop_and_restore()
        learner = journey.learner
        learner.method.end(learner, journey.stream, epoch)
        learner.method.report()
        journey.states.append(journey.save())


class Journey:
    """A learner with a method under observation, on its way through a stream, as a run takes it."""

    def __init__(self, make: Callable[[], Method], stream: Stream, copies: int) -> None:
        self.make, self.stream, self.copies = make, stream, copies
        self.names = {stream.task(epoch).name for epoch in range(stream.epochs + 1)}
        self.seen: list[Tensor] = []  # the coordinates of all instances learned
        self.losses: list[float] = []  # of every batch
        self.states: list[bytes] = []  # after every epoch
        self.learner = self._new_learner()
        self.name = type(self.learner.method.method).__name__

    def _new_learner(self) -> Learner[Observer]: ...

    def learn(self, epoch: int, batch: int) -> None:
        """One batch of the task that the method chooses."""
        generator = named_generator(SEED, "instances", epoch, batch)
        instances = self._sample(epoch, generator)
        self.seen += instances.coords
        progress = self.learner.learn(instances)
        self.losses.append(progress.loss.item())
