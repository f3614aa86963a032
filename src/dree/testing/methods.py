"""What a method must keep to, checked on its way through tiny streams with a tiny solver."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from typing import ClassVar

from dree.lifelong import Learner, LearnerSettings, Method
from dree.lifelong.checkpoint import load_checkpoint, save_checkpoint
from dree.problems import Instances
from dree.randomness import named_generator
from dree.settings import build
from dree.solvers import make_solver
from dree.tasks import DriftStream, PeriodicStream, Stream, Task
from dree.testing.common import check_constructor, located, problems, require
from dree.testing.observer import Observer

BATCHES, BATCH_SIZE, SEED = 2, 2, 0
SOLVER = {"width": 8, "heads": 2, "layers": 1, "feed_forward": 16}
LAWS = ("U", "R")
SIZES = (("U", 5), ("R", 7))


class UnrepeatableStream(DriftStream):
    """A drift whose instances come once and never again, as deliveries do."""

    can_sample_past: ClassVar[bool] = False


def check_method(
    make: Callable[[], Method], problem: str | None = None, *, base: str = "pomo", within_epochs: bool = False
) -> None:
    """Check the methods that `make()` gives (a class will do): for one problem, or for all.

    A method learns a few batches of a drift, of a periodic stream, and of a stream whose past cannot be sampled, with
    and without symmetric copies. What must hold: it repeats with its seed; stopped after any epoch and restored from a
    checkpoint, it goes on bit for bit; hidden randomness, leftover gradients, wrong losses, tasks from nowhere and
    changes of what is not its own are refused. With `within_epochs` it is stopped after every single batch as well.
    `base` names the base solver, a tiny one. Give options that make a method act early: in these streams there are 4
    epochs of 2 batches.
    """
    check_constructor(make, Method, "options")
    for name in problems(problem):
        streams: tuple[tuple[Stream, int], ...] = (
            (DriftStream(name, LAWS, 4, sizes=SIZES), 8),
            (PeriodicStream(name, LAWS, 4, sizes=SIZES), 1),
            (UnrepeatableStream(name, LAWS, 4, sizes=SIZES), 1),
        )
        for stream, copies in streams:
            with located(f"in check_method, {name}, {type(stream).__name__}, augmentation {copies}"):
                _check(make, base, stream, copies, within_epochs)


def _check(make: Callable[[], Method], base: str, stream: Stream, copies: int, within_epochs: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole, again, *stopped = (Journey(make, base, stream, copies, Path(folder)) for _ in range(4))
        whole.finish()
        again.finish()
        parting = whole.parting(again)
        require(
            parting is None,
            f"Two runs of {whole.name} with one seed differ {parting}. What it keeps must belong to the object that "
            "make() gives, and what it draws must come from learner.generator or learner.chance.",
        )
        pauses = ("epoch", "batch") if within_epochs else ("epoch",)
        for pause, journey in zip(pauses, stopped, strict=False):
            journey.finish(pause)
            parting = whole.parting(journey)
            require(
                parting is None,
                f"{whole.name}, stopped after every {pause} and restored from its checkpoint, goes another way than "
                f"without stopping: they differ {parting}. All that it goes by must be in state_dict, and be taken "
                "over by load_state_dict.",
            )


class Journey:
    """A learner on its way through a stream, as a run takes it, its method under observation."""

    def __init__(self, make: Callable[[], Method], base: str, stream: Stream, copies: int, folder: Path) -> None:
        self.make, self.base, self.stream, self.copies, self.folder = make, base, stream, copies, folder
        self.sizes = {task.name: task.size for task in map(stream.task, range(stream.epochs + 1))}
        self.seen: set[tuple[float, ...]] = set()  # the coordinates of all instances learned
        self.trace: list[tuple[str, float | bytes]] = []  # what happened when: losses, and states after epochs
        self.learner = self._new_learner()

    def _new_learner(self) -> Learner:
        method = self.make()
        self.name = type(method).__name__
        require(isinstance(method, Method), f"make() gives a {self.name}, not a Method.")
        require(hasattr(method, "options"), f"{self.name} has no options: its __init__ must call super().__init__.")
        count = method.batches_per_epoch
        require(
            type(count) is int and count >= 1,
            f"{self.name}.batches_per_epoch is {count!r}; it must be a whole number of at least 1.",
        )
        require(is_dataclass(method.options), f"{self.name}.options is {method.options!r}, which is no dataclass.")
        solver = make_solver(self.stream.problem, self.base, SOLVER, SEED)
        chosen = {"learning_rate": 1e-2, "augmentation": self.copies, "baseline_instances": BATCH_SIZE}
        settings = build(LearnerSettings, {**solver.learning, **chosen})
        self.observer = Observer(method)
        learner = Learner(solver, self.observer, settings, SEED)
        learner.best_only = not method.whole_lessons  # as where lessons are captured
        return learner

    def finish(self, pause: str = "") -> None:
        """Learn the whole stream; where there is a pause, stop after every epoch or batch and restore."""
        for epoch in range(1, self.stream.epochs + 1):
            with located(f"in epoch {epoch}"):
                self.learner.begin(self.stream, epoch)
                for batch in range(1, BATCHES + 1):
                    self.learn(epoch, batch)
                    if pause == "batch":
                        self.stop_and_restore()
                self.learner.end(self.stream, epoch)
                self.learner.method.report()
                self.trace.append((f"in the state after epoch {epoch}", self.save().read_bytes()))
                if pause == "epoch":
                    self.stop_and_restore()
        self.observer.check_taught()

    def learn(self, epoch: int, batch: int) -> None:
        """One batch of the task that the method chooses."""
        task = self.learner.method.choose(self.stream, epoch, named_generator(SEED, "task", epoch, batch))
        instances = task.sample(BATCH_SIZE, named_generator(SEED, "instances", epoch, batch))
        self._check_choice(task, instances)
        self.seen |= _fingerprints(instances)
        loss = self.learner.learn(instances).loss.item()
        require(math.isfinite(loss), f"With {self.name} the loss of batch {batch} is {loss}.")
        self.trace.append((f"in the loss of epoch {epoch}, batch {batch}", loss))

    def _check_choice(self, task: Task, instances: Instances) -> None:
        """A task is one of the stream's, or consists of instances that were learned before."""
        of_stream = (task.name, instances.customers) in self.sizes.items()
        require(
            instances.problem == self.stream.problem and (of_stream or _fingerprints(instances) <= self.seen),
            f"{self.name}.choose gives the task {task.name}, whose instances ({instances.problem}, "
            f"{instances.customers} customers) are of no task of the stream, and have not been learned before.",
        )

    def save(self) -> Path:
        """Write a checkpoint."""
        return save_checkpoint(self.folder, 0, self.learner.state_dict())

    def stop_and_restore(self) -> None:
        """Go on with a new learner that knows nothing but the checkpoint."""
        path = self.save()
        self.learner = self._new_learner()
        self.learner.load_state_dict(load_checkpoint(path))

    def parting(self, other: Journey) -> str | None:
        """Where another journey first went another way, if it did."""
        pairs = zip(self.trace, other.trace, strict=True)
        return next((place for (place, mine), (_, its) in pairs if mine != its), None)


def _fingerprints(instances: Instances) -> set[tuple[float, ...]]:
    return {tuple(row) for row in instances.coords.flatten(1).tolist()}
