"""The four measures on matrices worked out by hand, and the identities they must obey."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dree.errors import DreeError
from dree.evaluation.metrics import metrics

MATRICES = arrays(
    np.float64, st.tuples(st.integers(1, 8), st.integers(1, 6)), elements=st.floats(-1, 100, allow_subnormal=False)
)


def test_a_matrix_worked_out_by_hand():
    # Task 1: best 2 at the second test, then up to 7, ends at 5. Task 2: best 1 at the end.
    result = metrics([[9, 8], [2, 6], [7, 3], [5, 1]])
    assert result.as_dict() == {"AP": 3.0, "AFB": 1.5, "AMFB": 2.5, "ABPl": 1.5}


def test_forgetting_before_the_best_does_not_count():
    assert metrics([[3], [50], [2], [2]]).AMFB == 0


def test_of_equal_bests_the_first_counts():
    assert metrics([[1], [4], [1]]).AMFB == 3


@given(MATRICES)
def test_performance_is_plasticity_plus_forgetting(matrix):
    result = metrics(matrix)
    assert pytest.approx(result.AFB + result.ABPl, abs=1e-9) == result.AP


@given(MATRICES)
def test_forgetting_is_between_zero_and_its_maximum(matrix):
    result = metrics(matrix)
    assert -1e-12 <= result.AFB <= result.AMFB + 1e-12


@given(MATRICES, st.randoms())
def test_the_order_of_tasks_does_not_matter(matrix, random):
    columns = list(range(matrix.shape[1]))
    random.shuffle(columns)
    assert metrics(matrix[:, columns]).as_dict() == pytest.approx(metrics(matrix).as_dict())


@pytest.mark.parametrize("wrong", [[], [[]], [1.0, 2.0], [[1.0, float("nan")]]])
def test_what_is_no_gap_matrix_is_refused(wrong):
    with pytest.raises(DreeError):
        metrics(wrong)
