"""What timing and checking the fast path have in common."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dree.lifelong import Learner, LearnerSettings, Lesson, Method
from dree.lifelong.learning import OPTIMISERS
from dree.problems import Instances, Tours
from dree.randomness import named_generator
from dree.settings import build
from dree.solvers import INViT, Solver, invit_twin, make_solver, pomo_twin
from dree.tasks import SyntheticTask


def twin_of(solver: Solver) -> Callable[..., tuple[Tours, Tensor]]:
    """The step-by-step rollout of a solver."""
    return invit_twin.rollout if isinstance(solver, INViT) else pomo_twin.rollout


def twin_step(solver: Solver, settings: LearnerSettings) -> Callable[[Instances], None]:
    """A step of fine-tuning by the twin, with the solver's own baseline and optimiser."""
    rollout, frozen, batches = twin_of(solver), copy.deepcopy(solver), itertools.count()
    rate, decay = settings.learning_rate, settings.weight_decay
    optimiser = OPTIMISERS[settings.optimiser](solver.parameters(), lr=rate, weight_decay=decay, fused=True)

    def step(instances: Instances) -> None:
        generator = named_generator(0, "twin", next(batches), device=instances.device)
        tours, log_prob = rollout(solver, instances, generator=generator)
        if settings.baseline == "greedy":
            with torch.no_grad():
                baseline = rollout(frozen, instances, frozen.starts(instances, generator))[0].costs
        else:
            baseline = tours.costs.mean(1, keepdim=True)
        optimiser.zero_grad()
        backward(((tours.costs - baseline) * log_prob).mean())
        optimiser.step()

    return step


def random_learner(
    base: str,
    problem: str,
    method: Method,
    precision: str,
    device: torch.device,
    *,
    captured: bool = True,
    exact: bool = False,
) -> Learner:
    """A learner with a random network of full size; an exact one has weights in double precision."""
    solver = make_solver(problem, base).to(device, torch.float64 if exact else torch.float32)
    solver.captures_itself = solver.captures_itself and captured
    learner = Learner(solver, method, build(LearnerSettings, {**solver.learning, "precision": precision}))
    if not captured:
        learner._graphs = None
    return learner


def recorded(learner: Learner, instances: Instances) -> Lesson:
    """These very instances, encoded and solved with a record, ready to be scored."""
    encoding = learner.encode(instances)
    return Lesson(instances, record(learner, instances, encoding), encoding)


def record(learner: Learner, instances: Instances, encoding: Any) -> Tours:
    """Sampled tours of these very instances, with a record."""
    generator = learner.generator("solve")
    return learner.solver.solve(instances, generator=generator, encoding=encoding, record=True)


def backward(loss: Tensor) -> None:
    """Into the gradients of the weights."""
    loss.backward()  # type: ignore[no-untyped-call]


def compare(one: Tensor, other: Tensor) -> tuple[float, float]:
    """The cosine of two gradients, and their distance relative to the second."""
    return float(functional.cosine_similarity(one, other, dim=0)), float((one - other).norm() / other.norm())


def draw(task: SyntheticTask, batch: int, device: torch.device) -> Instances:
    """The same instances every time."""
    return task.sample(batch, named_generator(0, "benchmark", device=device))
