"""The order of things while work is captured, on a device that only notes what is asked of it."""

from __future__ import annotations

import gc
import itertools
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from dree.solvers.capture import _side_streams, capture, captured, side_by_side, taking_turns


class Device:
    """Stands for `torch.cuda`."""

    def __init__(self, monkeypatch, free):
        self.did, self.numbers = [], itertools.count(1)
        self.CUDAGraph = lambda: SimpleNamespace(
            register_generator_state=lambda generator: self.did.append("generator"),
            capture_begin=lambda pool, capture_error_mode: self.did.append(f"begin {pool} {capture_error_mode}"),
            capture_end=lambda: self.did.append("end"),
        )
        self.now = self.make_stream("now")
        self.current_stream = lambda device=None: self.now
        self.is_current_stream_capturing = lambda: True
        self.Stream = lambda device: self.make_stream(f"side {next(self.numbers)}")
        self.mem_get_info = lambda: (free, 1000)
        self.memory_reserved = lambda: 300
        self.empty_cache = lambda: self.did.append("free")
        for name in (*vars(self), "stream"):
            if hasattr(torch.cuda, name):
                monkeypatch.setattr(torch.cuda, name, getattr(self, name))
        clear = "_cuda_clearCublasWorkspaces"
        monkeypatch.setattr(torch._C, clear, lambda: self.did.append("clear"), raising=False)

    def make_stream(self, name):
        def wait_stream(other):
            self.did.append(f"{name} waits for {other.name}")

        return SimpleNamespace(
            name=name,
            device=torch.device("cuda", 0),
            wait_stream=wait_stream,
            synchronize=lambda: self.did.append("wait"),
        )

    @contextmanager
    def stream(self, stream):
        before = self.now
        if stream is not None:  # what that means to PyTorch: the one that is current
            self.did.append(f"on {stream.name}")
            self.now = stream
        try:
            yield
        finally:
            self.now = before


@pytest.mark.parametrize(("free", "freed"), [(599, ["free"]), (600, [])])
def test_work_is_done_once_as_it_is_and_once_for_the_record_after_room_is_made(monkeypatch, free, freed):
    device = Device(monkeypatch, free)
    _, result = capture(lambda: device.did.append("work") or 7, device.make_stream("side"), 3, torch.Generator())
    assert result == 7
    before = ["generator", "side waits for now", "on side", "work", "wait"]
    assert device.did == [
        *before,
        *freed,
        "clear",
        "begin 3 thread_local",
        "work",
        "end",
        "clear",
        "now waits for side",
    ]


def test_a_capture_that_fails_is_ended(monkeypatch):
    device = Device(monkeypatch, 1000)
    times = iter([None, ValueError("at the second time")])

    def work():
        if error := next(times):
            raise error

    with pytest.raises(ValueError, match="second time"):
        capture(work, device.make_stream("side"), 3)
    assert device.did[-3:] == ["begin 3 thread_local", "end", "clear"]
    assert gc.isenabled()


def test_nothing_is_collected_while_work_is_captured(monkeypatch):
    device, seen = Device(monkeypatch, 1000), []
    capture(lambda: seen.append(gc.isenabled()), device.make_stream("side"), 3)
    assert seen == [True, False]
    assert gc.isenabled()


def test_works_side_by_side_wait_for_what_was_before_and_what_comes_after_waits_for_them(monkeypatch):
    device, where = Device(monkeypatch, 1000), torch.device("cuda", 0)
    _side_streams.cache_clear()
    for _ in range(2):  # on the same streams
        device.did.clear()
        with torch.no_grad():
            results = side_by_side([lambda: 1, lambda: 2, lambda: device.did.append("last") or 3], where)
        assert results == [1, 2, 3]
        at_first = [
            "side 1 waits for now",
            "on side 1",
            "side 2 waits for now",
            "on side 2",
            "now waits for now",
            "on now",
        ]
        assert device.did == [*at_first, "last", "now waits for side 1", "now waits for side 2"]
    _side_streams.cache_clear()


def test_works_with_gradient_are_done_one_after_the_other(monkeypatch):
    device = Device(monkeypatch, 1000)
    assert side_by_side([lambda: 1, lambda: 2], torch.device("cuda", 0)) == [1, 2]
    assert device.did == []


def turns(device, name, pauses):
    for turn in range(pauses):
        device.did.append(f"{name}{turn}")
        yield
    device.did.append(f"{name} ends")
    return name


def test_works_take_turns_each_on_a_stream_of_its_own_and_what_comes_after_waits_for_them(monkeypatch):
    device, where = Device(monkeypatch, 1000), torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    _side_streams.cache_clear()
    assert taking_turns([turns(device, "a", 0), turns(device, "b", 2)], where) == ["a", "b"]
    on_side = ["on side 1", "b0", "on side 1", "b1", "on side 1", "b ends"]
    assert device.did == ["side 1 waits for now", "a ends", *on_side, "now waits for side 1"]
    device.did.clear()

    def fails():
        yield
        raise ValueError("in its turn")

    with pytest.raises(ValueError, match="in its turn"):
        taking_turns([fails(), turns(device, "b", 2)], where)
    assert device.did == ["side 1 waits for now", "on side 1", "b0", "now waits for side 1"]
    _side_streams.cache_clear()


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_without_streams_works_take_turns_too(monkeypatch, kind):
    """On a CPU, and where all is being captured on one stream."""
    device = Device(monkeypatch, 1000)
    assert taking_turns([turns(device, "a", 2), turns(device, "b", 1)], torch.device(kind)) == ["a", "b"]
    assert device.did == ["a0", "b0", "a1", "b ends", "a ends"]


def test_where_one_fails_all_others_are_closed_and_the_failure_is_told(monkeypatch):
    closed = []

    def fails():
        yield
        raise KeyError("the cause")

    def waits(name):
        try:
            while True:
                yield
        finally:
            closed.append(name)
            raise ValueError("while it is closed")

    device, where = Device(monkeypatch, 1000), torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    with pytest.raises(KeyError, match="the cause"):
        taking_turns([waits("a"), fails(), waits("b")], where)
    assert closed == ["a", "b"]
    assert device.did[-2:] == ["now waits for side 1", "now waits for side 2"]
    _side_streams.cache_clear()


def test_nothing_is_captured_without_such_a_device():
    assert not captured(torch.device("cpu"))
