"""One epoch of a learner: batches of the stream's task, as many as are wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dree.errors import DreeError
from dree.lifelong.learner import Learner
from dree.lifelong.methods import checked_task, in_hook, suspicion
from dree.problems import Instances
from dree.randomness import named_generator
from dree.tasks import Stream, SyntheticTask, Task
from dree.turns import Pace

GoOn = Callable[[int], bool]  # whether to learn one more batch, when so many of the epoch's are learned
MOST_AT_ONCE = {"cuda": 1024}  # instances that are drawn together, by device; elsewhere those of one batch


@dataclass(frozen=True)
class Epoch:
    """What the batches of an epoch showed, on average."""

    batches: int
    loss: float
    cost: float
    broken: int | None  # the first batch, counted from 1, whose loss was not finite
    by_replay: bool  # whether that batch's own loss was surely finite, so that what was replayed is to blame

    @staticmethod
    def of(totals: Tensor, broken: list[Tensor]) -> Epoch:
        """From the sums of losses and costs, and for each batch whether loss and own loss were not finite."""
        loss, cost = (totals / len(broken)).tolist()
        for batch, (whole, own) in enumerate(torch.stack(broken).tolist(), start=1):
            if whole:
                return Epoch(len(broken), loss, cost, batch, not own)
        return Epoch(len(broken), loss, cost, None, False)


class Draws:
    """An epoch's new instances, on a CUDA device those of several batches at once.

    Drawing takes up to a hundred small operations, however many instances are drawn. As long as the task stays the
    same, each draw is for twice as many batches as the last. So methods that choose their tasks draw little in vain,
    and all others see the same instances with one seed, however many batches they have.
    """

    def __init__(self, learner: Learner, epoch: int, batch_size: int) -> None:
        self._name = (learner.seed, "instances", epoch)
        self._device = learner.device
        self._batch_size = batch_size
        self._most = max(1, MOST_AT_ONCE.get(learner.device.type, 0) // batch_size)  # batches
        self._task: Task | None = None
        self._at_once = 1  # batches in the last draw
        self._ready: list[Instances] = []

    def take(self, task: Task, batch: int) -> Instances:
        """The instances of a batch of this task."""
        same = task is self._task or (isinstance(task, SyntheticTask) and task == self._task)  # others may not compare
        if not (same and self._ready):
            self._at_once = min(2 * self._at_once, self._most) if same else 1
            self._task = task
            drawn = task.sample(
                self._at_once * self._batch_size, named_generator(*self._name, batch, device=self._device)
            )
            firsts = range(0, len(drawn), self._batch_size)
            self._ready = [drawn[first : first + self._batch_size] for first in reversed(firsts)]
        return self._ready.pop()


def learn_epoch(learner: Learner, stream: Stream, epoch: int, batch_size: int, go_on: GoOn) -> Epoch:
    """Learn an epoch of a stream, at least one batch; what is drawn depends on seed, epoch and batch alone.

    It ends early where the solver fails because an earlier batch broke it.
    """
    learner.begin(stream, epoch)
    totals = torch.zeros(2, device=learner.device)
    broken: list[Tensor] = []
    draws, pace = Draws(learner, epoch, batch_size), Pace(learner.device)
    while not broken or go_on(len(broken)):
        batch = len(broken)
        with in_hook(learner.method, "choose"):
            chance = named_generator(learner.seed, "task", epoch, batch)
            task = checked_task(learner.method, learner.method.choose(stream, epoch, chance))
        try:
            progress = learner.learn(draws.take(task, batch))
        except Exception as error:
            if broken and (so_far := Epoch.of(totals, broken)).broken is not None:
                return so_far
            if not isinstance(error, DreeError):
                if broken:
                    error.add_note(_perhaps_diverged(learner, epoch, batch + 1))
                raise
            whole = all(bool(weights.isfinite().all()) for weights in learner.solver.parameters())
            more = "" if whole else suspicion(learner.method)
            raise DreeError(f"Epoch {epoch}, batch {batch + 1}: {error}{more}") from None
        totals += torch.stack([progress.loss, progress.cost])
        own = progress.own if learner.together.size == 1 else progress.loss  # of others' own losses nothing is known
        broken.append(~torch.stack([progress.loss, own]).isfinite())
        pace.launched()
    pace.arrive()
    learner.end(stream, epoch)
    return Epoch.of(totals, broken)


def _perhaps_diverged(learner: Learner, epoch: int, batch: int) -> str:
    """For whoever reads the traceback of a solver's own code, which may not expect such numbers."""
    largest = max(float(weights.detach().abs().max()) for weights in learner.solver.parameters() if weights.numel())
    return (
        f"This was in batch {batch} of epoch {epoch}; earlier batches were learned. The solver's largest weight is "
        f"{largest:.2g} by now. If that is no sensible number, a smaller learner.learning_rate may help."
    )
