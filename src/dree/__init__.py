"""Lifelong learning for neural vehicle-routing solvers whose tasks drift.

What most programs need is here: `dree.Learner`, `dree.make_stream` and so on; each is loaded when first used.
"""

import ctypes
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers; when it runs, `__getattr__` loads what is used
    from dree.data import TestSet as TestSet
    from dree.data import load_test as load_test
    from dree.errors import DreeError as DreeError
    from dree.evaluation.answers import Answer as Answer
    from dree.evaluation.answers import Answers as Answers
    from dree.evaluation.evaluate import average_gap as average_gap
    from dree.evaluation.metrics import metrics as metrics
    from dree.experiments import DEMO as DEMO
    from dree.experiments import Run as Run
    from dree.experiments import RunSettings as RunSettings
    from dree.experiments import load_solver as load_solver
    from dree.experiments import solve as solve
    from dree.lifelong import FineTuning as FineTuning
    from dree.lifelong import Learner as Learner
    from dree.lifelong import LearnerSettings as LearnerSettings
    from dree.lifelong import Method as Method
    from dree.problems import Instances as Instances
    from dree.problems import Tours as Tours
    from dree.randomness import named_generator as named_generator
    from dree.report.run_page import write_run_page as write_run_page
    from dree.settings import override as override
    from dree.solvers import POMO as POMO
    from dree.solvers import POMOSettings as POMOSettings
    from dree.solvers import Solver as Solver
    from dree.solvers import make_solver as make_solver
    from dree.tasks import Stream as Stream
    from dree.tasks import Task as Task
    from dree.tasks import make_stream as make_stream
    from dree.tasks import principal as principal

    __version__: str

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
    "dree.evaluation.answers": ("Answer", "Answers"),
    "dree.evaluation.evaluate": ("average_gap",),
    "dree.evaluation.metrics": ("metrics",),
    "dree.experiments": ("DEMO", "Run", "RunSettings", "load_solver", "solve"),
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


if not TYPE_CHECKING:  # type checkers would take any name for one of it

    def __getattr__(name: str) -> Any:
        """Load a public name from its home."""
        if name == "__version__":
            from importlib.metadata import version

            return version("dree")
        if name not in _HOME:
            raise AttributeError(f"module 'dree' has no attribute {name!r}")
        return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    """What there is, names that are not loaded yet among it."""
    return sorted({*globals(), *__all__, "__version__"})
