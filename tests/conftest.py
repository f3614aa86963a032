"""Shared by all tests: one thread per process (tests run in two), and small instances."""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import settings

from dree.problems import Instances
from dree.solvers import POMO, POMOSettings, make_solver

torch.set_num_threads(1)
settings.register_profile("dree", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("dree")


def random_instances(problem: str, batch: int, customers: int, seed: int, capacity: int = 20) -> Instances:
    generator = torch.Generator().manual_seed(seed)
    if problem == "tsp":
        return Instances(torch.rand(batch, customers, 2, generator=generator))
    demands = torch.randint(0, 11, (batch, customers + 1), generator=generator)
    demands[:, 0] = 0
    return Instances(torch.rand(batch, customers + 1, 2, generator=generator), demands, torch.full((batch,), capacity))


def small_solver(problem: str, seed: int = 0, **settings: int) -> POMO:
    chosen = {"width": 16, "heads": 2, "layers": 2, "feed_forward": 32, **settings}
    return make_solver(problem, POMOSettings(**chosen), seed)


@pytest.fixture(params=["tsp", "cvrp"])
def problem(request: pytest.FixtureRequest) -> str:
    return str(request.param)
