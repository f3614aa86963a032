"""Distances of all pairs: computed in other processes, kept, and computed once."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from dree.errors import DreeError
from dree.evaluation import distances as module
from dree.evaluation.cache import DistanceCache
from dree.evaluation.distances import pair_distances
from dree.evaluation.gromov_wasserstein import gromov_wasserstein
from dree.files import cache_folder

pytest.importorskip("ot")


def sets(count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.random((5 + number, 2)) for number in range(count)]


def forbidden(*_: object) -> None:
    raise AssertionError("computed again")


def test_all_pairs_are_compared_and_nothing_is_computed_twice(monkeypatch):
    shares, words = [], []
    matrix = pair_distances(sets(4), 2, words.append, shares.append)
    assert sum(shares) == pytest.approx(1)
    assert words == []
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_array_equal(matrix.diagonal(), 0)
    assert matrix[1, 3] == pytest.approx(gromov_wasserstein(sets(4)[1], sets(4)[3]))
    monkeypatch.setattr(module, "ProcessPoolExecutor", forbidden)
    np.testing.assert_array_equal(pair_distances(sets(4), say=words.append), matrix)
    assert words == ["6 of 6 distances are known from before."]


def test_an_interrupted_comparison_goes_on(monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 1)

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pair_distances(sets(4), progress=stop)
    words = []
    pair_distances(sets(4), say=words.append)
    assert words == ["1 of 6 distances are known from before."]


def test_there_must_be_a_worker():
    with pytest.raises(DreeError, match="at least 1, not 0"):
        pair_distances(sets(2), workers=0)


@pytest.mark.parametrize("value", ["nonsense", -1.0, None])
def test_a_kept_value_that_is_no_distance_is_refused(value):
    path = cache_folder() / "distances.sqlite"
    with DistanceCache(path) as cache:
        cache.put([(b"a", 0.5), (b"b", 1.5)])
        assert (cache.get(b"a"), cache.get(b"b"), cache.get(b"c")) == (0.5, 1.5, None)
    with sqlite3.connect(path) as file:
        file.execute("UPDATE distances SET distance = ?", (value,))
    file.close()
    with DistanceCache(path) as cache, pytest.raises(DreeError, match=r"cache of distances.*Delete it"):
        cache.get(b"a")
