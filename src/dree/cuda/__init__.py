"""Kernels in CUDA C++ for the decoder's hot path on CUDA devices, compiled when they are first needed.

NVRTC, which comes with PyTorch, compiles them in a moment; what it made is kept on disk.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

from dree.cuda.driver import Kernel, the_driver
from dree.cuda.nvrtc import compiler
from dree.errors import DreeError
from dree.files import cache_folder, write_bytes

__all__ = ["Kernel", "compile_source", "kernel", "serve"]

CAPABILITIES = (9, 10)  # major: with 227 KiB of shared memory for a block. 12 has less; others are not known
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
    if torch.cuda.get_device_capability(device)[0] not in CAPABILITIES:
        return False
    try:
        the_driver()
        return _architecture(device) in compiler().architectures
    except (OSError, DreeError):
        return False


def kernel(source: str, name: str, **defines: int) -> Kernel:
    """A kernel of a source file, compiled with some definitions for the current CUDA device, unless it was before."""
    return _kernel(source, name, tuple(sorted(defines.items())), torch.cuda.current_device())


@cache
def _kernel(source: str, name: str, defines: Defines, device: int) -> Kernel:
    return Kernel(the_driver(), _code(source, _architecture(device), defines), name, device)


def compile_source(source: str, architecture: str, **defines: int) -> bytes:
    """The machine code of a source file for an architecture, such as sm_90, whatever is kept. It needs no device."""
    return compiler().compile(source, SOURCES[source], HEADERS, architecture, defines)


@cache
def _code(source: str, architecture: str, defines: Defines) -> bytes:
    """The same as it was kept on disk, if it is whole."""
    with suppress(OSError, RuntimeError):  # RuntimeError: there is no home
        content = _file(source, architecture, defines).read_bytes()
        digest, code = content[:32], content[32:]
        if hashlib.sha256(code).digest() == digest:
            return code
    code = compile_source(source, architecture, **dict(defines))
    with suppress(DreeError, OSError, RuntimeError):  # there may be no place for it
        write_bytes(_file(source, architecture, defines), hashlib.sha256(code).digest(), code)
    return code


def _file(source: str, architecture: str, defines: Defines) -> Path:
    """Where it is kept: a name for everything that it depends on."""
    everything = repr((sorted(SOURCES.items()), source, architecture, defines, compiler().version)).encode()
    numbers = "-".join(str(value) for _, value in defines)
    name = f"{Path(source).stem}-{numbers}-{architecture}-{hashlib.sha256(everything).hexdigest()[:32]}.cubin"
    return cache_folder() / "cuda" / name


def _architecture(device: int) -> str:
    return "sm_{}{}".format(*torch.cuda.get_device_capability(device))
