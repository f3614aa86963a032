"""The gate lets through what is not worse on the past by more than the margin, and nothing else."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dree.errors import DreeError
from dree.service.gate import forgetting, judge, mean_gaps
from dree.service.records import Gaps

gap = st.floats(-1, 200)
gaps = st.builds(Gaps, gap, gap)
margin = st.floats(0, 10)


@given(gaps, gaps, gap, margin)
def test_with_a_past_it_alone_decides(today, past, then, margin):
    within = past.after - past.before <= margin and past.after - then <= margin
    assert judge(today, past, then, margin).promoted == (past.after <= past.before or within)


@given(gaps, margin)
def test_without_a_past_the_day_decides(today, margin):
    assert judge(today, None, None, margin).promoted == (today.after - today.before <= margin)


@given(gaps, gaps, gap, margin, st.floats(0, 5))
def test_what_passes_also_passes_with_a_wider_margin_or_when_it_is_better(today, past, then, margin, more):
    if judge(today, past, then, margin).promoted:
        assert judge(today, past, then, margin + more).promoted
        assert judge(today, Gaps(past.before, past.after - more), then, margin).promoted


@given(gaps, st.one_of(st.none(), gaps), gap)
def test_the_same_solver_again_always_passes(today, past, then):
    assert judge(Gaps(today.before, today.before), past and Gaps(past.before, past.before), past and then, 0.0).promoted


@given(gap, st.lists(st.floats(0, 1), max_size=30), st.floats(0, 0.5))
def test_small_losses_do_not_add_up(then, losses, margin):
    now = then
    for loss in losses:
        if judge(Gaps(1, 1), Gaps(now, now + loss), then, margin).promoted:
            now += loss
    assert now <= then + margin + 1e-9


@pytest.mark.parametrize("after", [math.nan, math.inf])
def test_what_is_no_number_never_passes(after):
    assert not judge(Gaps(3.0, after), None, None, 1.0).promoted
    verdict = judge(Gaps(3.0, 2.0), Gaps(3.0, after), 3.0, 1.0)
    assert (verdict.promoted, verdict.reason) == (False, "its gap on past days is no number")


@pytest.mark.parametrize(
    ("past", "then", "reason"),
    [
        (Gaps(2.0, 2.5), 2.0, "it is 0.50 points worse on past days, and the margin is 0.3"),
        (Gaps(2.0, 2.25), 2.0, "on past days it is 0.25 points worse"),
        (
            Gaps(2.0, 2.25),
            1.75,
            "on past days it is 0.50 points worse than when these were learned, and the margin is 0.3",
        ),
        (Gaps(2.0, 1.75), 1.0, "on past days it is 0.25 points better"),
        (Gaps(2.0, 2.004), 2.0, "on past days it is as good as the one before"),
        (None, None, "on the day itself it is 8.00 points better"),
    ],
)
def test_reasons_are_in_words(past, then, reason):
    assert judge(Gaps(9, 1), past, then, 0.3).reason == reason


@pytest.mark.parametrize("margin", [-0.1, math.nan, math.inf])
def test_a_margin_is_a_number_from_0(margin):
    with pytest.raises(DreeError, match="The margin must be a number"):
        judge(Gaps(1, 1), None, None, margin)


@given(st.lists(gaps, min_size=1))
def test_days_count_the_same(each):
    mean = mean_gaps(each)
    assert mean.before == pytest.approx(math.fsum(one.before for one in each) / len(each), abs=1e-9)
    assert mean.after == pytest.approx(math.fsum(one.after for one in each) / len(each), abs=1e-9)


def test_without_days_there_is_nothing_to_compare():
    assert mean_gaps([]) is None
    assert forgetting([]) is None


def test_forgetting_is_the_papers_over_histories_of_any_length():
    found = forgetting([[5.0, 2.0, 4.0, 3.0], [6.0]])
    assert (found.AP, found.AFB, found.AMFB, found.ABPl) == (4.5, 0.5, 1.0, 4.0)


@given(st.lists(st.lists(gap, min_size=1, max_size=6), min_size=1, max_size=5))
def test_what_was_forgotten_is_what_is_lost_against_the_best(histories):
    found = forgetting(histories)
    assert pytest.approx(found.ABPl + found.AFB, abs=1e-9) == found.AP
    assert found.AMFB >= found.AFB >= 0
