"""Gromov-Wasserstein distances: values that are known, and what they must not depend on."""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest

from dree.errors import DreeError
from dree.evaluation.gromov_wasserstein import _starts, _symmetries, gromov_wasserstein, made

pytest.importorskip("ot")


def cloud(nodes: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((nodes, 2))


def turned(points: np.ndarray, degrees: float) -> np.ndarray:
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return points @ np.array([[cosine, -sine], [sine, cosine]])


@pytest.mark.parametrize("degrees", [0, 20, 45, 90, 137])
def test_congruent_sets_have_no_distance(degrees):
    points = cloud(25, seed=1)
    mirrored = points * [-1, 1]
    shuffled = np.random.default_rng(2).permutation(25)
    assert gromov_wasserstein(points, turned(points, degrees)[shuffled] + [3, -7]) == pytest.approx(0, abs=1e-6)
    assert gromov_wasserstein(points, turned(mirrored, degrees)[shuffled]) == pytest.approx(0, abs=1e-6)


def test_neither_a_quarter_turn_nor_other_numbers_of_the_nodes_change_the_distance():
    first, second = cloud(20, seed=3), cloud(15, seed=4) * [1, 0.3]
    expected = gromov_wasserstein(first, second)
    again = gromov_wasserstein(turned(first, 90)[::-1], second[np.random.default_rng(5).permutation(15)] + 1)
    assert expected > 0.05
    assert again == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("degrees", [20, 31, 45, 137])
def test_other_turns_of_these_sets_change_it_little(degrees):
    # Not so for all sets: starts go by the axes, and of two uniform squares another, higher minimum may be found.
    first, second = cloud(20, seed=3), cloud(15, seed=4) * [1, 0.3]
    expected = gromov_wasserstein(first, second)
    assert gromov_wasserstein(turned(first, degrees), second) == pytest.approx(expected, rel=0.025)
    assert gromov_wasserstein(second, turned(first, degrees)) == pytest.approx(expected, rel=0.025)


@pytest.mark.parametrize(("one", "other"), [(1.0, 0.25), (3.0, 0.5), (2.0, 2.0)])
def test_two_points_by_hand(one, other):
    # Best is to keep the points apart: half of all pairs of points then differ by |one - other|, the others not.
    first, second = np.array([[0, 0], [one, 0]]), np.array([[5, 5], [5, 5 + other]])
    assert gromov_wasserstein(first, second) == pytest.approx(abs(one - other) / math.sqrt(2), abs=1e-9)


def test_against_a_single_place_it_is_the_root_mean_square_of_all_distances():
    points = cloud(12, seed=6)
    squares = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    for place in (np.zeros((1, 2)), np.full((7, 2), 0.3)):
        assert gromov_wasserstein(points, place) == pytest.approx(math.sqrt(squares.mean()))
    assert gromov_wasserstein(np.zeros((3, 2)), np.ones((2, 2))) == 0


def test_the_distance_has_the_unit_of_the_nodes():
    first, second = cloud(20, seed=7), cloud(20, seed=8)
    assert gromov_wasserstein(1000 * first, 1000 * second) == pytest.approx(1000 * gromov_wasserstein(first, second))


def test_there_are_nine_starts_and_all_are_couplings():
    first, second = cloud(6, seed=9), cloud(9, seed=10)
    starts = list(_starts(first, second))
    assert len(starts) == made()["starts"] == 9
    for start in starts:
        np.testing.assert_allclose(start.sum(axis=1), 1 / 6)
        np.testing.assert_allclose(start.sum(axis=0), 1 / 9)
    assert len({tuple(np.round(each, 12).ravel() + 0.0) for each in _symmetries()}) == 8


def test_a_missing_package_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(DreeError, match=r"need the package POT: pip install 'dree\[drift\]'"):
        made()
