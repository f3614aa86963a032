"""Which precision is chosen, and what it does to an encoding."""

from __future__ import annotations

import pytest
import torch

from conftest import random_instances, small_solver
from dree import kernels
from dree.solvers.precision import TEST_PRECISIONS, in_precision, precision_on

CPU = torch.device("cpu")


@pytest.mark.parametrize(("served", "learning", "chosen"), [
    (False, True, "fp32"), (False, False, "fp32"), (True, True, "bf16"), (True, False, "fp16")
])  # fmt: skip
def test_what_suits_a_device_depends_on_its_kernels_and_the_purpose(monkeypatch, served, learning, chosen):
    monkeypatch.setattr(kernels, "serve", lambda *_: served)
    assert precision_on(CPU, "auto", learning=learning) == chosen
    assert precision_on(CPU, "fp32", learning=learning) == "fp32"


@pytest.mark.parametrize("precision", TEST_PRECISIONS)
def test_fewer_bits_change_a_policy_a_little(problem, precision):
    instances, solver = random_instances(problem, 3, 6, seed=0), small_solver(problem)
    tours = solver.solve(instances).best()
    with torch.no_grad(), in_precision(precision, CPU, learning=False):
        policy = solver.behave(instances, tours, encoding=solver.encode(instances)).exp()
    difference = (policy - solver.behave(instances, tours).exp()).abs().max()
    least, most = {"auto": (0, 0), "fp32": (0, 0), "fp16": (1e-8, 2e-3), "bf16": (1e-6, 2e-2)}[precision]
    assert least <= difference <= most
