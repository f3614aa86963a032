"""The driver of CUDA devices: it loads what was compiled, and starts it."""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from typing import Any

import torch
from torch import Tensor

SHARED_BYTES = 48 * 1024  # that a block may have without being allowed more
MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
INVALID_CONTEXT = 201


class Driver:
    """What is needed of the driver's library; what goes wrong is raised."""

    def __init__(self, library: Any) -> None:
        self._library = library
        number, pointer, result = ctypes.c_uint, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
        library.cuModuleLoadData.argtypes = [result, ctypes.c_char_p]
        library.cuModuleGetFunction.argtypes = [result, pointer, ctypes.c_char_p]
        library.cuFuncSetAttribute.argtypes = [pointer, ctypes.c_int, ctypes.c_int]
        library.cuLaunchKernel.argtypes = [pointer, *[number] * 7, *[pointer] * 3]
        library.cuCtxSetCurrent.argtypes = [pointer]
        self.launch = library.cuLaunchKernel

    @cache  # noqa: B019  (there is one driver)
    def _context(self, device: int) -> ctypes.c_void_p:
        """PyTorch's own."""
        handle, context = ctypes.c_int(), ctypes.c_void_p()
        self.check(self._library.cuDeviceGet(ctypes.byref(handle), device))
        self.check(self._library.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle))
        return context

    def enter(self, device: int) -> None:
        """Let the calling thread work on a device, as the first call of PyTorch's in it would."""
        self.check(self._library.cuCtxSetCurrent(self._context(device)))

    def load(self, code: bytes, name: str) -> ctypes.c_void_p:
        """A kernel of some machine code, on the device on which the thread works. It stays for good."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self._library.cuModuleLoadData(ctypes.byref(module), code), name)
        self.check(self._library.cuModuleGetFunction(ctypes.byref(function), module, name.encode()), name)
        return function

    def argument_sizes(self, function: ctypes.c_void_p) -> list[int] | None:
        """In bytes, of what a kernel takes; None where the driver is older than CUDA 12.4 and does not tell."""
        tell = getattr(self._library, "cuFuncGetParamInfo", None)
        offset, size, sizes = ctypes.c_size_t(), ctypes.c_size_t(), list[int]()
        while tell and not tell(function, ctypes.c_size_t(len(sizes)), ctypes.byref(offset), ctypes.byref(size)):
            sizes.append(size.value)
        return sizes if tell else None

    def allow_shared(self, function: ctypes.c_void_p, size: int, name: str) -> None:
        """Let a kernel's blocks have so many bytes of shared memory."""
        self.check(self._library.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED_SIZE_BYTES, size), name)

    def check(self, code: int, what: str = "CUDA") -> None:
        """Raise the error that a call has returned, if any."""
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"{what}: {(text.value or b'unknown error').decode()} (error {code} of the CUDA driver)")


@cache
def the_driver() -> Driver:
    """This machine's, or OSError where there is none."""
    return Driver(ctypes.CDLL("libcuda.so.1"))


class Kernel:
    """A kernel on one device."""

    def __init__(self, driver: Driver, code: bytes, name: str, device: int) -> None:
        self._driver, self._name, self._device = driver, name, device
        driver.enter(device)
        self._function = driver.load(code, name)
        self._sizes = driver.argument_sizes(self._function)
        self._shared_bytes = SHARED_BYTES
        self._layouts: dict[tuple[type, ...], struct.Struct] = {}

    def launch(self, grid: tuple[int, int], threads: int, shared_bytes: int, *args: Tensor | int) -> None:
        """Start it on PyTorch's current stream: tensors as pointers, numbers as C's `int`.

        This may be recorded in a CUDA graph. As with PyTorch's own kernels, an error in it shows at some later call.
        """
        values: list[int] = []
        for i, each in enumerate(args):
            if isinstance(each, Tensor):
                if each.get_device() != self._device or not each.is_contiguous():
                    raise ValueError(f"{self._name}: argument {i} is not contiguous on CUDA device {self._device}")
                values.append(each.data_ptr())
            else:
                values.append(each)
        kinds = tuple(map(type, args))
        layout = self._layouts.get(kinds) or self._layouts.setdefault(kinds, self._layout(kinds))
        places = ctypes.create_string_buffer(layout.size)
        try:
            layout.pack_into(places, 0, *values)
        except struct.error as error:
            raise ValueError(f"{self._name}: an argument does not fit into 32 bits: {error}") from None
        if shared_bytes > self._shared_bytes:
            self._driver.allow_shared(self._function, shared_bytes, self._name)
            self._shared_bytes = shared_bytes
        start = ctypes.addressof(places)
        pointers = (ctypes.c_void_p * len(args))(*range(start, start + layout.size, 8))
        stream = torch.cuda.current_stream(self._device).cuda_stream
        call = (self._function, *grid, 1, threads, 1, 1, shared_bytes, stream, pointers, None)
        code = self._driver.launch(*call)
        if code == INVALID_CONTEXT:  # the first call in a new thread
            self._driver.enter(self._device)
            code = self._driver.launch(*call)
        if code:
            self._driver.check(code, self._name)

    def _layout(self, kinds: tuple[type, ...]) -> struct.Struct:
        """Of arguments in 8 bytes each."""
        formats = ["Q" if issubclass(kind, Tensor) else "i4x" for kind in kinds]
        sizes = [8 if each == "Q" else 4 for each in formats]
        if self._sizes not in (None, sizes):
            raise ValueError(f"{self._name} takes arguments of {self._sizes} bytes, not {sizes}")
        return struct.Struct("<" + "".join(formats))
