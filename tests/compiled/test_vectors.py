"""Vectors compute in every lane what NumPy computes of a number."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from dree.compiled.vectors import by_head, dot, exp, larger, load, repeat, splat, store, total


def run(kernel, *arrays):
    njit(kernel)(*arrays)


def numbers(*shape, scale=1.0):
    return (np.random.default_rng(0).normal(size=shape) * scale).astype(np.float32)


@pytest.mark.parametrize("lanes", [1, 3, 8, 24])
def test_arithmetic_is_done_in_every_lane(lanes):
    given, found = numbers(2, lanes), numbers(5, lanes)

    def kernel(given, found):
        one, other = load(given, 0, lanes), load(given, lanes, lanes)
        store(found, 0, one + other)
        store(found, lanes, one - other)
        store(found, 2 * lanes, one * other)
        store(found, 3 * lanes, one / other)
        store(found, 4 * lanes, larger(one, other))

    run(kernel, given, found)
    one, other = given
    expected = np.stack([one + other, one - other, one * other, one / other, np.maximum(one, other)])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(("heads", "width"), [(1, 1), (1, 5), (2, 6), (8, 128), (3, 12)])
def test_lanes_are_repeated_and_products_added_up_over_them(heads, width):
    given, tiled, sums, whole = numbers(2, width), numbers(width), numbers(heads), numbers(2)

    def kernel(given, tiled, sums, whole):
        one, other = load(given, 0, width), load(given, width, width)
        store(tiled, 0, repeat(load(given, 0, heads), width))
        store(sums, 0, by_head(one, other, heads))
        whole[0] = total(one)
        whole[1] = dot(one, other)

    run(kernel, given, tiled, sums, whole)
    one, other = given
    assert (tiled == np.tile(one[:heads], width // heads)).all()
    np.testing.assert_allclose(sums, (one * other).reshape(-1, heads).sum(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(whole, [one.sum(), one @ other], rtol=1e-5, atol=1e-6)


def test_exponentials_are_those_of_numpy_wherever_they_fit():
    given = np.linspace(-87, 88, 16_000).astype(np.float32)
    found = np.empty_like(given)

    def kernel(given, found):
        for i in range(0, given.shape[0], 16):
            store(found, i, exp(load(given, i, 16)))

    run(kernel, given, found)
    np.testing.assert_allclose(found, np.exp(given.astype(np.float64)), rtol=3e-7)


def test_exponentials_beyond_are_those_at_the_bounds_and_what_is_not_a_number_stays_so():
    given = np.array([-np.inf, -1000, 0, 1000, np.inf, np.nan], np.float32)
    found = np.empty_like(given)

    def kernel(given, found):
        store(found, 0, exp(load(given, 0, 6)))

    run(kernel, given, found)
    np.testing.assert_allclose(found, np.exp([-87, -87, 0, 88, 88, np.nan]), rtol=1e-6)


def test_a_number_in_every_lane():
    found = numbers(7)

    def kernel(found):
        store(found, 0, splat(np.float32(2.5), 7))

    run(kernel, found)
    assert (found == 2.5).all()
