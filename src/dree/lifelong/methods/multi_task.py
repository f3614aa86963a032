"""Multi-task learning: the references that need not fear forgetting, because all tasks stay at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from dree.errors import DreeError
from dree.lifelong.methods.base import Method
from dree.lifelong.reservoir import draw
from dree.tasks import Stream, Task

if TYPE_CHECKING:
    from dree.lifelong.learner import Learner


class MultiTask(Method):
    """MT-Ref: every batch is of a random task of the whole stream, past or future. An ideal, not a method."""

    whole_lessons = False
    batches_per_epoch = 128

    def choose(self, stream: Stream, epoch: int, generator: torch.Generator) -> Task:
        """Any task."""
        return _task_up_to(stream, stream.epochs, generator)


@dataclass(frozen=True)
class CumulativeOptions:
    """How often to start again."""

    segments: int = 5

    def __post_init__(self) -> None:
        """Refuse what cannot be a number of segments."""
        if self.segments < 1:
            raise DreeError(f"segments must be at least 1, not {self.segments}.")


class CumulativeMultiTask(Method):
    """MT-cumulative: a new solver for each part of the stream, trained on all tasks up to the end of that part."""

    whole_lessons = False
    batches_per_epoch = 128
    options_class = CumulativeOptions
    options: CumulativeOptions

    def begin(self, learner: Learner, stream: Stream, epoch: int) -> None:
        """Start again where a part begins."""
        if epoch == 1 or self._last_of(stream, epoch) != self._last_of(stream, epoch - 1):
            learner.restart()

    def choose(self, stream: Stream, epoch: int, generator: torch.Generator) -> Task:
        """Any task up to the end of this part."""
        return _task_up_to(stream, self._last_of(stream, epoch), generator)

    def _last_of(self, stream: Stream, epoch: int) -> int:
        """The last epoch of the part that an epoch belongs to."""
        segments = self.options.segments
        part = -(-epoch * segments // stream.epochs)
        return part * stream.epochs // segments


def _task_up_to(stream: Stream, last: int, generator: torch.Generator) -> Task:
    """The task of a random epoch up to `last`, each task of the stream's own as likely as any other."""
    return stream.task(stream.earliest + draw(last + 1 - stream.earliest, generator))
