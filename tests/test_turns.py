"""Runs that take turns: who goes on when, and where they let others go on."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dree.evaluation.evaluate as evaluating
import dree.experiments.run as running
from dree.errors import DreeError
from dree.evaluation.evaluate import average_gap
from dree.experiments import DEMO, Run, pause
from dree.lifelong import Learner
from dree.lifelong.reading import Reading
from dree.settings import override
from dree.solvers.capture import _side_streams
from dree.turns import AHEAD, POOL, Pace, Turns, at_once, new_stream, others_turn, run_number
from small_runs import SMALL

TINY = override(DEMO, {**SMALL, "epochs": 5})


def in_threads(turns, *works):
    """What happens when several threads take part; they come in the order of the works."""
    threads = []
    with turns.taking():  # nobody begins before all are there
        for number, work in enumerate(works, start=1):

            def take_part(work=work):
                with turns.taking():
                    work()

            threads.append(threading.Thread(target=take_part))
            threads[-1].start()
            while len(turns._waiting) < number:
                pass
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_one_at_a_time_goes_on_and_who_waits_longest_is_next(lengths):
    turns, order = Turns(len(lengths)), []

    def work(name, pauses):
        def steps():
            for step in range(pauses + 1):
                order.append((name, step))
                if step < pauses:
                    with others_turn():
                        pass

        return steps

    in_threads(turns, *(work(name, pauses) for name, pauses in enumerate(lengths)))
    expected, queue = [], deque((name, 0) for name in range(len(lengths)))
    while queue:
        name, step = queue.popleft()
        expected.append((name, step))
        if step < lengths[name]:
            queue.append((name, step + 1))
    assert order == expected


def test_what_is_waited_for_does_not_keep_the_others():
    turns, come = Turns(2), threading.Event()

    def waits():
        with others_turn():
            assert come.wait(10), "the other one never had its turn"

    in_threads(turns, waits, come.set)


def test_who_waits_within_a_wait_passes_nothing_on():
    turns, order = Turns(2), []

    def first():
        with others_turn(), others_turn():
            order.append("waiting")
        order.append("first again")

    def second():
        while "waiting" not in order:
            pass
        order.append("second")

    in_threads(turns, first, second)
    assert order == ["waiting", "second", "first again"]
    assert not turns._taken


@pytest.fixture
def pool(monkeypatch):
    """PyTorch's streams of a device, by their numbers: again and again the same ones."""
    numbers = itertools.cycle(range(POOL))
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: SimpleNamespace(cuda_stream=next(numbers)))
    return torch.device("cuda", 0)


def test_runs_that_take_turns_have_no_stream_in_common(pool):
    turns, of_runs = Turns(3), []

    def work():
        streams = []
        of_runs.append(streams)
        for _ in range(POOL // 3):
            streams.append(new_stream(pool).cuda_stream)
            with others_turn():
                pass
        while len(of_runs) < 3:
            with others_turn():
                pass
        assert run_number() not in numbers
        numbers.append(run_number())

    numbers = [0]
    in_threads(turns, work, work, work)
    assert sorted(itertools.chain(*of_runs)) == list(range(POOL // 3 * 3))
    assert turns.streams == set()
    with turns.taking():
        assert len({new_stream(pool).cuda_stream for _ in range(POOL)}) == POOL
        with pytest.raises(DreeError, match="cannot share a GPU: together they have the 32 streams"):
            new_stream(pool)
    assert [new_stream(pool).cuda_stream for _ in range(2 * POOL)], "alone a run is given the same ones again"


def test_side_streams_are_a_runs_own(pool):
    _side_streams.cache_clear()
    turns, seen = Turns(2), []

    def work():
        for _ in range(2):
            (stream,) = _side_streams(pool, 1, run_number())
            seen.append(stream.cuda_stream)
            with others_turn():
                pass

    in_threads(turns, work, work)
    _side_streams.cache_clear()
    assert seen[:2] == seen[2:]
    assert len(set(seen)) == 2


def test_the_time_that_a_run_waits_for_its_turn_is_none_that_a_checkpoint_takes(tmp_path, monkeypatch):
    clock = SimpleNamespace(now=100.0, perf_counter=lambda: clock.now)

    def passes(seconds):
        def work(*_):
            clock.now += seconds

        return work

    run = Run.start(tmp_path / "run", override(TINY, {"checkpoint_seconds": 1}), say=str)
    monkeypatch.setattr(pause, "time", clock)
    monkeypatch.setattr(running, "save_checkpoint", passes(2))
    with Turns(2).taking():
        monkeypatch.setattr(Turns, "take", passes(1000))
        run.checkpoint()
    assert run._pause._ends == 102 + 2 * pause.TIMES


def test_a_turn_is_passed_on_whatever_goes_wrong():
    turns = Turns(2)
    with pytest.raises(ValueError, match="wrong"), turns.taking(), others_turn():
        raise ValueError("wrong")
    with turns.taking():
        assert at_once() == 2
    assert at_once() == 1


def test_alone_nobody_waits():
    with others_turn():
        assert at_once() == 1
    pace = Pace(torch.device("cuda"))  # of which nothing is asked, where it need not be there
    pace.launched()
    pace.arrive()


class Device:
    """Stands for what `torch.cuda` knows of work under way."""

    def __init__(self, monkeypatch, turns):
        self.launched, self.waited, self.turns = 0, [], turns
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: SimpleNamespace(record_event=self.event))

    def event(self):
        self.launched += 1
        number = self.launched

        def synchronize():
            assert not self.turns._taken, "it is another's turn meanwhile"
            self.waited.append(number)

        return SimpleNamespace(synchronize=synchronize)


def test_a_run_is_never_more_than_some_batches_ahead_of_the_device(monkeypatch):
    turns = Turns(2)
    device = Device(monkeypatch, turns)
    with turns.taking():
        pace = Pace(torch.device("cuda"))
        for batch in range(1, 6):
            pace.launched()
            assert device.waited == list(range(1, batch - AHEAD + 1))
        pace.arrive()
        assert device.waited == [1, 2, 3, 4, 5]
        assert turns._taken


def test_of_two_runs_each_learns_a_batch_in_its_turn(tmp_path, monkeypatch):
    turns, order, learn = Turns(2), [], Learner.learn
    monkeypatch.setattr(Learner, "learn", lambda self, new: order.append(self.seed) or learn(self, new))
    runs = [Run.start(tmp_path / str(seed), override(TINY, {"seed": seed, "batches": 3}), say=str) for seed in (0, 1)]
    for run in runs:
        run.test()
    in_threads(turns, *(run.learn_epoch for run in runs))
    assert order == [0, 1, 0, 1, 0, 1]


def test_numbers_on_their_way_from_the_device_are_waited_for_in_others_turn():
    turns = Turns(2)
    reading = Reading([torch.tensor(3.0)])
    waited = []
    reading._read = SimpleNamespace(synchronize=lambda: waited.append(turns._taken))
    with turns.taking():
        assert reading.values() == [3.0]
    assert waited == [False]


@pytest.fixture
def seen(monkeypatch):
    """Whether it was somebody's turn while something took its time."""
    turns, seen = Turns(2), {}

    def watched(module, name):
        work = getattr(module, name)

        def work_and_tell(*args):
            seen[name] = turns._taken
            return work(*args)

        monkeypatch.setattr(module, name, work_and_tell)

    @contextmanager
    def taking():
        with turns.taking():
            yield seen

    watched(evaluating, "_checked")
    watched(running, "save_checkpoint")
    return taking


def test_others_go_on_while_tours_are_checked_and_checkpoints_written(tmp_path, seen):
    with seen() as others_waited:
        run = Run.start(tmp_path / "run", TINY, say=str)
        average_gap(run.learner.proven, next(iter(run.tests.values())))
        run.checkpoint()
    assert others_waited == {"_checked": False, "save_checkpoint": False}
    assert run.folder.manifest()["hardware"]["at_once"] == 2
