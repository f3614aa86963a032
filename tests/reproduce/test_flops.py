"""Operations of behaviour replay: counted as they are done, for every base solver of the paper's table."""

from __future__ import annotations

import pytest

from dree.reproduce.flops import experience, published_flops, replay_flops
from dree.solvers import products


def test_the_papers_formula_adds_something_for_each_depot_return():
    assert published_flops("pomo", "cvrp", 20, 3) == 2_840_000_000 + 3 * 4_260_000
    assert published_flops("invit", "tsp", 50, 0) == 300_790_000_000


def test_what_is_counted_is_as_long_as_what_dree_keeps():
    _, kept = experience("pomo", "cvrp", 8, 4)
    assert kept.actions.shape[1] == int(kept.needed())
    assert kept.actions[:, -2].any()  # a customer, after whom the longest tour returns


@pytest.mark.parametrize("base", ["pomo", "invit"])
def test_twice_the_instances_take_twice_the_operations(base):
    one, two = (replay_flops(*experience(base, "tsp", 8, batch)) for batch in (1, 2))
    assert one[1] > one[0] > 0
    assert two[1] == pytest.approx(2 * one[1], rel=0.05)


@pytest.mark.skipif(products.LINEAR is None, reason="this PyTorch has no such operator")
@pytest.mark.parametrize("base", ["pomo", "invit"])
def test_operations_are_counted_whichever_library_multiplies(monkeypatch, base):
    counted = []
    for wide in (False, True):
        monkeypatch.setattr(products, "_wide", lambda wide=wide: wide)
        counted.append(replay_flops(*experience(base, "tsp", 8, 16)))
    assert counted[0] == counted[1]
