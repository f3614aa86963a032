"""A kernel: a function that Numba compiles, once for each shape of network, and keeps on disk."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from pickle import PickleError
from typing import Any

from llvmlite.binding import get_host_cpu_name
from numba import njit

OPTIONS = {"nogil": True, "error_model": "numpy"}


def digest(content: bytes) -> str:
    """A short name of some content."""
    return hashlib.sha256(content).hexdigest()[:12]


def digest_of_files(folder: Path) -> str:
    """Of all the code in a folder."""
    return digest(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py"))))


SOURCES = digest_of_files(Path(__file__).parent)  # as they are imported: they may change before a kernel is compiled


class Kernel:
    """A function compiled by Numba, kept on disk. Other threads may run beside it.

    Numba looks for what it has kept by the name of a function and the time of its file, and two processes that keep
    something under one name at a time may take each other's. So names say what a kernel is compiled for, from which
    files, and on which processor. What was kept of other files is removed.
    """

    def __init__(self, function: Callable[..., Any], *shape: int) -> None:
        processor = digest(get_host_cpu_name().encode())
        function.__qualname__ = "-".join([function.__name__, *map(str, shape), SOURCES, processor])
        self._function = function
        try:
            self._run = njit(**OPTIONS, cache=True)(function)
        except RuntimeError:  # there is no place to keep it
            self._run = njit(**OPTIONS)(function)
        else:
            remove_earlier(Path(self._run.stats.cache_path), function, SOURCES)

    def __call__(self, *arguments: Any) -> None:
        """Run it."""
        try:
            self._run(*arguments)
        except (OSError, EOFError, PickleError):  # what was kept is damaged, or there is no room for it
            self._run = njit(**OPTIONS)(self._function)
            self._run(*arguments)


def remove_earlier(folder: Path, function: Callable[..., Any], sources: str) -> None:
    """Remove what is kept of a function that was compiled from other files than these, for whatever shape.

    A process at work with those has them in memory, and compiles what it finds no more. That one cannot be removed,
    or is gone already, is no matter.
    """
    module = Path(function.__code__.co_filename).stem
    part = r"-([0-9a-f]{12})"
    kept = re.compile(rf"{module}\.{function.__name__}(?:-\w+?)*?{part}(?:{part})?-\d+\.py.*")
    with suppress(OSError):
        for file in folder.iterdir():
            name = kept.fullmatch(file.name)
            if name and name[1] != sources:
                with suppress(OSError):
                    file.unlink()
