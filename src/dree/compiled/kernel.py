"""A kernel: a function that Numba compiles, once for each shape of network, and keeps on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from pickle import PickleError
from typing import Any

from llvmlite.binding import get_host_cpu_name
from numba import njit

OPTIONS = {"nogil": True, "error_model": "numpy"}


class Kernel:
    """A function compiled by Numba, kept on disk. Other threads may run beside it.

    Numba looks for what it has kept by the name of a function and the time of its file, and two processes that keep
    something under one name at a time may take each other's. So names say what a kernel is compiled for, on which
    processor, and from which files.
    """

    def __init__(self, function: Callable[..., Any], *shape: int) -> None:
        sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
        digest = hashlib.sha256(sources + get_host_cpu_name().encode()).hexdigest()[:12]
        function.__qualname__ = "-".join([function.__name__, *map(str, shape), digest])
        self._function = function
        try:
            self._run = njit(**OPTIONS, cache=True)(function)
        except RuntimeError:  # there is no place to keep it
            self._run = njit(**OPTIONS)(function)

    def __call__(self, *arguments: Any) -> None:
        """Run it."""
        try:
            self._run(*arguments)
        except (OSError, EOFError, PickleError):  # what was kept is damaged, or there is no room for it
            self._run = njit(**OPTIONS)(self._function)
            self._run(*arguments)
