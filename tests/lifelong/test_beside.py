"""Work beside the rest of a batch: what it waits for, what waits for it, and that both sides share no graph."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch

from conftest import small_solver
from dree.lifelong import DREE, Learner, graphs
from dree.lifelong.flat import FlatParameters
from dree.lifelong.graphs import Graphs


class FakeStream:
    """Writes down what it waits for, and numbers its events."""

    def __init__(self, name):
        self.name, self.log = name, []

    def wait_event(self, event):
        self.log.append(event)

    def wait_stream(self, stream):
        self.log.append(stream.name)

    def record_event(self):
        self.log.append("recorded")
        return f"{self.name}, event {self.log.count('recorded')}"


@pytest.fixture
def streams(monkeypatch):
    """The main stream is current at first; others are numbered as they are made."""
    main = FakeStream("main")
    current, made = [main], []

    def make(*_):
        made.append(FakeStream(f"stream {len(made)}"))
        return made[-1]

    @contextmanager
    def entered(stream):
        current.append(stream)
        yield
        current.pop()

    monkeypatch.setattr(torch.cuda, "Stream", make)
    monkeypatch.setattr(torch.cuda, "stream", entered)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: current[-1])
    return current, made


def test_it_waits_for_the_batchs_beginning_alone_and_the_rest_waits_for_it(streams):
    work = Graphs(FlatParameters(small_solver("tsp")))
    current, (aside,) = streams
    work.begin()
    current[0].record_event()  # a lesson, later
    with work.beside():
        assert current[-1] is aside
        assert aside.log == ["main, event 1"]
        assert aside.name not in current[0].log
    assert current == [current[0]]
    assert current[0].log[-1] == aside.name


def test_a_second_time_in_a_batch_it_waits_for_all_that_was_there(streams):
    work = Graphs(FlatParameters(small_solver("tsp")))
    work.begin()
    for _ in range(2):
        with work.beside():
            pass
    assert streams[1][0].log == ["main, event 1", "main, event 2"]


def test_both_sides_have_graphs_of_their_own_also_after_a_failure(streams, monkeypatch):
    work = Graphs(FlatParameters(small_solver("tsp")))
    ran = []

    class FakeLane:
        def __init__(self, flat):
            self.stream = FakeStream("lane")

        def run(self, name, work, inputs, seed):
            ran.append((name, self))
            if name == "fails":
                raise ValueError(name)
            return inputs[0].sum(), inputs[0]

    monkeypatch.setattr(graphs, "Lane", FakeLane)
    piece = [(torch.zeros(work.flat.weights.shape),)]
    work.differentiate("lesson", None, piece, 0)
    with pytest.raises(ValueError, match="fails"), work.beside():
        work.differentiate("fails", None, piece, 0)
    work.differentiate("lesson", None, piece, 0)
    with work.beside():
        work.differentiate("replay", None, piece, 0)
    (_, lesson), (_, failed), (_, again), (_, replay) = ran
    assert lesson is again
    assert failed is replay
    assert lesson is not replay
    work.forget()
    work.differentiate("lesson", None, piece, 0)
    assert ran[-1][1] is not lesson


def test_without_a_device_that_captures_it_is_done_where_it_stands():
    learner = Learner(small_solver("tsp"), DREE())
    with learner.beside():
        assert learner._graphs is None
