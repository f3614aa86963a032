"""The benchmarks that reach into methods still fit them."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path

import pytest

METHODS = Path(__file__).parents[1] / "benchmarks" / "methods.py"


@pytest.fixture(scope="module")
def methods():
    spec = importlib.util.spec_from_file_location("benchmarks_methods", METHODS)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


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
