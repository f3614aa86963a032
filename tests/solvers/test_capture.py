"""The order of things while work is captured, on a device that only notes what is asked of it."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from dree.solvers.capture import capture, captured


class Device:
    """Stands for `torch.cuda`."""

    def __init__(self, monkeypatch, free):
        self.did = []
        self.CUDAGraph = lambda: SimpleNamespace(
            register_generator_state=lambda generator: self.did.append("generator"),
            capture_begin=lambda pool: self.did.append(f"begin {pool}"),
            capture_end=lambda: self.did.append("end"),
        )
        self.now = self.make_stream("now")
        self.current_stream = lambda: self.now
        self.mem_get_info = lambda: (free, 1000)
        self.memory_reserved = lambda: 300
        self.empty_cache = lambda: self.did.append("free")
        for name in ("CUDAGraph", "current_stream", "stream", "mem_get_info", "memory_reserved", "empty_cache"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))

    def make_stream(self, name):
        def wait_stream(other):
            self.did.append(f"{name} waits for {other.name}")

        return SimpleNamespace(name=name, wait_stream=wait_stream, synchronize=lambda: self.did.append("wait"))

    @contextmanager
    def stream(self, stream):
        self.did.append(f"on {stream.name}")
        yield


@pytest.mark.parametrize(("free", "freed"), [(299, ["free"]), (300, [])])
def test_work_is_done_once_as_it_is_and_once_for_the_record_after_room_is_made(monkeypatch, free, freed):
    device = Device(monkeypatch, free)
    _, result = capture(lambda: device.did.append("work") or 7, device.make_stream("side"), 3, torch.Generator())
    assert result == 7
    before = ["generator", "side waits for now", "on side", "work", "wait"]
    assert device.did == [*before, *freed, "begin 3", "work", "end", "now waits for side"]


def test_a_capture_that_fails_is_ended(monkeypatch):
    device = Device(monkeypatch, 1000)
    times = iter([None, ValueError("at the second time")])

    def work():
        if error := next(times):
            raise error

    with pytest.raises(ValueError, match="second time"):
        capture(work, device.make_stream("side"), 3)
    assert device.did[-2:] == ["begin 3", "end"]


def test_nothing_is_captured_without_such_a_device():
    assert not captured(torch.device("cpu"))
