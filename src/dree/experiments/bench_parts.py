"""What timing and checking the fast path have in common."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dree.lifelong import Learner, LearnerSettings, Lesson, Method
from dree.problems import Instances, Tours
from dree.randomness import named_generator
from dree.solvers import POMO, make_solver
from dree.tasks import SyntheticTask


def random_pomo(problem: str, device: torch.device, seed: int = 0) -> POMO:
    """A random network of full size."""
    solver = make_solver(problem, seed=seed)
    assert isinstance(solver, POMO)
    return solver.to(device)


def random_learner(
    problem: str, method: Method, precision: str, device: torch.device, *, captured: bool = True
) -> Learner:
    """A learner with a random network of full size."""
    learner = Learner(random_pomo(problem, device), method, LearnerSettings(precision=precision))
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


def draw(task: SyntheticTask, batch: int, device: torch.device) -> Instances:
    """The same instances every time."""
    return task.sample(batch, named_generator(0, "benchmark", device=device))
