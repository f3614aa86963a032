"""A method that looks over the shoulder of another one: every hook is passed on, and what it does is checked."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from dree.errors import with_article
from dree.lifelong import Learner, Lesson, Method
from dree.lifelong.checkpoint import STORABLE, unstorable
from dree.lifelong.methods.base import NO_LOSS
from dree.tasks import Stream, Task
from dree.testing.common import global_chance_unused, require

LOGGED = ("epoch", "task", "loss", "cost")  # what a line of a run's log has already
# What makes the host wait for the values of a tensor on a GPU.
READING = {
    *("item", "tolist", "numpy", "cpu", "__bool__", "__float__", "__int__", "__index__", "__contains__"),
    *("is_nonzero", "equal", "allclose"),
    *("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive"),  # what they give has a size by values
}


class Observer(Method):
    """Passes every hook on to `method` and checks what it may not do."""

    def __init__(self, method: Method) -> None:
        super().__init__(method.options)
        self.method = method
        self.name = type(method).__name__
        self._taught: dict[str, bool] = {}  # whether a hook that gave losses gave a gradient with one of them

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
        """Checked as `replay` is, whenever it is called; where it would be captured on a GPU, whether it can be."""
        captured = not self.method.whole_lessons
        with self._watch("pull", learner):
            pull = self.method.pull(learner)
            again = self.method.pull(learner) if captured else pull
        require(
            again == pull,
            f"{self.name}.pull gives another function each time, so that on a GPU every batch would be captured anew. "
            "Make it once and keep it, or give a method of the object (return self._distance).",
        )
        if pull is None:
            return None

        def watched(lesson: Lesson) -> Tensor:
            with self._watch("pull", learner, lesson), Unread(f"{self.name}.pull") if captured else nullcontext():
                loss = pull(lesson)
            return self._sound("pull", loss, learner)

        return watched

    def replay(self, learner: Learner, lesson: Lesson) -> Tensor | None:
        """Checked to give a loss or None, and to leave weights, gradients and the lesson alone."""
        with self._watch("replay", learner, lesson):
            loss = self.method.replay(learner, lesson)
        return None if loss is None else self._sound("replay", loss, learner)

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
        require(isinstance(report, dict), f"{self.name}.report() gives a {type(report).__name__}, not a dict.")
        for name, value in report.items():
            what = f"{self.name}.report() has {name!r}: {value!r}"
            require(isinstance(name, str) and name not in LOGGED, f"{what}, a name that the log uses itself.")
            require(type(value) in (int, float), f"{what}, a {type(value).__name__}; it must be a plain number.")
            require(math.isfinite(value), f"{what}, which is not finite.")
        json.dumps(report)
        return report

    def state_dict(self) -> dict[str, Any]:
        """Checked to hold no gradients, and nothing that a checkpoint cannot hold."""
        state = self.method.state_dict()
        require(isinstance(state, dict), f"{self.name}.state_dict() gives a {type(state).__name__}, not a dict.")
        for path, tensor in _tensors(state, ""):
            require(
                not tensor.requires_grad,
                f"{self.name}.state_dict() has a tensor with a gradient at {path}; it would keep a whole batch's "
                "computation alive. Keep tensor.detach().",
            )
        fault = unstorable(state)
        require(fault is None, f"{self.name}.state_dict() has {fault}; a checkpoint holds {STORABLE}.")
        return state

    def load_state_dict(self, state: Mapping[str, Any], learner: Learner) -> None:
        """Passed on."""
        with self._watch("load_state_dict", learner):
            self.method.load_state_dict(state, learner)

    def _sound(self, hook: str, loss: Tensor, learner: Learner) -> Tensor:
        """A loss from which something can be learned, as it is."""
        what = f"{self.name}.{hook}"
        kind = with_article(type(loss).__name__)
        require(isinstance(loss, Tensor), f"{what} gives {kind}, not a tensor. {NO_LOSS[hook]}")
        require(loss.ndim == 0, f"{what} gives a loss of shape {list(loss.shape)}; it must be a single number.")
        require(loss.isfinite(), f"{what} gives the loss {loss.item()}, which is not finite.")
        require(loss.requires_grad, f"{what} gives a loss without a gradient, so nothing is learned from it.")
        gradients = _gradients(loss, learner)
        require(all(each.isfinite().all() for each in gradients), f"{what} gives a loss whose gradient is not finite.")
        if loss.item() != 0:
            self._taught[hook] = self._taught.get(hook, False) or any(each.any().item() for each in gradients)
        return loss

    def check_taught(self) -> None:
        """Refuse a hook whose losses have never had a gradient. (One alone may have none, as at a minimum.)"""
        for hook, taught in self._taught.items():
            require(
                taught,
                f"{self.name}.{hook} gives losses whose gradient is zero for every weight of the solver, always, so "
                "nothing is learned from them. Compute them with learner.solver, without detach and outside of "
                "torch.no_grad().",
            )

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


class Unread(TorchFunctionMode):
    """Refuses that code outside of dree, whose own work is other on a GPU, reads values of tensors on the host."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Pass a call on, unless it is one that waits for the device."""
        kwargs = kwargs or {}
        name = func.__name__
        indexed, moved = name == "__getitem__", name == "to"
        if name in READING or (indexed and _by_value(args[1])) or (moved and _to_host(args, kwargs)):
            require(
                _caller() == "dree",
                f"{self.what} reads values of a tensor on the host ({name}). On a GPU it would wait for the device, "
                "which captured work must not: compute with tensors alone, with torch.where instead of if or a mask.",
            )
        return func(*args, **kwargs)


def _by_value(index: Any) -> bool:
    """Whether an index has to be read on the host: a mask, whose count is the size, or a single number."""
    tensors = [each for each in (index if isinstance(index, tuple) else (index,)) if isinstance(each, Tensor)]
    return any(each.dtype in (torch.bool, torch.uint8) or each.ndim == 0 for each in tensors)


def _to_host(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether `Tensor.to` has been told the CPU by name; a tensor's own device is the CPU here in any case."""
    return any(isinstance(each, str) and each == "cpu" for each in (*args[1:], kwargs.get("device")))


def _caller() -> str:
    """The package whose code has called torch's."""
    frame = sys._getframe(2)
    while (package := frame.f_globals.get("__name__", "").partition(".")[0]) == "torch" and frame.f_back:
        frame = frame.f_back
    return str(package)


def _gradients(loss: Tensor, learner: Learner) -> Sequence[Tensor]:
    """A loss's gradient for the solver's weights: the network's own, and the optimiser's one tensor."""
    weights = [*learner.solver.parameters(), *learner.optimiser.param_groups[0]["params"]]
    wanted = [each for each in weights if each.requires_grad]
    return torch.autograd.grad(loss, wanted, retain_graph=True, materialize_grads=True)


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
