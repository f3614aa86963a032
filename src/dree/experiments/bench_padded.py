"""Whether instances of several sizes, padded to one batch, are decided on as each size by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dree.experiments.bench_parts import backward, compare
from dree.lifelong import Learner
from dree.lifelong.steps import Step, padded
from dree.problems import Instances, State


def padded_against_alone(learner: Learner, batches: Sequence[Instances]) -> tuple[float, float, float]:
    """How far first decisions are from each other, and the gradients of a random weighted sum of all of them.

    The largest difference of a probability; and of the gradients the cosine and the relative distance. Where work can
    be captured, it is.
    """
    steps = [_first_step(learner, instances) for instances in batches]
    instances, (sizes_B, starts, policy, _, *state) = padded(steps)
    weights = torch.randn(policy.shape, generator=learner.generator("weights"), device=learner.device)

    def weighted(
        given: Instances, encoding: Any, weights: Tensor, starts: Tensor, *state: Tensor
    ) -> tuple[Tensor, Tensor]:
        chances = learner.solver.decide(given, starts, State(*state), encoding=encoding).exp()
        return (chances * weights).sum(), chances.detach()

    def together(_: torch.Generator, given: Instances, sizes_B: Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        return weighted(given, learner.encode_padded(given, sizes_B), *inputs)

    def alone(_: torch.Generator, given: Instances, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        return weighted(given, learner.encode(given), *inputs)

    value, chances = learner.differentiate("together", together, instances, sizes_B, weights, starts, *state)
    gradient, values, furthest = _gradient(learner, value), [], 0.0
    rows = [len(step.instances) for step in steps]
    for step, ours, weight in zip(steps, torch.split(chances, rows), torch.split(weights, rows), strict=True):
        _, tours, nodes = step.policy.shape
        inputs = (weight[:, :tours, :nodes].contiguous(), step.starts, *step.state.tensors())
        value, theirs = learner.differentiate("alone", alone, step.instances, *inputs)
        furthest = max(furthest, float((ours[:, :tours, :nodes] - theirs).abs().max()))
        values.append(value)
    return furthest, *compare(gradient, _gradient(learner, torch.stack(values).sum()))


@torch.no_grad()
def _first_step(learner: Learner, instances: Instances) -> Step:
    """The first decision of all tours of a batch."""
    solver = learner.solver
    starts = solver.rules.starts(instances)
    state = solver.rules.begin(instances, starts)
    return Step(instances, starts, state, solver.decide(instances, starts, state, encoding=learner.encode(instances)))


def _gradient(learner: Learner, value: Tensor) -> Tensor:
    """Of a value, for all weights."""
    learner._flat.clear_gradient()
    backward(value)
    return learner._flat.gradient.clone()
