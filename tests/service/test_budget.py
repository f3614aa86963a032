"""A budget is spent on batches as long as one more, and the tests after it, still fit."""

from __future__ import annotations

import math

import pytest

from dree.errors import DreeError
from dree.service import budget
from dree.service.budget import SLACK, Budget, Spending


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(budget.time, "perf_counter", lambda: self.now)


class Bar:
    """What a bar hears."""

    def __init__(self):
        self.words: list[str] = []
        self.done = 0.0

    def part(self, words, weight):
        assert weight == 1
        self.words.append(words)

        def advance(done):
            self.done += done

        return advance


def learn(spending: Spending, clock: Clock, seconds: float) -> int:
    """How many batches fit, if each takes so long."""
    batches = 0
    while batches == 0 or spending.go_on(batches):
        clock.now += seconds
        batches += 1
    return batches


@pytest.mark.parametrize("seconds", [0.5, 3.0, 7.0])
def test_minutes_cover_references_batches_and_tests(monkeypatch, seconds):
    clock, bar = Clock(monkeypatch), Bar()
    spending = Spending(Budget(minutes=1), bar.part, "today")
    spending.phase("reference tours")
    clock.now += 9
    spending.begin_learning(tests=8)
    batches = learn(spending, clock, seconds)
    room = 60 - 9 - SLACK * 8
    assert batches == math.ceil(room / seconds) - 1
    assert bar.done == pytest.approx(9 + batches * seconds)
    assert bar.words == ["today", "today: reference tours", "today: learning"]


def test_batches_are_counted_whatever_time_they_take(monkeypatch):
    clock, bar = Clock(monkeypatch), Bar()
    spending = Spending(Budget(minutes=1, batches=7), bar.part, "today")
    spending.begin_learning(tests=1000)
    assert learn(spending, clock, 100.0) == 7
    assert bar.done == 7 == Budget(batches=7).total


def test_one_batch_is_always_learned(monkeypatch):
    clock, bar = Clock(monkeypatch), Bar()
    spending = Spending(Budget(minutes=0.01), bar.part, "today")
    clock.now += 100
    spending.begin_learning(tests=5)
    assert learn(spending, clock, 1.0) == 1


@pytest.mark.parametrize("minutes", [0, -1, math.nan, math.inf])
def test_minutes_are_a_number_above_0(minutes):
    with pytest.raises(DreeError, match="--minutes must be a number above 0"):
        Budget(minutes)
