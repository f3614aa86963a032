"""A learner's work on a CUDA device, captured as graphs.

A graph belongs to the shapes of its inputs. The first call with new shapes captures one; later calls replay it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dree.lifelong.flat import FlatParameters
from dree.solvers.capture import capture
from dree.solvers.chunks import with_gradient
from dree.turns import new_stream

LANES = 4  # pieces of work that run side by side, where there are several

# From tensors to a tuple of tensors and of what has tensors and can `map` them; without waiting for the device.
Work = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True)
class Captured:
    """A graph with its inputs and outputs: replaying it reads and writes these."""

    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor, ...]
    outputs: tuple[Any, ...]


class Graphs:
    """Captured work by name and shapes."""

    def __init__(self, flat: FlatParameters) -> None:
        self.flat = flat
        self._lanes: list[Lane] = []
        self._elsewhere: list[Lane] = []  # lanes of the work that is done beside the rest
        self._aside = new_stream(flat.weights.device)
        self._began: torch.cuda.Event | None = None
        _expect_gradients_of_several_streams()

    def forget(self) -> None:
        """Capture everything anew from now on."""
        self._lanes.clear()
        self._elsewhere.clear()

    def begin(self) -> None:
        """What is now under way on the device is all that work done `beside` the rest will wait for."""
        self._began = torch.cuda.current_stream().record_event()

    @contextmanager
    def beside(self) -> Iterator[None]:
        """What is done here waits for nothing that came after `begin`, and what comes after waits for it.

        So memory may pass from either side to the other: whoever gets it has waited for who had it.
        """
        here = torch.cuda.current_stream()
        if self._began is None:
            self._began = here.record_event()
        self._aside.wait_event(self._began)
        self._lanes, self._elsewhere = self._elsewhere, self._lanes
        try:
            with torch.cuda.stream(self._aside):
                yield
        finally:
            self._lanes, self._elsewhere = self._elsewhere, self._lanes
            here.wait_stream(self._aside)
            self._began = None

    def differentiate(
        self, name: str, work: Work, pieces: Sequence[tuple[Tensor, ...]], seed: int
    ) -> list[tuple[Any, ...]]:
        """What some work returns for a generator and some inputs, the first of it being a scalar with its gradient.

        Several pieces of it run side by side, some at a time: alone they would leave the device half idle.
        """
        while len(self._lanes) < min(LANES, len(pieces)):
            self._lanes.append(Lane(self.flat))
        ready = torch.cuda.current_stream().record_event()
        results = []
        for number, inputs in enumerate(pieces):
            lane = self._lanes[number % len(self._lanes)]
            lane.stream.wait_event(ready)
            with torch.cuda.stream(lane.stream):
                results.append(lane.run(name, work, inputs, seed))
        for lane in self._lanes:
            torch.cuda.current_stream().wait_stream(lane.stream)
        weights = [self.flat.weights]
        return [(with_gradient(value, weights, [gradient]), *rest) for value, gradient, *rest in results]


class Lane:
    """Graphs that are never replayed at the same time, and so share their memory."""

    def __init__(self, flat: FlatParameters) -> None:
        self.flat = flat
        self.stream = new_stream(flat.weights.device)
        self._generator = torch.Generator(device=flat.weights.device)
        self._gradient = torch.zeros_like(flat.weights)  # every graph's: copied before the next is replayed
        self._captured: dict[tuple[object, ...], Captured] = {}
        self._capturing = new_stream(flat.weights.device)
        self._pool = torch.cuda.graph_pool_handle()

    def run(self, name: str, work: Work, inputs: tuple[Tensor, ...], seed: int) -> tuple[Any, ...]:
        """The value of some work, the gradient of that, and what else it returns."""

        def with_known_gradient(*tensors: Tensor) -> tuple[Any, ...]:
            value, *rest = work(self._generator, *tensors)
            gradients = torch.autograd.grad(value, self.flat.parameters, allow_unused=True)
            self._gradient.zero_()  # some weights may have none
            self.flat.gather(gradients, self._gradient)
            return (value, self._gradient, *rest)

        return self._replayed(name, with_known_gradient, inputs, seed)

    def _replayed(self, name: str, work: Work, inputs: tuple[Tensor, ...], seed: int) -> tuple[Any, ...]:
        key = (name, *((tensor.shape, tensor.dtype) for tensor in inputs))
        if key not in self._captured:
            self._captured[key] = self._capture(work, inputs)
        captured = self._captured[key]
        for static, given in zip(captured.inputs, inputs, strict=True):
            static.copy_(given)
        self._generator.manual_seed(seed)
        captured.graph.replay()
        return _mapped(captured.outputs, torch.clone)

    def _capture(self, work: Work, inputs: tuple[Tensor, ...]) -> Captured:
        static = tuple(tensor.clone() for tensor in inputs)
        graph, outputs = capture(partial(work, *static), self._capturing, self._pool, self._generator)
        return Captured(graph, static, _mapped(outputs, torch.detach))


def _expect_gradients_of_several_streams() -> None:
    """What is done beside the rest has its gradient on its own stream, on purpose: PyTorch need not warn of that."""
    warn = getattr(torch.autograd.graph, "set_warn_on_accumulate_grad_stream_mismatch", None)  # older ones never do
    if warn is not None:
        warn(False)


def _mapped(outputs: tuple[Any, ...], change: Callable[[Tensor], Tensor]) -> tuple[Any, ...]:
    return tuple(change(output) if isinstance(output, Tensor) else output.map(change) for output in outputs)
