"""Lifelong learning for neural vehicle-routing solvers whose tasks drift.

What most programs need is here: `dree.Learner`, `dree.make_stream` and so on; each is loaded when first used.
"""

import ctypes
import importlib
import os
import sys
from typing import Any

# Threads that wait for each other spin for milliseconds by default, and one busy neighbour on the machine then makes
# learning many times slower. Spinning for microseconds and then sleeping costs little when the machine is idle.
# It must be said before torch starts its threads.
os.environ.setdefault("GOMP_SPINCOUNT", "2000")
# Large arrays come and go all the time; asking for them in large pages saves touching thousands of small ones.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
# glibc gives freed memory back to the system above 128 KiB, and gets it back page by page. Keep it: up to 1 GiB, and
# arrays of up to 32 MiB among it.
_their_own = any(name.startswith("MALLOC_") for name in os.environ) or "malloc" in os.environ.get("GLIBC_TUNABLES", "")
if sys.platform == "linux" and not _their_own:
    _mallopt = getattr(ctypes.CDLL(None), "mallopt", lambda *_: None)
    _mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD
    _mallopt(-3, 1 << 25)  # M_MMAP_THRESHOLD

_HOMES = {
    "dree.data": ("TestSet", "load_test"),
    "dree.errors": ("DreeError",),
    "dree.evaluation.evaluate": ("average_gap",),
    "dree.evaluation.metrics": ("metrics",),
    "dree.experiments": ("DEMO", "Run", "RunSettings", "load_solver"),
    "dree.lifelong": ("FineTuning", "Learner", "LearnerSettings", "Method"),
    "dree.problems": ("Instances", "Tours"),
    "dree.randomness": ("named_generator",),
    "dree.report.run_page": ("write_run_page",),
    "dree.settings": ("override",),
    "dree.solvers": ("POMO", "POMOSettings", "Solver", "make_solver"),
    "dree.tasks": ("Stream", "Task", "make_stream", "principal"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Load a public name from its home."""
    if name not in _HOME:
        raise AttributeError(f"module 'dree' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
