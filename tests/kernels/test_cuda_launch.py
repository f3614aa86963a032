"""How kernels in CUDA C++ are compiled, kept and started; what they compute is tested elsewhere."""

import ctypes
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from dree import cuda
from dree.cuda import driver, nvrtc
from dree.errors import DreeError


def has_nvrtc():
    try:
        nvrtc.compiler()
    except DreeError:
        return False
    return True


needs_nvrtc = pytest.mark.skipif(not has_nvrtc(), reason="needs NVRTC")
TINY = b'#include "two.cuh"\nextern "C" __global__ void tiny(int* to) { *to = TWO + PLUS; }'
TWO = {"two.cuh": b"#define TWO 2"}
VARIANTS = [(tiles, routed) for tiles in (2, 7, 8) for routed in (0, 1)]


class Compiler:
    """In NVRTC's place: its code names the source, the architecture and the definitions."""

    version, architectures = "13.0", frozenset({"sm_90"})

    def __init__(self):
        self.calls = 0

    def compile(self, name, text, headers, architecture, defines):
        self.calls += 1
        assert text == cuda.SOURCES[name]
        assert headers == cuda.HEADERS
        return f"{name} {architecture} {sorted(defines.items())}".encode()


class Library:
    """In the driver's place; a launch is kept with the eight bytes of each argument."""

    def __init__(self, sizes=(), codes=()):
        self.launches, self.allowed, self.loaded, self.entered = [], [], [], 0
        self.codes = list(codes)

        def load(module, code):
            self.loaded.append(code)
            return 0

        def launch(function, x, y, z, a, b, c, shared, stream, pointers, extra):
            assert (z, b, c, extra) == (1, 1, 1, None)
            words = [ctypes.string_at(pointer, 8) for pointer in pointers]
            self.launches.append(((x, y), a, shared, stream, words))
            return self.codes.pop(0) if self.codes else 0

        def allow(function, attribute, size):
            assert attribute == 8
            self.allowed.append(size)
            return 0

        def enter(context):
            self.entered += 1
            return 0

        def text(code, to):
            to._obj.value = b"a sad error"
            return 0

        def parameter(function, index, offset, size):
            if index.value >= len(sizes):
                return 1
            size._obj.value = sizes[index.value]
            return 0

        self.cuModuleLoadData, self.cuLaunchKernel, self.cuFuncSetAttribute = load, launch, allow
        self.cuCtxSetCurrent, self.cuGetErrorString = enter, text
        self.cuModuleGetFunction = lambda *_: 0
        self.cuDeviceGet = lambda *_: 0
        self.cuDevicePrimaryCtxRetain = lambda *_: 0
        if sizes:
            self.cuFuncGetParamInfo = parameter


def forget():
    """As in a new process."""
    for each in (cuda._able, cuda._code, cuda._kernel):
        each.cache_clear()


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    """A machine with a device, and nothing compiled yet."""
    found = Compiler()
    monkeypatch.setenv("DREE_CACHE", str(tmp_path))
    monkeypatch.setattr(cuda, "compiler", lambda: found)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: -1)  # the CPU's tensors say so
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: SimpleNamespace(cuda_stream=5))
    forget()
    yield found
    forget()


@pytest.fixture
def library(monkeypatch):
    found = Library()
    made = driver.Driver(found)
    monkeypatch.setattr(cuda, "the_driver", lambda: made)
    return found


@needs_nvrtc
def test_a_source_is_compiled_with_its_headers_and_definitions():
    code = nvrtc.compiler().compile("tiny.cu", TINY, TWO, "sm_90", {"PLUS": 3})
    assert code.startswith(b"\x7fELF")
    assert b"tiny" in code
    assert code != nvrtc.compiler().compile("tiny.cu", TINY, TWO, "sm_90", {"PLUS": 4})


@needs_nvrtc
@pytest.mark.parametrize(("tiles", "routed"), VARIANTS)
def test_the_decoders_kernels_compile(tiles, routed):
    size = {"TILES": tiles, "ROUTED": routed}
    assert b"rollout" in cuda.compile_source("rollout.cu", "sm_90", CLIP=10, **size)
    assert b"rollout" in cuda.compile_source("rollout.cu", "sm_90", CLIP=10, HALF=1, SAMPLE=0, RECORD=0, **size)
    gradient = cuda.compile_source("gradient.cu", "sm_90", **size)
    assert b"attention_gradient" in gradient
    assert b"pointer_gradient" in gradient


@needs_nvrtc
def test_what_the_compiler_says_is_told():
    with pytest.raises(DreeError, match=r'(?s)tiny\.cu cannot be compiled for sm_90\. NVRTC .*"PLUS" is undefined'):
        nvrtc.compiler().compile("tiny.cu", TINY, TWO, "sm_90", {})
    with pytest.raises(DreeError, match="for sm_1 -DPLUS=1"):
        nvrtc.compiler().compile("tiny.cu", TINY, TWO, "sm_1", {"PLUS": 1})


def test_where_nvrtc_is_looked_for(monkeypatch, tmp_path):
    for name in (
        "a/nvidia/cu13/lib/libnvrtc.so.13",
        "a/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
        "b/lib64/libnvrtc.so.13",
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(
        nvrtc, "find_spec", lambda _: SimpleNamespace(submodule_search_locations=[tmp_path / "a/nvidia"])
    )
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "b"))
    places = list(nvrtc._places("13"))
    wanted = [str(tmp_path / "a/nvidia/cu13/lib/libnvrtc.so.13"), "libnvrtc.so.13"]
    wanted += [str(tmp_path / "b/lib64/libnvrtc.so.13"), "libnvrtc.so"]
    assert [place for place in places if place in wanted] == wanted
    assert not any("12" in Path(place).name for place in places)
    assert str(tmp_path / "a/nvidia/cuda_nvrtc/lib/libnvrtc.so.12") in nvrtc._places("[1-9]*")


def test_what_was_compiled_is_kept_and_checked(compiler, library, tmp_path):
    cuda.kernel("rollout.cu", "rollout", TILES=7, CLIP=10)
    assert cuda.kernel("rollout.cu", "rollout", CLIP=10, TILES=7) is cuda.kernel(
        "rollout.cu", "rollout", TILES=7, CLIP=10
    )
    [file] = (tmp_path / "cuda").iterdir()
    assert file.name.startswith("rollout-10-7-sm_90-")

    def again():
        forget()
        cuda.kernel("rollout.cu", "rollout", TILES=7, CLIP=10)
        return compiler.calls

    assert again() == 1
    for damage in (b"", b"too short", file.read_bytes()[:-1], file.read_bytes() + b"x", b"\1" + file.read_bytes()[1:]):
        before = compiler.calls
        file.write_bytes(damage)
        assert (again(), again()) == (before + 1, before + 1)
    file.unlink()
    file.mkdir()  # it can be neither read nor written
    assert again() == 7
    assert set(library.loaded) == {b"rollout.cu sm_90 [('CLIP', 10), ('TILES', 7)]"}


def test_the_name_of_what_is_kept_says_what_it_depends_on(compiler, monkeypatch):
    def name(source="rollout.cu", architecture="sm_90", **defines):
        return cuda._file(source, architecture, tuple(defines.items())).name

    names = [name(), name("warp.cuh"), name(architecture="sm_100"), name(A=1), name(B=1), name(A=1, B=1)]
    compiler.version = "13.1"
    names.append(name())
    monkeypatch.setitem(cuda.SOURCES, "warp.cuh", b"")
    names.append(name())
    assert len(set(names)) == len(names)


def test_no_place_to_keep_anything_is_no_matter(compiler, library, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("DREE_CACHE", str(tmp_path / "file"))
    cuda.kernel("rollout.cu", "rollout", A=1)
    assert len(library.loaded) == 1


def test_arguments_of_a_launch(compiler, library):
    kernel = cuda.kernel("rollout.cu", "rollout")
    tensors = torch.ones(3), torch.ones(2, dtype=torch.int64)
    kernel.launch((7, 9), 64, 100, tensors[0], -5, tensors[1], 2**31 - 1)
    grid, threads, shared, stream, words = library.launches[0]
    assert (grid, threads, shared, stream) == ((7, 9), 64, 100, 5)
    values = [struct.unpack("<q" if at in (0, 2) else "<i4x", word)[0] for at, word in enumerate(words)]
    assert values == [tensors[0].data_ptr(), -5, tensors[1].data_ptr(), 2**31 - 1]
    assert not library.allowed


def test_more_shared_memory_is_asked_for_once(compiler, library):
    kernel = cuda.kernel("rollout.cu", "rollout")
    for size in (49152, 49153, 60000, 50000, 60000):
        kernel.launch((1, 1), 32, size)
    assert library.allowed == [49153, 60000]
    assert [each[2] for each in library.launches] == [49152, 49153, 60000, 50000, 60000]


def test_wrong_arguments_are_refused(compiler, monkeypatch):
    library = Library(sizes=(8, 4))
    monkeypatch.setattr(cuda, "the_driver", lambda: driver.Driver(library))
    kernel = cuda.kernel("rollout.cu", "rollout")
    x = torch.ones(2, 3)
    for args, message in [
        ((x.T, 1), "argument 0 is not contiguous"),
        ((x, 2**31), "32 bits"),
        ((x, x), r"takes arguments of \[8, 4\] bytes, not \[8, 8\]"),
        ((x,), r"not \[8\]"),
    ]:
        with pytest.raises(ValueError, match=message):
            kernel.launch((1, 1), 32, 0, *args)
    with pytest.raises(ValueError, match="argument 0 is not contiguous on CUDA device 0"):
        driver.Kernel(driver.Driver(library), b"", "rollout", 0).launch((1, 1), 32, 0, x, 1)
    assert not library.launches
    kernel.launch((1, 1), 32, 0, x, 1)


def test_errors_of_the_driver(compiler, library):
    kernel = cuda.kernel("rollout.cu", "rollout")
    library.codes = [201, 0, 1]
    kernel.launch((1, 1), 32, 0)  # in a thread that has not worked on the device yet
    assert (len(library.launches), library.entered) == (2, 2)
    with pytest.raises(RuntimeError, match=r"rollout: a sad error \(error 1 of the CUDA driver\)"):
        kernel.launch((1, 1), 32, 0)


def test_which_devices_are_served(compiler, library, monkeypatch):
    compiler.architectures = frozenset({"sm_80", "sm_90", "sm_100", "sm_120"})

    def served(capability=(9, 0), cuda_version="13.0"):
        forget()
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
        monkeypatch.setattr(torch.version, "cuda", cuda_version)
        return cuda.serve(torch.device("cuda", 0))

    assert served()
    assert not cuda.serve(torch.device("cpu"))
    assert not served(capability=(8, 0))
    assert served(capability=(10, 0))
    assert not served(capability=(10, 3))  # the compiler does not know it
    assert not served(capability=(12, 0))  # its blocks have less shared memory
    assert not served(cuda_version=None)
    monkeypatch.setattr(cuda, "the_driver", lambda: ctypes.CDLL("there-is-no-such-library"))
    assert not served()
