"""What a matrix of distances between days says about time: the mean for each lag, and whether the order matters.

Shapes: T days, L pairs of days, H lags, S repetitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dree.errors import DreeError

Floats = NDArray[np.float64]
Matrix = Floats  # [T, T], symmetric

SHUFFLES = 9999  # orders of the days that the test draws
REPETITIONS = 999  # for each of the two bands
COVER = 95  # per cent, of the bands
WEEK = 7  # days that are weighted together when the curve's band is drawn


@dataclass(frozen=True, eq=False)
class Pairs:
    """All pairs of days, the earlier one first."""

    times: NDArray[np.int64]  # [T], increasing

    def __post_init__(self) -> None:
        """Refuse days out of order."""
        if (np.diff(self.times) <= 0).any():
            raise DreeError("The days of a drift report must be in order, and none of them twice.")

    @cached_property
    def index(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The two days of each pair: [L] and [L]."""
        first, second = np.triu_indices(len(self.times), 1)
        return first, second

    @cached_property
    def lag(self) -> NDArray[np.int64]:
        """The time between the two days of each pair: [L]."""
        first, second = self.index
        return self.times[second] - self.times[first]

    def of(self, matrix: Matrix) -> Floats:
        """The pairs' entries of a matrix: [L]."""
        return matrix[self.index]


@dataclass(frozen=True, eq=False)
class LagCurve:
    """The mean distance of days that are h apart, for every h that occurs."""

    lags: NDArray[np.int64]  # [H]
    pairs: NDArray[np.int64]  # [H] how many have this lag
    means: Floats  # [H]
    band: Floats  # [2, H] what the mean could as well have been, had the weeks been others
    shuffled: Floats  # [2, H] what it would be if the days had come in a random order


@dataclass(frozen=True)
class OrderTest:
    """Whether days are more alike the less time is between them than they would be in a random order."""

    correlation: float  # of distance and logarithm of lag, over all pairs
    p: float  # the share of orders with at least this correlation, this one counted among them
    shuffles: int


def lag_means(matrix: Matrix, pairs: Pairs, weights: Floats | None = None) -> Floats:
    """The mean of each lag, [H], in increasing order of lags; pairs may have weights."""
    _, group = np.unique(pairs.lag, return_inverse=True)
    weight = np.ones(len(pairs.lag)) if weights is None else weights
    return np.bincount(group, weight * pairs.of(matrix)) / np.bincount(group, weight)


def lag_curve(matrix: Matrix, pairs: Pairs, seed: int, repetitions: int = REPETITIONS) -> LagCurve:
    """The paper's mean lag-h distance with two bands."""
    generator = np.random.default_rng(seed)
    lags, counts = np.unique(pairs.lag, return_counts=True)
    first, second = pairs.index
    week = (pairs.times - pairs.times[0]) // WEEK
    again, shuffled = [], []
    for _ in range(repetitions):
        # Pairs share days, and days are like those around them, so that whole weeks are weighted at random, not pairs.
        weight = generator.exponential(size=week[-1] + 1)[week]
        again.append(lag_means(matrix, pairs, weight[first] * weight[second]))
        order = generator.permutation(len(matrix))
        shuffled.append(lag_means(matrix[np.ix_(order, order)], pairs))
    return LagCurve(lags, counts, lag_means(matrix, pairs), _band(again), _band(shuffled))


def order_test(matrix: Matrix, pairs: Pairs, seed: int, shuffles: int = SHUFFLES) -> OrderTest:
    """A permutation test of the order of days, one-sided; a matrix without differences is no evidence (p = 1).

    The lag counts by its logarithm: so a drift that levels off, or comes back to earlier patterns, is seen as well.
    """
    distance, weight = pairs.of(matrix), np.log(pairs.lag)
    spread = float(distance.std() * weight.std())
    if spread < 1e-12:
        return OrderTest(0.0, 1.0, shuffles)
    weights = np.zeros_like(matrix)
    weights[pairs.index] = (weight - weight.mean()) / (len(weight) * spread)
    found = float((matrix * weights).sum())
    generator = np.random.default_rng(seed)
    as_high = 0
    for _ in range(shuffles):
        order = generator.permutation(len(matrix))
        as_high += float((matrix[np.ix_(order, order)] * weights).sum()) >= found - 1e-12
    return OrderTest(found, (1 + as_high) / (1 + shuffles), shuffles)


def beyond_sizes(matrix: Matrix, pairs: Pairs, sizes: NDArray[np.int64]) -> Matrix:
    """Distances less what the sizes of the two days explain: few nodes lie far from any others by chance alone.

    Explained (least squares) by the noise of sampling, which goes with sqrt(1/m + 1/n), and by |log(m/n)|.
    """
    m, n = (sizes[index].astype(np.float64) for index in pairs.index)
    causes = np.stack((np.ones_like(m), np.sqrt(1 / m + 1 / n), np.abs(np.log(m / n))), axis=1)
    distance = pairs.of(matrix)
    rest = np.zeros_like(matrix)
    rest[pairs.index] = distance - causes @ np.linalg.lstsq(causes, distance, rcond=None)[0]
    return rest + rest.T


def moving_mean(times: NDArray[np.int64], values: Floats, window: int) -> Floats:
    """The mean of the values at most half a window away, for each time."""
    near = np.abs(times[:, None] - times[None]) <= window // 2
    mean: Floats = near @ values / near.sum(axis=1)
    return mean


def _band(repeated: list[Floats]) -> Floats:
    rest = (100 - COVER) / 2
    return np.percentile(np.array(repeated), (rest, 100 - rest), axis=0)
