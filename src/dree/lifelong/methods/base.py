"""What a lifelong method may do: choose what to learn, add a loss from the past, and remember.

A learner calls, in this order: `begin` at the start of an epoch; for every batch `choose` (where tasks can be
chosen), `pull` for its loss, `replay` before the optimiser's step and `remember` after it; `end` at the end of the
epoch. Optimiser, schedule and augmentation are the learner's, so that every method is compared under the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dree.errors import DreeError, with_article
from dree.lifelong.checkpoint import STORABLE, unstorable
from dree.problems import Instances, Tours
from dree.tasks import Stream, Task

if TYPE_CHECKING:
    from dree.lifelong.learner import Learner
    from dree.solvers import Solver


@dataclass(frozen=True)
class Lesson:
    """One batch as it is learned."""

    instances: Instances  # the batch with its symmetric copies, copy-major; or of each only the best copy
    tours: Tours  # the solver's sampled answers to them; or only the best
    encoding: Any  # the solver's encoding of the instances, with gradient; None where only the best are there
    copies: int = 1  # of each instance
    baseline: Tensor | None = None  # [B, P] or [B, 1]: what its tours' costs are compared with, unless it is their mean
    behaviour: Tensor | None = None  # [B, S, K] the policy along the best tours, where it is known already
    given: tuple[Instances, Tours] | None = None  # the batch without its copies and all its tours, likewise
    loss: Tensor | None = None  # its own, as `Learner.loss` gives it, likewise

    def best_only(self, solver: Solver) -> Lesson:
        """Of each instance only the copy that was solved best, that tour and the policy along it, and the originals."""
        rows, best = self.best()
        instances = self.instances[rows]
        with torch.no_grad():
            behaviour = solver.behave(instances, best, encoding=self.encoding[rows])
        return Lesson(instances, best, None, behaviour=behaviour, given=self.originals())

    def map(self, change: Callable[[Tensor], Tensor]) -> Lesson:
        """A lesson of best tours only, without its loss, with every tensor changed in the same way."""
        assert self.behaviour is not None
        assert self.given is not None

        def changed(instances: Instances, tours: Tours) -> tuple[Instances, Tours]:
            tensors = map(change, instances.tensors())
            return Instances(*tensors), Tours(change(tours.actions), change(tours.costs))

        best, given = changed(self.instances, self.tours), changed(*self.given)
        return Lesson(*best, None, behaviour=change(self.behaviour), given=given)

    def originals(self) -> tuple[Instances, Tours]:
        """The instances without their mirrored copies, and all their tours, as tensors of their own."""
        if self.given is not None:
            return self.given
        rows = torch.arange(len(self.instances) // self.copies, device=self.instances.device)
        return self.instances[rows], Tours(self.tours.actions[rows], self.tours.costs[rows])

    def best(self) -> tuple[Tensor, Tours]:
        """The copy on which each instance was solved best, as a row of `instances`, and that tour (P = 1)."""
        if self.behaviour is not None:
            return torch.arange(len(self.instances), device=self.instances.device), self.tours
        best = self.tours.best()
        costs = best.costs.view(self.copies, -1)
        rows = costs.argmin(0) * costs.shape[1] + torch.arange(costs.shape[1], device=costs.device)
        return rows, Tours(best.actions[rows], best.costs[rows])


NO_LOSS = {  # what a hook does that has none
    "pull": "For no loss, return None in place of a function.",
    "replay": "Return None while there is nothing to replay.",
}


@dataclass(frozen=True)
class NoOptions:
    """A method without options."""


class Method:
    """The base of every method. All hooks do nothing; a method overrides what it needs."""

    whole_lessons: bool = True  # False: of a lesson it needs `best`, `originals` or `Experience.of`; faster on GPUs
    batches_per_epoch: int = 164  # new batches an epoch; a method that solves more for itself takes fewer
    options_class: type = NoOptions  # a frozen dataclass: what can be set, with its defaults

    def __init__(self, options: Any = None) -> None:
        """A method that has learned nothing yet."""
        self.options = self.options_class() if options is None else options

    def begin(self, learner: Learner, stream: Stream, epoch: int) -> None:
        """An epoch begins."""

    def choose(self, stream: Stream, epoch: int, generator: torch.Generator) -> Task:
        """The task of the next batch: by default the one the stream is at. The generator is on the host."""
        return stream.task(epoch)

    def pull(self, learner: Learner) -> Callable[[Lesson], Tensor] | None:
        """A loss on whole lessons, added to the solver's own on each: a function of the lesson; None for none.

        On GPUs it is captured together with that, and captured anew when this gives another function. So a function
        may depend on nothing but the lesson, the solver's weights and tensors that stay in place, and must not wait
        for the device; and this should give the same one as long as it serves.
        """
        return None

    def replay(self, learner: Learner, lesson: Lesson) -> Tensor | None:
        """A loss from the past, added to the lesson's own; None while there is nothing to replay."""
        return None

    def remember(self, learner: Learner, lesson: Lesson) -> None:
        """Keep what will be needed of this lesson; the optimiser has just made its step."""

    def end(self, learner: Learner, stream: Stream, epoch: int) -> None:
        """An epoch is over."""

    def report(self) -> dict[str, float]:
        """Numbers worth a line in the run's log after every epoch, such as the size of a buffer."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Everything that must survive an interruption, as tensors and plain values."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any], learner: Learner) -> None:
        """Take over the state of an earlier `state_dict`, whose tensors are on the CPU now."""


def own_method(method: Method) -> str | None:
    """The path of a user's own method; None of one that comes with dree."""
    kind = type(method)
    return None if kind.__module__.startswith("dree.") else f"{kind.__module__}.{kind.__qualname__}"


def suspicion(method: Method) -> str:
    """A sentence for where numbers are no longer finite: a user's own method may be why. Nothing for one of dree's."""
    own = own_method(method)
    if own is None:
        return ""
    return (
        f" A loss of {own}, from 'pull' or 'replay', or its gradient may be the cause: dree.testing.check_method finds "
        "such faults within seconds."
    )


def checked_loss(method: Method, hook: str, loss: Any) -> Tensor:
    """What a hook returned, if it is a loss: a single number, as a tensor with gradient. Its value is not looked at."""
    if not isinstance(loss, Tensor):
        fault = _kind(loss)
    elif loss.ndim:
        fault = f"a tensor of shape {list(loss.shape)}"
    elif not loss.requires_grad:
        fault = "a tensor without gradient, from which nothing is learned"
    else:
        return loss
    raise _wrong(
        method,
        hook,
        fault,
        "a tensor that is a single number and was computed with learner.solver, without detach and outside of "
        f"torch.no_grad(). {NO_LOSS[hook]}",
    )


def checked_task(method: Method, task: Any) -> Task:
    """What `choose` returned, if it is a task."""
    if isinstance(task, Task):
        return task
    raise _wrong(
        method,
        "choose",
        _kind(task),
        "a task: one of the stream's, such as stream.task(epoch), or a dree.tasks.Task of your own.",
    )


def checked_state(method: Method, state: Any) -> dict[str, Any]:
    """What `state_dict` returned, if it is a dict and a checkpoint can hold it."""
    fault = unstorable(state) if isinstance(state, dict) else _kind(state)
    if fault is None:
        return dict(state)
    raise _wrong(method, "state_dict", fault, f"a dict of what a checkpoint can hold: {STORABLE}.")


def _kind(value: Any) -> str:
    return "None" if value is None else with_article(type(value).__name__)


def _wrong(method: Method, hook: str, returned: str, wanted: str) -> DreeError:
    name = own_method(method) or type(method).__name__
    return DreeError(f"The hook '{hook}' of the method {name} returned {returned}. It must be {wanted}")


@contextmanager
def in_hook(method: Method, hook: str) -> Iterator[None]:
    """Say of an error in a hook of a user's own method where it was, below the traceback of their code.

    Of hooks within each other it is the inner one; and memory that is too small is no fault of a hook.
    """
    begins = "This was in the hook "
    try:
        yield
    except (DreeError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        name = own_method(method)
        noted = any(note.startswith(begins) for note in getattr(error, "__notes__", ()))
        if not noted and name is not None:
            error.add_note(
                f"{begins}'{hook}' of your method {name}. "
                "dree.testing.check_method finds such faults within seconds: docs/own-method.md, 'Is it sound?'."
            )
        raise
