"""Captured work beside other work: who waits for whom, and who has graphs and memory of their own."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch

from conftest import small_solver
from dree.lifelong import DREE, Learner, graphs
from dree.lifelong.flat import FlatParameters


class Stream:
    """In the place of a device's: it knows what was done before its next work, on it or where it waited."""

    def __init__(self, *_):
        self.known = set()

    def record_event(self):
        return frozenset(self.known)

    def wait_event(self, event):
        self.known |= event

    def wait_stream(self, other):
        self.known |= other.known


class Device:
    """Streams, and what each piece of work knew of others when it was begun, and in which lane it was."""

    def __init__(self):
        self.streams, self.knew, self.lanes = [Stream()], {}, {}

    def current(self, *_):
        return self.streams[-1]

    @contextmanager
    def on(self, stream):
        self.streams.append(stream)
        try:
            yield
        finally:
            self.streams.pop()

    def run(self, lane, name, work, inputs, seed):
        self.knew[name], self.lanes[name] = set(self.current().known), lane
        self.current().known.add(name)
        return torch.zeros(()), torch.zeros_like(lane.flat.weights)


@pytest.fixture
def device(monkeypatch):
    found = Device()
    for name, value in (("Stream", Stream), ("current_stream", found.current), ("stream", found.on)):
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(graphs.Lane, "run", lambda lane, *given: found.run(lane, *given))
    return found


@pytest.fixture
def captured():
    return graphs.Graphs(FlatParameters(torch.nn.Linear(2, 2)))


def work_on(captured, *names):
    for name in names:
        captured.differentiate(name, len, [()], 0)


def test_what_is_done_beside_the_rest_knows_only_what_was_done_before(device, captured):
    work_on(captured, "before")
    captured.begin()
    work_on(captured, "lesson")
    with captured.beside():
        work_on(captured, "replay")
    work_on(captured, "after")
    captured.begin()
    work_on(captured, "next lesson")
    with captured.beside():
        work_on(captured, "next replay")
    assert device.knew["lesson"] == device.knew["replay"] == {"before"}
    assert device.knew["after"] == {"before", "lesson", "replay"}
    assert device.knew["next replay"] == {"before", "lesson", "replay", "after"}


def test_work_beside_the_rest_has_its_own_lanes(device, captured):
    """Whatever happens there; and a lane shares no memory with another."""

    def fail():
        work_on(captured, "replay")
        raise ZeroDivisionError

    work_on(captured, "lesson")
    with pytest.raises(ZeroDivisionError), captured.beside():
        fail()
    assert device.current().known == {"lesson", "replay"}
    work_on(captured, "again")
    with captured.beside():
        work_on(captured, "replay again")
    lanes = device.lanes
    assert lanes["lesson"] is lanes["again"]
    assert lanes["replay"] is lanes["replay again"]
    assert lanes["lesson"] is not lanes["replay"]
    captured.forget()
    work_on(captured, "lesson")
    with captured.beside():
        work_on(captured, "replay")
    assert len(set(map(id, (*lanes.values(), lanes["replay"])))) == 4


def test_what_did_not_begin_waits_for_all_that_is_under_way(device, captured):
    work_on(captured, "lesson")
    with captured.beside():
        work_on(captured, "replay")
    work_on(captured, "between")
    with captured.beside():
        work_on(captured, "second")
    assert device.knew["replay"] == {"lesson"}
    assert device.knew["second"] == {"lesson", "replay", "between"}


def test_where_nothing_is_captured_it_is_done_where_it_stands(device):
    learner = Learner(small_solver("tsp"), DREE())
    here = device.current()
    with learner.beside():
        assert device.current() is here


def test_pytorch_is_told_that_gradients_of_several_streams_are_meant(device, monkeypatch):
    """Where it can be told: older ones neither warn nor know the function."""
    told = []
    name = "set_warn_on_accumulate_grad_stream_mismatch"
    monkeypatch.setattr(torch.autograd.graph, name, told.append, raising=False)
    graphs.Graphs(FlatParameters(torch.nn.Linear(2, 2)))
    assert told == [False]
    monkeypatch.delattr(torch.autograd.graph, name)
    graphs.Graphs(FlatParameters(torch.nn.Linear(2, 2)))
