"""The benchmarks that reach into methods and kernels still fit them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from dree.solvers import pomo

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def loaded(name):
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", BENCHMARKS / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_a_step_is_timed_against_the_twins_each_in_a_process_of_its_own():
    words = ["--problems", "tsp", "--sizes", "5", "--batch", "2", "--repeats", "1"]
    command = [sys.executable, BENCHMARKS / "learning_step.py", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (row,) = (line for line in done.stdout.splitlines() if " tsp " in line)
    _, problem, size, batch, fast, twin, ratio, *memory, _ = (cell.strip() for cell in row.split("│"))
    assert (problem, size, batch) == ("tsp", "5", "2")
    assert min(map(float, (fast, twin, ratio))) > 0
    assert len(memory) == 3


@pytest.fixture(scope="module")
def methods():
    yield from loaded("methods")


@pytest.fixture(scope="module")
def layouts():
    pytest.importorskip("triton")
    yield from loaded("kernel_layouts")


def test_the_cost_of_methods_is_measured(problem, methods):
    case = methods.Case(problem, size=5, batch=2, augmentation=1)
    seconds = methods.measure(case, 1, time.perf_counter)
    assert set(seconds) == {"dree", *methods.TIMED}
    assert min(seconds.values()) > 0


def test_a_step_of_llr_bc_takes_what_its_tensors_take(methods):
    """Of 2 instances with 5 nodes and starts: coordinates, starts, where it is, visited, blocked, served, policy."""
    case = methods.Case("tsp", size=5, batch=2, augmentation=1)
    floats, integers, flags = 2 * 5 * 2 + 2 * 5 * 5, 3 * 2 * 5, 2 * 2 * 5 * 5
    assert methods.step_bytes(case) == 4 * floats + 8 * integers + flags


def test_ways_to_cut_the_kernels_are_those_that_fit_and_todays(layouts):
    found = layouts.cases("cvrp", [70], [(128,), (64, 16), (64, 32), (32, 32)], [layouts.Layout(32, 2, 1)])
    assert [(case.kernel, case.tiles, case.today) for case in found] == [
        (kernel, cut, today)
        for kernel in ("rollout", "gradient")
        for cut, today in (((128,), False), ((64, 16), False), ((64, 32), False), ((64, 16), True))
    ]


@pytest.mark.filterwarnings("ignore:overflow encountered in exp2")
@pytest.mark.skipif(torch.cuda.is_available(), reason="the interpreter runs on the CPU")
def test_ways_to_cut_the_kernels_are_timed(problem, layouts, monkeypatch):
    monkeypatch.setattr(pomo, "kernels_serve", lambda *_: True)
    found = layouts.cases(problem, [3], [(2, 2)], [layouts.Layout(2, 1, 1)])
    assert {case.tiles for case in found} == {(2, 2), (16,)}
    for case in found:
        assert layouts.milliseconds(case, 1, 1, "cpu", "fp32", threading.Lock()) > 0
