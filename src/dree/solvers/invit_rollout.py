"""INViT's tours in the making.

A step is some two hundred small pieces of work, and on a CUDA device launching them one by one takes far longer than
they do. So there a step is captured as a graph, once for each shape, and replayed until all tours have ended. All its
tensors stay where they are: before a rollout what it needs is copied into them.

Shapes: B instances, P tours of each, T actions of the longest tour, R = B * P states, K slots.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor

from dree.errors import DreeError
from dree.problems import Instances, Rules, State
from dree.solvers.capture import capture, captured
from dree.solvers.sampling import sample
from dree.turns import new_stream

AHEAD = 8  # steps that are replayed before others take their turn, and before looking whether tours have ended
ENDLESS = (
    "A tour does not end. Either the solver's weights are no longer finite numbers (try a smaller learning rate), or a "
    "coordinate is none, or a demand exceeds the capacity (Instances.validated() says which), "
    "or equals it, which strict_capacity rules out."
)

KEPT_BYTES = 2**30  # what captured rollouts begin from; those that have not been used for longest go

# From a state, and how many customers are left at most, to the policy there and the nodes of its slots: [R, K].
Look = Callable[[State, int], tuple[Tensor, Tensor]]
Make = Callable[[tuple[Tensor, ...], dict[str, Tensor]], "Rollout"]  # of inputs and weights


class Rollout:
    """Some tours, step by step; decisions are drawn by uniform numbers [B, P, T], or greedy where there are none."""

    def __init__(
        self, rules: Rules, instances: Instances, starts_BP: Tensor, longest: int, uniform: Tensor | None, look: Look
    ) -> None:
        self.rules, self.instances = rules, instances
        self._starts, self._longest, self._uniform, self._look = starts_BP, longest, uniform, look
        self._state = rules.begin(instances, starts_BP).map(torch.clone)
        self.actions = torch.empty(*starts_BP.shape, longest, dtype=torch.int64, device=starts_BP.device)
        self._taken = torch.empty(1, dtype=torch.int64, device=starts_BP.device)  # actions so far
        self.begin()

    def begin(self) -> None:
        """From the start, again."""
        self._move(self.rules.begin(self.instances, self._starts))
        self.actions.zero_()
        self.actions[..., 0] = self._starts
        self._taken.fill_(1)

    def step(self, left: int) -> None:
        """One more action of every tour, while at most so many customers are left."""
        policy, nodes = self._look(self._state, left)
        if self._uniform is None:
            slot = policy.argmax(-1)
        else:
            slot = sample(policy, self._uniform.index_select(-1, self._taken).view(-1, 1))
        action = nodes.gather(1, slot[:, None]).clamp(min=0).view_as(self._starts)
        self.actions.index_copy_(-1, self._taken, action[..., None])
        self._move(self.rules.advance(self.instances, self._state, action))
        self._taken += 1

    def left(self) -> int:
        """How many customers are left at most."""
        return max(1, self.instances.customers - int(self._state.served.min()))

    def finish(self, step: Callable[[], None], every: int = 1) -> Generator[None, None, Tensor]:
        """All actions [B, P, T], by a way to take a step; now and then it pauses, and looks whether it is over."""
        shortest, taken = self.rules.shortest(self.instances), 1
        while taken < self._longest:
            if taken % every == 0:
                yield
                if taken >= shortest and self._finished():
                    break
            step()
            taken += 1
        yield
        if not self._finished():
            raise DreeError(ENDLESS)
        return self.actions[..., :taken].clone()

    def _finished(self) -> bool:
        return bool(self.rules.finished(self.instances, self._state).all())

    def _move(self, state: State) -> None:
        for place, tensor in zip(self._state.tensors(), state.tensors(), strict=True):
            place.copy_(tensor)


@dataclass(frozen=True)
class Captured:
    """A rollout, the tensors from which it begins, and a way to take its next step."""

    rollout: Rollout
    inputs: tuple[Tensor, ...]
    step: Callable[[], None]

    @property
    def bytes(self) -> int:
        """About the memory it takes."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.inputs)


class CapturedSteps:
    """Rollouts whose steps are captured, by the shapes of what they are made of.

    All are captured on one stream into one pool: memory of one that is over serves for the next.
    """

    def __init__(self) -> None:
        self._captured: dict[object, Captured] = {}  # those used last come last
        self._weights: dict[object, dict[str, Tensor]] = {}
        self._pool: Any = None
        self._stream: torch.cuda.Stream | None = None
        self._busy = False

    def __deepcopy__(self, memo: object) -> Self:
        """Of a solver that is copied: its copy captures its own."""
        return type(self)()

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        """Likewise of one that is pickled."""
        return type(self), ()

    def run(
        self, inputs: tuple[Tensor, ...], weights: dict[str, Tensor], make: Make, key: object
    ) -> Generator[None, None, Tensor]:
        """All actions [B, P, T] of the rollout that is made of these. One captured before serves if only values differ.

        The key stands for everything else that a rollout depends on.
        """
        if captured(inputs[0].device):
            raise RuntimeError("INViT captures the steps of its tours, so solving cannot be part of captured work")
        if self._busy:
            raise RuntimeError("all captured steps of an INViT share their memory, so its own tours cannot take turns")
        self._busy = True
        try:
            rollout, step = self._ready(inputs, weights, make, key)
            return (yield from rollout.finish(step, AHEAD))
        finally:
            self._busy = False

    @torch.no_grad()
    def _ready(
        self, inputs: tuple[Tensor, ...], weights: dict[str, Tensor], make: Make, key: object
    ) -> tuple[Rollout, Callable[[], None]]:
        """A rollout at its beginning, and a way to take a step."""
        kinds = (inputs[0].device, *(weight.dtype for weight in weights.values()))
        whole_key = (key, kinds, *((tensor.shape, tensor.dtype) for tensor in inputs))
        own_weights = self._placed(weights, kinds)
        found = self._captured.pop(whole_key, None)
        if found is None:
            static = tuple(tensor.clone(memory_format=torch.contiguous_format) for tensor in inputs)
            rollout = make(static, own_weights)
            found = Captured(rollout, static, self._capture(rollout))
        self._captured[whole_key] = found
        while len(self._captured) > 1 and sum(each.bytes for each in self._captured.values()) > KEPT_BYTES:
            del self._captured[next(iter(self._captured))]
        for place, tensor in zip(found.inputs, inputs, strict=True):
            place.copy_(tensor)
        found.rollout.begin()
        return found.rollout, found.step

    def _placed(self, weights: dict[str, Tensor], kinds: object) -> dict[str, Tensor]:
        """The weights as they are now, where all captured steps look for them."""
        if kinds not in self._weights:
            self._weights[kinds] = {name: torch.empty_like(weight) for name, weight in weights.items()}
        places = self._weights[kinds]
        for kind in {weight.dtype for weight in weights.values()}:
            names = [name for name, weight in weights.items() if weight.dtype == kind]
            torch._foreach_copy_([places[name] for name in names], [weights[name] for name in names])
        return places

    def _capture(self, rollout: Rollout) -> Callable[[], None]:
        """A step, to be replayed."""
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        self._stream = self._stream or new_stream(rollout.instances.device)
        graph, _ = capture(partial(rollout.step, rollout.instances.customers), self._stream, self._pool)
        return graph.replay
