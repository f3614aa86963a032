"""Kernels in CUDA C++ built for the CPU, where each thread of a block is a fiber: see on_cpu.h."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

import dree

FOLDER = Path(dree.__file__).parent / "cuda"  # of the sources
COMPILER = shutil.which("g++")
FLAGS = [
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-shared",
    "-DDREE_ON_CPU",
    "-fvisibility=hidden",  # the libraries of two tests share nothing
    "-fno-strict-aliasing",  # as nvcc
    "-U_FORTIFY_SOURCE",  # or a jump between fibers is a crime
    "-fsanitize=alignment,bounds",
    "-fsanitize-undefined-trap-on-error",
]
SHARED_BYTES = 227 * 1024  # that a block can have
ARGUMENTS = 24

needs_compiler = pytest.mark.skipif(COMPILER is None or sys.platform != "linux", reason="needs Linux and g++")


class KernelError(Exception):
    """What the compiler or the emulator has against a kernel."""


class Emulated:
    """The kernels of a source file."""

    def __init__(self, library: Path):
        self._library = ctypes.CDLL(str(library))

    def launch(self, name: str, grid: tuple[int, int], threads: int, shared_bytes: int, *args: torch.Tensor | int):
        """Run a kernel, which writes to the tensors among its arguments. After a `KernelError` they are as before."""
        if not 0 < threads <= 1024 or threads % 32:
            raise ValueError(f"{threads} threads are not 1 to 32 whole warps")
        if not 0 <= shared_bytes <= SHARED_BYTES:
            raise ValueError(f"a block cannot have {shared_bytes} bytes of shared memory")
        if len(args) > ARGUMENTS:
            raise ValueError(f"the emulator passes {ARGUMENTS} arguments, not {len(args)}")
        words, sizes = (ctypes.c_long * len(args))(), (ctypes.c_size_t * len(args))()
        for i, each in enumerate(args):
            if isinstance(each, torch.Tensor):
                if each.device.type != "cpu" or not each.is_contiguous():
                    raise ValueError(f"argument {i} is not a contiguous tensor on the CPU")
                words[i], sizes[i] = each.data_ptr(), each.nbytes
            else:
                words[i] = each
        kernel = ctypes.cast(self._library[name], ctypes.c_void_p)
        message = ctypes.create_string_buffer(1000)
        launch = self._library.launch_on_cpu
        launch.restype = ctypes.c_bool
        numbers = (ctypes.c_uint(each) for each in (*grid, threads))
        if not launch(
            kernel, *numbers, ctypes.c_size_t(shared_bytes), words, sizes, len(args), message, ctypes.c_size_t(1000)
        ):
            raise KernelError(f"{name}, {message.value.decode()}")


def emulated(source: str | Path, defines: dict[str, int | str] | None = None) -> Emulated:
    """The kernels of a file, or of a text that may include those of the library; built once until something changes."""
    if COMPILER is None:
        raise KernelError("there is no g++")
    flags = [
        *FLAGS,
        f"-I{FOLDER}",
        f"-I{Path(__file__).parent}",
        *(f"-D{name}={value}" for name, value in (defines or {}).items()),
    ]
    if isinstance(source, Path):
        place, text = [str(source)], None
    else:
        place, text = ["-"], source
    whole = _compiler(*flags, "-E", "-x", "c++", *place, text=text)
    digest = hashlib.sha256("\0".join([*flags, whole]).encode()).hexdigest()[:32]
    folder = Path(tempfile.gettempdir()) / f"dree-emulated-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / f"{digest}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:  # another process may build the same
            _compiler(*flags, "-o", f"{scratch}/built.so", "-x", "c++", *place, text=text)
            Path(f"{scratch}/built.so").rename(library)
    return Emulated(library)


def _compiler(*arguments: str, text: str | None) -> str:
    done = subprocess.run([str(COMPILER), *arguments], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise KernelError(done.stderr)
    return done.stdout
