"""What distances say about time, on matrices whose answer is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dree.errors import DreeError
from dree.evaluation.lags import (
    REPETITIONS,
    SHUFFLES,
    Pairs,
    beyond_sizes,
    lag_curve,
    lag_means,
    moving_mean,
    order_test,
)

HAND = np.array([[0, 1, 4, 9], [1, 0, 2, 6], [4, 2, 0, 3], [9, 6, 3, 0]], dtype=float)


def noise(days: int, seed: int) -> np.ndarray:
    values = np.triu(np.random.default_rng(seed).random((days, days)), 1)
    return values + values.T


def walk(days: int, seed: int) -> np.ndarray:
    places = np.random.default_rng(seed).standard_normal((days, 2)).cumsum(axis=0)
    return np.linalg.norm(places[:, None] - places[None], axis=2)


def test_the_mean_of_each_lag_by_hand():
    np.testing.assert_allclose(lag_means(HAND, Pairs(np.arange(4))), [2, 5, 9])  # (1+2+3)/3, (4+6)/2, 9


def test_lags_are_days_of_the_calendar_where_some_are_missing():
    pairs = Pairs(np.array([10, 11, 13, 14]))
    curve = lag_curve(HAND, pairs, seed=0, repetitions=9)
    assert curve.lags.tolist() == [1, 2, 3, 4]
    assert curve.pairs.tolist() == [2, 1, 2, 1]
    np.testing.assert_allclose(curve.means, [2, 2, 5, 9])  # (1+3)/2, 2, (4+6)/2, 9


def test_bands_hold_the_mean_of_noise_and_the_curve_of_a_walk_leaves_that_of_random_orders():
    pairs = Pairs(np.arange(60))
    still, moving = lag_curve(noise(60, 1), pairs, seed=1, repetitions=199), lag_curve(walk(60, 1), pairs, 1, 199)
    for curve in (still, moving):
        assert (curve.band[0] <= curve.band[1]).all()
        assert np.mean((curve.band[0] <= curve.means) & (curve.means <= curve.band[1])) > 0.9
    inside = (still.shuffled[0] <= still.means) & (still.means <= still.shuffled[1])
    assert inside.mean() > 0.85
    assert (moving.means[:7] < moving.shuffled[0, :7]).all()


def test_bands_are_of_weeks_with_other_weights_and_of_days_in_another_order():
    days, weeks = np.arange(10), np.arange(10) // 7
    matrix, generator = noise(10, 1), np.random.default_rng(5)

    def means(distances, weights):
        products = np.outer(weights, weights)
        lags = range(1, 10)
        return [np.average(np.diagonal(distances, lag), weights=np.diagonal(products, lag)) for lag in lags]

    again, shuffled = [], []
    for _ in range(20):
        again.append(means(matrix, generator.exponential(size=2)[weeks]))
        order = generator.permutation(10)
        shuffled.append(means(matrix[np.ix_(order, order)], np.ones(10)))
    curve = lag_curve(matrix, Pairs(days), seed=5, repetitions=20)
    np.testing.assert_allclose(curve.band, np.percentile(again, (2.5, 97.5), axis=0))
    np.testing.assert_allclose(curve.shuffled, np.percentile(shuffled, (2.5, 97.5), axis=0))


def test_chance_is_tried_often_enough():
    assert (REPETITIONS, SHUFFLES) == (999, 9999)


def test_the_same_seed_gives_the_same_bands():
    pairs = Pairs(np.arange(20))
    one, same, other = (lag_curve(noise(20, 0), pairs, seed, repetitions=20) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.band, same.band)
    assert (one.band != other.band).any()


def test_a_drift_has_a_small_p():
    line = np.abs(np.arange(20)[:, None] - np.arange(20)[None]).astype(float)
    assert order_test(line, Pairs(np.arange(20)), seed=0, shuffles=999).p == 0.001
    found = order_test(walk(40, 2), Pairs(np.arange(40)), seed=0, shuffles=999)
    assert found.p < 0.01
    assert found.correlation > 0.3


def test_a_drift_that_comes_back_is_seen():
    angle = np.linspace(0, 2 * np.pi, 40)  # once around, so that the last day is like the first
    circle = np.abs(np.exp(1j * angle)[:, None] - np.exp(1j * angle)[None])
    assert order_test(circle, Pairs(np.arange(40)), seed=0, shuffles=999).p < 0.01


def test_noise_has_a_small_p_as_often_as_it_should():
    values = [order_test(noise(20, seed), Pairs(np.arange(20)), seed, shuffles=199).p for seed in range(100)]
    assert np.mean(np.array(values) <= 0.05) <= 0.1
    assert 0.4 < np.mean(values) < 0.6


def test_days_that_get_more_alike_with_time_are_no_drift():
    near = -np.abs(np.arange(20)[:, None] - np.arange(20)[None]).astype(float)
    assert order_test(near - np.diag(near.diagonal()), Pairs(np.arange(20)), seed=0, shuffles=99).p == 1


def test_p_is_the_share_of_all_orders_and_the_correlation_is_pearsons():
    pairs = Pairs(np.arange(4))
    lag = np.log(pairs.lag)

    def correlation(order: tuple[int, ...]) -> float:
        return float(np.corrcoef(pairs.of(HAND[np.ix_(order, order)]), lag)[0, 1])

    every = [correlation(order) for order in itertools.permutations(range(4))]
    share = np.mean(np.array(every) >= every[0] - 1e-12)
    found = order_test(HAND, pairs, seed=0, shuffles=4999)
    assert found.correlation == pytest.approx(every[0])
    assert found.p == pytest.approx(share, abs=0.02)


def test_equal_distances_are_no_evidence():
    assert order_test(np.ones((5, 5)) - np.eye(5), Pairs(np.arange(5)), seed=0, shuffles=9).p == 1


def test_what_sizes_explain_is_taken_out():
    sizes = np.arange(10, 50)
    m, n = np.meshgrid(sizes, sizes)
    explained = 0.2 + 3 * np.sqrt(1 / m + 1 / n) + 0.5 * np.abs(np.log(m / n))
    np.fill_diagonal(explained, 0)
    pairs = Pairs(np.arange(40))
    assert order_test(explained, pairs, seed=0, shuffles=99).p == 0.01
    np.testing.assert_allclose(beyond_sizes(explained, pairs, sizes), 0, atol=1e-9)
    rest = beyond_sizes(explained + walk(40, 3), pairs, np.random.default_rng(0).permutation(sizes))
    assert order_test(rest, pairs, seed=0, shuffles=99).p < 0.05


def test_the_moving_mean_goes_by_time():
    times, values = np.array([0, 1, 2, 10]), np.array([1.0, 2.0, 6.0, 50.0])
    np.testing.assert_allclose(moving_mean(times, values, 2), [1.5, 3, 4, 50])


def test_days_out_of_order_are_refused():
    for times in ([2, 1], [1, 1]):
        with pytest.raises(DreeError, match="must be in order"):
            Pairs(np.array(times))
