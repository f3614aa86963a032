"""What a lifelong method may do: choose what to learn, add a loss from the past, and remember.

A learner calls, in this order: `begin` at the start of an epoch; for every batch `choose` (where tasks can be
chosen), `replay` before the optimiser's step and `remember` after it; `end` at the end of the epoch. Optimiser,
schedule and augmentation are the learner's, so that every method is compared under the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dree.problems import Instances, Tours
from dree.tasks import Stream, Task

if TYPE_CHECKING:
    from dree.lifelong.learner import Learner


@dataclass(frozen=True)
class Lesson:
    """One batch as it is learned."""

    instances: Instances  # the batch with its symmetric copies, copy-major
    tours: Tours  # the solver's sampled answers to them
    encoding: Any  # the solver's encoding of the instances, with gradient


class Method:
    """The base of every method. All hooks do nothing; a method overrides what it needs."""

    batches_per_epoch: int = 164  # new batches an epoch; a method that solves more for itself takes fewer

    def begin(self, learner: Learner, stream: Stream, epoch: int) -> None:
        """An epoch begins."""

    def choose(self, stream: Stream, epoch: int, generator: torch.Generator) -> Task:
        """The task of the next batch: by default the one the stream is at."""
        return stream.task(epoch)

    def replay(self, learner: Learner, lesson: Lesson) -> Tensor | None:
        """A loss from the past, added to the lesson's own; None for none."""
        return None

    def remember(self, learner: Learner, lesson: Lesson) -> None:
        """Keep what will be needed of this lesson; the optimiser has just made its step."""

    def end(self, learner: Learner, stream: Stream, epoch: int) -> None:
        """An epoch is over."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that must survive an interruption, as tensors and plain values."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over the state of an earlier `state_dict`."""
