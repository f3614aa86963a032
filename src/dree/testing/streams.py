"""What a stream must keep to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dree.errors import DreeError
from dree.problems import Instances, rules
from dree.randomness import named_generator
from dree.tasks import Stream, Task, check_drawn
from dree.testing.common import global_chance_unused, require

BATCH = 3


def check_stream(stream: Stream) -> None:
    """Check the tasks of all epochs, the test tasks, and when which is active. Every task is sampled."""
    name = type(stream).__name__
    rules(stream.problem)
    require(
        type(stream.epochs) is int and stream.epochs >= 1,
        f"{name}.epochs is {stream.epochs!r}; it must be a whole number of at least 1.",
    )
    known: dict[str, Task] = {}
    for epoch in range(stream.epochs + 1):
        task, again = stream.task(epoch), stream.task(epoch)
        where = f"{name}.task({epoch})"
        require(isinstance(task, Task), f"{where} is {task!r}, which is not a Task.")
        require(
            (task.name, task.size) == (again.name, again.size),
            f"{where} is {task.name} ({task.size} customers) once and {again.name} ({again.size}) the next time.",
        )
        _check_name(task, known, stream.problem, where)
    for outside in (-1, stream.epochs + 1):
        _check_refused(
            stream.task,
            outside,
            f"{name}.task({outside})",
            f"it has the epochs 0 to {stream.epochs}, as self.check_epoch(t) checks",
        )
    _check_parts(stream, name)
    _check_tests(stream, name, known)


def _check_parts(stream: Stream, name: str) -> None:
    """The first and last epochs of stationary tasks fit together, and within one nothing changes."""
    last = stream.epochs
    require(stream.begins(1), f"{name}.begins(1) is false, but with epoch 1 some task begins.")
    require(stream.ends(last), f"{name}.ends({last}) is false, but with the last epoch some task ends.")
    for epoch in range(1, last):
        require(
            stream.ends(epoch) == stream.begins(epoch + 1),
            f"{name}.ends({epoch}) is {stream.ends(epoch)}, but {name}.begins({epoch + 1}) is not the same.",
        )
        before, after = stream.task(epoch).name, stream.task(epoch + 1).name
        require(
            stream.ends(epoch) or before == after,
            f"{name} goes from {before} to {after} after epoch {epoch}, though {name}.ends({epoch}) is false.",
        )
    for outside in (0, last + 1):
        for ask in (stream.begins, stream.ends):
            _check_refused(
                ask,
                outside,
                f"{name}.{ask.__name__}({outside})",
                f"training has the epochs 1 to {last}, as self.check_epoch(t, first=1) checks",
            )


def _check_tests(stream: Stream, name: str, known: dict[str, Task]) -> None:
    """Test tasks are sound, and active in order and whenever they are what is learned."""
    tests = stream.tests()
    require(tests, f"{name}.tests() is empty: there is nothing to test on.")
    for label, task in tests.items():
        require(isinstance(label, str) and label, f"{name}.tests() has {label!r} for a name.")
        require(isinstance(task, Task), f"{name}.tests()[{label!r}] is {task!r}, which is not a Task.")
        _check_name(task, known, stream.problem, f"{name}.tests()[{label!r}]")
        intervals = stream.active(label)
        where = f"{name}.active({label!r})"
        bounds = [0, *(bound for interval in intervals for bound in interval), stream.epochs + 1]
        apart = all(last < first for last, first in zip(bounds[0::2], bounds[1::2], strict=True))
        require(
            apart and all(first <= last for first, last in intervals),
            f"{where} is {intervals}; it must be intervals (first, last) within 1 to {stream.epochs}, "
            "in order and without overlap.",
        )
        for epoch in range(1, stream.epochs + 1):
            active = any(first <= epoch <= last for first, last in intervals)
            require(
                active or stream.task(epoch).name != task.name,
                f"{where} leaves out epoch {epoch}, whose task is this very task, {task.name}.",
            )
    _check_refused(stream.active, "no such test", f"{name}.active('no such test')", "there is no such test task")


def _check_name(task: Task, known: dict[str, Task], problem: str, where: str) -> None:
    """One name is one task; what has a new name is sampled."""
    require(isinstance(task.name, str) and task.name, f"{where} has the name {task.name!r}; it must be some text.")
    if task.name not in known:
        check_task(task, problem, where)
        known[task.name] = task
    require(
        task.size == known[task.name].size,
        f"{where} is called {task.name} and has {task.size} customers; the same name stood for "
        f"{known[task.name].size} customers before.",
    )


def check_task(task: Task, problem: str, where: str) -> None:
    """Instances are sound, of the declared problem and size, and depend on the generator alone."""
    require(
        task.problem == problem, f"{where} says that its problem is {task.problem!r}, in a stream of {problem} tasks."
    )
    require(type(task.size) is int, f"{where} has size {task.size!r}; it must be a whole number.")

    def sample(batch: int) -> Instances:
        with global_chance_unused(f"{where}.sample"):
            return task.sample(batch, named_generator(0, "check_stream", task.name))

    for batch in (1, BATCH):
        instances = sample(batch)
        require(
            len(instances) == batch, f"{where}.sample gives {len(instances)} instances where {batch} were asked for."
        )
        require(instances.problem == problem, f"{where}.sample gives {instances.problem} instances, not {problem}.")
        require(
            instances.customers == task.size,
            f"{where} says that it has {task.size} customers, but samples instances with {instances.customers}.",
        )
        check_drawn(instances, f"{where}.sample")
    pairs = zip(sample(BATCH).tensors(), sample(BATCH).tensors(), strict=True)
    require(
        all(torch.equal(one, other) for one, other in pairs),
        f"{where}.sample gives different instances for the same generator.",
    )


def _check_refused(ask: Callable[[Any], object], value: object, call: str, why: str) -> None:
    """A question outside the stream is an error, not an answer."""
    try:
        ask(value)
    except DreeError:
        return
    raise AssertionError(f"{call} must raise a DreeError: {why}.")
