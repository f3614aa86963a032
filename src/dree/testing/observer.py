"""A method that looks over the shoulder of another one: every hook is passed on, and what it does is checked."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from dree.lifelong import Learner, Lesson, Method
from dree.tasks import Stream, Task
from dree.testing.common import global_chance_unused, require

LOGGED = ("epoch", "task", "loss", "cost")  # what a line of a run's log has already


class Observer(Method):
    """Passes every hook on to `method` and checks what it may not do."""

    def __init__(self, method: Method) -> None:
        super().__init__(method.options)
        self.method = method
        self.name = type(method).__name__

    def begin(self, learner: Learner, stream: Stream, epoch: int) -> None:
        """Checked for randomness and settings."""
        with self._watch("begin", learner):
            self.method.begin(learner, stream, epoch)

    def choose(self, stream: Stream, epoch: int, generator: torch.Generator) -> Task:
        """Checked for randomness; whether the task can be had is the stream's business."""
        with global_chance_unused(f"{self.name}.choose"):
            task = self.method.choose(stream, epoch, generator)
        require(isinstance(task, Task), f"{self.name}.choose gives a {type(task).__name__}, not a Task.")
        return task

    def pull(self, learner: Learner) -> Callable[[Lesson], Tensor] | None:
        """Checked as `replay` is, whenever it is called."""
        with self._watch("pull", learner):
            pull = self.method.pull(learner)
        if pull is None:
            return None

        def watched(lesson: Lesson) -> Tensor:
            with self._watch("pull", learner, lesson):
                loss = pull(lesson)
            return _sound(loss, f"{self.name}.pull")

        return watched

    def replay(self, learner: Learner, lesson: Lesson) -> Tensor | None:
        """Checked to give a loss or None, and to leave weights, gradients and the lesson alone."""
        with self._watch("replay", learner, lesson):
            loss = self.method.replay(learner, lesson)
        return None if loss is None else _sound(loss, f"{self.name}.replay")

    def remember(self, learner: Learner, lesson: Lesson) -> None:
        """Checked to leave weights and the lesson alone."""
        with self._watch("remember", learner, lesson):
            self.method.remember(learner, lesson)

    def end(self, learner: Learner, stream: Stream, epoch: int) -> None:
        """Checked for randomness and settings."""
        with self._watch("end", learner):
            self.method.end(learner, stream, epoch)

    def report(self) -> dict[str, float]:
        """Checked to be plain, finite numbers under names that the log does not have yet."""
        report = self.method.report()
        for name, value in report.items():
            what = f"{self.name}.report() has {name!r}: {value!r}"
            require(isinstance(name, str) and name not in LOGGED, f"{what}, a name that the log uses itself.")
            require(type(value) in (int, float), f"{what}, a {type(value).__name__}; it must be a plain number.")
            require(math.isfinite(value), f"{what}, which is not finite.")
        json.dumps(report)
        return report

    def state_dict(self) -> dict[str, Any]:
        """Checked to hold no gradients."""
        state = self.method.state_dict()
        require(isinstance(state, dict), f"{self.name}.state_dict() gives a {type(state).__name__}, not a dict.")
        for path, tensor in _tensors(state, ""):
            require(
                not tensor.requires_grad,
                f"{self.name}.state_dict() has a tensor with a gradient at {path}; it would keep a whole batch's "
                "computation alive. Keep tensor.detach().",
            )
        return state

    def load_state_dict(self, state: Mapping[str, Any], learner: Learner) -> None:
        """Passed on."""
        with self._watch("load_state_dict", learner):
            self.method.load_state_dict(state, learner)

    @contextmanager
    def _watch(self, hook: str, learner: Learner, lesson: Lesson | None = None) -> Iterator[None]:
        """Refuse hidden randomness and changed settings; where there is a lesson, changes of it or of weights too."""
        settings = _optimiser_settings(learner)
        before = {} if lesson is None else _versions(learner, lesson)
        with global_chance_unused(f"{self.name}.{hook}"):
            yield
        after = {} if lesson is None else _versions(learner, lesson)
        for name, version in after.items():
            require(version == before[name], f"{self.name}.{hook} changes {name} in place. {_ADVICE[name]}")
        require(
            _optimiser_settings(learner) == settings,
            f"{self.name}.{hook} changes the optimiser's settings. They are the learner's, the same for all methods.",
        )


_ADVICE = {
    "the solver's weights": "Only the optimiser's step may; give a loss instead.",
    "the solver's gradients": "They are cleared before the learner's own backward pass; give a loss instead.",
    "the lesson": "Change a copy.",
}


def _sound(loss: Tensor, what: str) -> Tensor:
    """A loss from which something can be learned, as it is."""
    require(isinstance(loss, Tensor), f"{what} gives a {type(loss).__name__}, not a tensor or None.")
    require(loss.ndim == 0, f"{what} gives a loss of shape {list(loss.shape)}; it must be a single number.")
    require(loss.isfinite(), f"{what} gives the loss {loss.item()}, which is not finite.")
    require(loss.requires_grad, f"{what} gives a loss without a gradient, so nothing is learned from it.")
    return loss


def _versions(learner: Learner, lesson: Lesson) -> dict[str, list[int]]:
    """How often the tensors that a hook must leave alone have been changed in place."""
    parameters = list(learner.solver.parameters())
    groups: dict[str, list[Tensor]] = {
        "the solver's weights": [*parameters],
        "the solver's gradients": [each.grad for each in parameters if each.grad is not None],
        "the lesson": [*lesson.instances.tensors(), lesson.tours.actions, lesson.tours.costs],
    }
    return {name: [tensor._version for tensor in tensors] for name, tensors in groups.items()}


def _optimiser_settings(learner: Learner) -> str:
    """As text, in which tuples and the lists that checkpoints make of them are the same."""
    groups = learner.optimiser.param_groups
    return json.dumps([{name: value for name, value in group.items() if name != "params"} for group in groups])


def _tensors(value: object, path: str) -> Iterator[tuple[str, Tensor]]:
    """All tensors in nested dicts and lists, with their paths."""
    if isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _tensors(item, f"{path}/{key}")
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield from _tensors(item, f"{path}/{place}")
