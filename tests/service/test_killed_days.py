"""Thirty days through real processes that are killed at random moments, and once meet a full disk."""

from __future__ import annotations

import random
import signal
import time

import pytest

from conftest import random_instances
from dree.evaluation.answers import answer
from dree.service.state import State
from small_days import contents, learn, small_start, write_day
from warm_processes import WarmProcess

DAYS = 30
FULL_AFTER = 8  # days, when the learner's file is larger than all others
LIMIT = 100_000  # bytes of a file, then


def check(path) -> int:
    """How many days are learned; each is there once, all files are right, and the solver answers."""
    if not State.exists(path):
        return 0
    state = State.open(path)
    names = [day.name for day in state.days]
    assert len(names) == len(set(names))
    assert [day.version for day in state.days] == list(range(1, len(state.versions)))
    assert state.damaged() == {}
    assert len(answer(state.solver(), random_instances("tsp", 1, 6, seed=0)).routes[0]) == 6
    return len(names)


def test_every_day_counts_once_whatever_happens(tmp_path):
    pytest.importorskip("hygese")
    moments = random.Random(0)
    state, solver = tmp_path / "state", small_start(tmp_path / "start")
    files = [write_day(tmp_path / "days", number) for number in range(1, DAYS + 1)]
    words = ("learn", state, *files, "--batches", 2, "--start", solver)
    kills, learned, full = 0, 0, False
    while learned < DAYS:
        if learned >= FULL_AFTER and not full:
            full, before = True, (state / "state.json").read_bytes()
            refused = WarmProcess(*words, file_size=LIMIT).finish()
            assert refused.returncode == 2
            assert "Cannot write" in refused.stderr
            assert (state / "state.json").read_bytes() == before
        process, until = WarmProcess(*words), learned + moments.randint(1, 6)
        while process.running() and (not State.exists(state) or len(State.open(state).days) < min(until, DAYS)):
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 1))
        if process.running():
            process.kill()
            kills += 1
        ended = process.finish()
        assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
        learned = check(state)
    assert full
    assert kills >= 3, "too few processes lived long enough to be killed"
    assert contents(State.open(state)) == contents(learn(tmp_path / "whole", *files, start=solver, batches=2))
