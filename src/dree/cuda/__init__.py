"""Kernels in CUDA C++ for the decoder's hot path on CUDA devices, compiled when they are first needed.

NVRTC, which comes with PyTorch, compiles them in a moment; what it made is kept on disk.
"""

from __future__ import annotations

import atexit
import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread

import torch

from dree.cuda.driver import Kernel, the_driver
from dree.cuda.nvrtc import compiler
from dree.errors import DreeError
from dree.files import cache_folder, write_bytes

__all__ = ["Kernel", "compile_source", "kernel", "prepare", "serve"]

CAPABILITY = (9, 0)  # at least; others were not tried
THREADS = 8  # at most, that compile at a time
SOURCES = {  # as they are imported: they may change before a kernel is compiled
    path.name: path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.cu*"))
}
HEADERS = {name: text for name, text in SOURCES.items() if name.endswith(".cuh")}

Defines = tuple[tuple[str, int], ...]


def serve(device: torch.device) -> bool:
    """Whether these kernels can be used on a device."""
    if device.type != "cuda" or torch.version.cuda is None:
        return False
    return _able(torch.cuda.current_device() if device.index is None else device.index)


@cache
def _able(device: int) -> bool:
    try:
        the_driver()
        return (
            torch.cuda.get_device_capability(device) >= CAPABILITY and _architecture(device) in compiler().architectures
        )
    except (OSError, DreeError):
        return False


def kernel(source: str, name: str, **defines: int) -> Kernel:
    """A kernel of a source file, compiled with some definitions for the current CUDA device, unless it was before."""
    device = torch.cuda.current_device()
    key = device, source, name, tuple(sorted(defines.items()))
    if key not in _kernels:
        code = _build(source, _architecture(device), key[3]).code()
        with _loading:
            if key not in _kernels:
                _kernels[key] = Kernel(the_driver(), code, name, device)
    return _kernels[key]


def prepare(wanted: Iterable[tuple[str, dict[str, int]]]) -> None:
    """Begin to compile source files with definitions, in the background, for the current CUDA device.

    Who asks for a kernel of theirs waits until it is ready, and hears what is wrong with it.
    """
    architecture = _architecture(torch.cuda.current_device())
    for source, defines in wanted:
        _waiting.put(_build(source, architecture, tuple(sorted(defines.items()))))
    for _ in range(min(THREADS, os.cpu_count() or 1, _waiting.qsize())):
        worker = Thread(target=_work, name="dree-cuda", daemon=True)
        _workers.append(worker)
        worker.start()


def compile_source(source: str, architecture: str, **defines: int) -> bytes:
    """The machine code of a source file for an architecture, such as sm_90, whatever is kept. It needs no device."""
    return compiler().compile(source, SOURCES[source], HEADERS, architecture, defines)


class Build:
    """The machine code of one source with some definitions: kept on disk, or compiled by the first who needs it."""

    def __init__(self, source: str, architecture: str, defines: Defines) -> None:
        self._what = source, architecture, defines
        self._lock = Lock()
        self._code: bytes | None = None

    def code(self) -> bytes:
        """It; whoever comes meanwhile waits."""
        with self._lock:
            if self._code is None:
                self._code = self._kept() or self._compiled()
            return self._code

    def file(self) -> Path:
        """Where it is kept: a name for everything that it depends on."""
        source, architecture, defines = self._what
        everything = repr((sorted(SOURCES.items()), self._what, compiler().version)).encode()
        numbers = "-".join(str(value) for _, value in defines)
        name = f"{Path(source).stem}-{numbers}-{architecture}-{hashlib.sha256(everything).hexdigest()[:32]}.cubin"
        return cache_folder() / "cuda" / name

    def _kept(self) -> bytes | None:
        with suppress(OSError, RuntimeError):  # RuntimeError: there is no home
            content = self.file().read_bytes()
            digest, code = content[:32], content[32:]
            if hashlib.sha256(code).digest() == digest:
                return code
        return None

    def _compiled(self) -> bytes:
        source, architecture, defines = self._what
        code = compile_source(source, architecture, **dict(defines))
        with suppress(DreeError, OSError, RuntimeError):  # there may be no place for it
            write_bytes(self.file(), hashlib.sha256(code).digest(), code)
        return code


_builds: dict[tuple[str, str, Defines], Build] = {}
_kernels: dict[tuple[int, str, str, Defines], Kernel] = {}
_loading = Lock()
_waiting: SimpleQueue[Build] = SimpleQueue()
_workers: list[Thread] = []


def _build(source: str, architecture: str, defines: Defines) -> Build:
    what = source, architecture, defines
    return _builds.setdefault(what, Build(*what))


def _architecture(device: int) -> str:
    return "sm_{}{}".format(*torch.cuda.get_device_capability(device))


def _work() -> None:
    """Compile what waits. Errors are for those who ask for it."""
    with suppress(Empty):
        while True:
            build = _waiting.get_nowait()
            with suppress(Exception):
                build.code()


@atexit.register
def _stop() -> None:
    """Leave what waits, and wait for what is being compiled: a process that ends meanwhile would crash."""
    with suppress(Empty):
        while True:
            _waiting.get_nowait()
    for worker in _workers:
        worker.join()
