"""NVRTC, the compiler for CUDA C++ that comes with PyTorch's CUDA builds: nobody needs a compiler of their own."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from dree.errors import DreeError

TRIAL = b'extern "C" __global__ void trial() {}'


class Nvrtc:
    """The compiler in a library."""

    def __init__(self, library: Any) -> None:
        self._library = library
        major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self._check(library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        self.version = f"{major.value}.{minor.value}"
        self._check(library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        numbers = (ctypes.c_int * count.value)()
        self._check(library.nvrtcGetSupportedArchs(numbers))
        self.architectures = frozenset(f"sm_{number}" for number in numbers)

    def compile(
        self, name: str, text: bytes, headers: Mapping[str, bytes], architecture: str, defines: Mapping[str, int]
    ) -> bytes:
        """The machine code of a source (a cubin), which may include some headers by name."""
        options = [f"--gpu-architecture={architecture}", "--std=c++17"]
        defined = [f"-D{key}={value}" for key, value in defines.items()]
        program = ctypes.c_void_p()
        names, contents = _strings(*(each.encode() for each in headers)), _strings(*headers.values())
        self._check(
            self._library.nvrtcCreateProgram(ctypes.byref(program), text, name.encode(), len(headers), contents, names)
        )
        try:
            given = _strings(*(each.encode() for each in options + defined))
            if self._library.nvrtcCompileProgram(program, len(given), given):
                log = self._read(program, "ProgramLog").rstrip(b"\0").decode(errors="replace").strip()
                variant = " ".join([architecture, *defined])
                raise DreeError(f"{name} cannot be compiled for {variant}. NVRTC {self.version} says:\n{log}")
            return self._read(program, "CUBIN")
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _read(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        content = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, content))
        return content.raw

    def _check(self, code: int) -> None:
        if code:
            self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
            raise DreeError(f"NVRTC failed: {self._library.nvrtcGetErrorString(code).decode()}")


def _strings(*values: bytes) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(values))(*values)


@cache
def compiler() -> Nvrtc:
    """The first one that compiles anything; of the version of CUDA that PyTorch was built with, as the driver's is."""
    wanted = torch.version.cuda.split(".")[0] if torch.version.cuda else None
    for path in _places(wanted or "[1-9]*"):
        try:
            if "/" in path:  # by itself it would not find this
                for other_half in Path(path).parent.glob("libnvrtc-builtins*.so*"):
                    ctypes.CDLL(str(other_half))
            found = Nvrtc(ctypes.CDLL(path))
            found.compile("trial", TRIAL, {}, "sm_90", {})
        except (OSError, AttributeError, DreeError):  # not there, too old, or without its other half
            continue
        if wanted in (None, found.version.split(".")[0]):
            return found
    raise DreeError(
        "NVRTC, which compiles kernels, was not found. PyTorch's CUDA builds come with it; otherwise install "
        "nvidia-cuda-nvrtc (of CUDA 13) or nvidia-cuda-nvrtc-cu12."
    )


def _places(major: str) -> Iterator[str]:
    """Where it may be: with NVIDIA's packages, PyTorch or Python, where the system looks, or where CUDA is."""
    package = find_spec("nvidia")
    for place in map(Path, package.submodule_search_locations or () if package else ()):
        for pattern in (f"cu{major}", "cuda_nvrtc"):
            for folder in sorted(place.glob(pattern), reverse=True):
                yield from _files(folder / "lib", major)
    yield from _files(Path(torch.__file__).parent / "lib", major)
    yield from _files(Path(sys.prefix, "lib"), major)
    yield f"libnvrtc.so.{major}"
    yield from _files(Path(os.environ.get("CUDA_HOME") or "/usr/local/cuda", "lib64"), major)
    yield "libnvrtc.so"


def _files(folder: Path, major: str) -> Iterator[str]:
    """In a folder, under its own name or with a digest in it."""
    yield from map(str, sorted(folder.glob(f"libnvrtc[.-]*so.{major}"), reverse=True))
