"""Meta-learning of a starting model: it learns to be good after a step on a task, not before (Zhou et al., 2023).

One iteration: from the starting model an inner step on a batch of a task leads to an adapted model; the adapted
model's loss on a fresh batch of the same task, seen as a function of the starting model, is what an outer step lowers.

First order takes the inner step for a constant shift. Second order differentiates through it. That needs no graph of
everything: going back through a step from w to w' = update(w, g(w)), a gradient u at w' becomes

    u * dupdate/dw + H (u * dupdate/dg),

where the update is a few operations for each weight and H, the Hessian of the inner loss, appears in a product with
one vector only. So tours, losses and gradients come from the solver's fast path, and only that product is computed
with plain operations, in chunks of tours. Tours and their advantages are constants throughout, as in the original.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dree.lifelong.flat import FlatParameters
from dree.lifelong.graphs import Graphs
from dree.lifelong.learner import Progress, reinforce, shared_baseline
from dree.lifelong.meta.adam import Moments, adam, descend
from dree.lifelong.meta.curvature import curvature
from dree.lifelong.meta.schedule import Share
from dree.lifelong.meta.settings import MetaSettings
from dree.lifelong.methods import Lesson
from dree.problems import Instances, Tours
from dree.randomness import named_generator, named_seed
from dree.solvers import POMO
from dree.solvers.precision import in_precision

# From weights and gradient to new weights, differentiable in both, and to new moments.
Update = Callable[[Tensor, Tensor], tuple[Tensor, Moments]]


@dataclass(frozen=True)
class Slope:
    """The gradient of a batch's loss for all weights, and what it is made of."""

    instances: Instances
    tours: Tours
    gradient: Tensor
    loss: Tensor


@dataclass(frozen=True)
class Step:
    """An inner step: where it began, the slope there, and where that leads."""

    weights: Tensor
    slope: Slope
    update: Update


class MetaLearner:
    """A solver to start from, and the moments of the Adam that inner and outer steps share."""

    def __init__(self, solver: POMO, settings: MetaSettings, seed: int = 0) -> None:
        self.solver = solver
        self.settings = settings
        self.seed = seed
        self.iteration = 0  # complete
        self.device = next(solver.parameters()).device
        self._flat = FlatParameters(solver)
        self._graphs = Graphs(self._flat) if self.device.type == "cuda" else None
        self.moments = Moments.none(self.weights)

    @property
    def weights(self) -> Tensor:
        """All weights of the solver, which follow what is written into them."""
        return self._flat.weights.detach()

    def learn(self, shares: Sequence[Share]) -> Progress:
        """One iteration on given tasks."""
        number, settings = self.iteration + 1, self.settings
        start, total = self.weights.clone(), torch.zeros_like(self.weights)
        loss = torch.zeros((), device=self.device)
        costs = []
        for index, share in enumerate(shares):
            path = self._adapt(share, index)
            query = self._slope(share, "query", index)
            weight = settings.outer_weight * share.weight
            gradient = weight * query.gradient
            if settings.second_order_at(number):
                gradient = self._through(path, gradient)
            self.weights.copy_(start)
            total += gradient
            loss = loss + weight * query.loss
            costs.append(query.tours.costs.amin(1).mean())
        changed, self.moments = adam(start, total, self.moments, settings.rate_at(number), settings.weight_decay)
        self.weights.copy_(changed)
        self.iteration = number
        return Progress(loss, torch.stack(costs).mean(), own=loss)

    def _adapt(self, share: Share, index: int) -> list[Step]:
        """Take the inner steps on a task; the solver is the adapted one after that.

        First order begins each time with an Adam of its own. Second order takes the outer one's moments and leaves its
        own there; as long as there are none, its step is the plain gradient's.
        """
        rate, decay = self.settings.rate_at(self.iteration + 1), self.settings.weight_decay
        shared = self.settings.second_order_at(self.iteration + 1)
        own, path = Moments.none(self.weights), []
        for step in range(self.settings.inner_steps):
            slope = self._slope(share, "support", index, step)
            moments = self.moments if shared else own
            way = descend if shared and not moments.steps else adam
            update = partial(way, moments=moments, rate=rate, decay=decay)
            path.append(Step(self.weights.clone(), slope, update))
            changed, moments = update(self.weights, slope.gradient)
            self.weights.copy_(changed)
            if shared:
                self.moments = moments
            else:
                own = moments
        return path

    def _through(self, path: Sequence[Step], gradient: Tensor) -> Tensor:
        """The gradient for the starting model of a loss whose gradient for the adapted model is given."""
        for step in reversed(path):
            weights, slope = step.weights.requires_grad_(), step.slope.gradient.requires_grad_()
            to_weights, to_slope = torch.autograd.grad(step.update(weights, slope)[0], (weights, slope), gradient)
            self.weights.copy_(step.weights.detach())
            shares = _shares(step.slope.tours)
            lesson = (step.slope.instances, step.slope.tours.actions, shares)
            bend = curvature(self.solver, self._flat, *lesson, to_slope, self.settings.second_order_bytes)
            # What has no slope at all, such as a bias before a norm, has rounding here, which Adam would blow up.
            gradient = to_weights + torch.where(slope.detach() == 0, 0.0, bend)
        return gradient

    def _slope(self, share: Share, *purpose: str | int) -> Slope:
        """The REINFORCE loss on a fresh batch of a task, with its gradient."""
        name = (*purpose, self.iteration + 1)
        generator = named_generator(self.seed, "instances", *name, device=self.device)
        instances = share.task.sample(self.settings.batch_at(share.task.size), generator)
        if self._graphs is not None and self.solver.capturable(instances.nodes):
            seed = named_seed(self.seed, "solve", *name)
            ((value, *rest),) = self._graphs.differentiate("slope", self._work, [instances.tensors()], seed)
            (gradient,) = torch.autograd.grad(value, [self._flat.weights])
        else:
            dice = named_generator(self.seed, "solve", *name, device=self.device)
            value, *rest = self._work(dice, *instances.tensors())
            gradient = self._flat.gradient_of(value)
        return Slope(instances, Tours(*rest), gradient, value.detach())

    def _work(self, generator: torch.Generator, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sample tours and take the loss: what is captured as a graph on a CUDA device."""
        instances = Instances(*tensors)
        with in_precision(self.settings.precision, self.device, learning=True):
            encoding = self.solver.encode(instances)
        tours = self.solver.solve(instances, generator=generator, encoding=encoding, record=True)
        return reinforce(self.solver, Lesson(instances, tours, encoding)), tours.actions, tours.costs

    def state_dict(self) -> dict[str, Any]:
        """Everything that must survive an interruption, as tensors and plain values."""
        return {
            "batches": self.iteration,
            "solver": self.solver.state_dict(),
            "moments": self.moments.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where an earlier `state_dict` was taken."""
        self.iteration = state["batches"]
        self.solver.load_state_dict(state["solver"])
        self.moments = Moments.from_state(state["moments"], self.device)


def _shares(tours: Tours) -> Tensor:
    """The weight of each tour's log-probability in the loss: [B, P]."""
    advantage = shared_baseline(tours)
    return advantage / advantage.numel()
