"""Reservoir sampling: every item seen is equally likely to be kept."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dree.errors import DreeError
from dree.lifelong.reservoir import Reservoir, draw


def filled(capacity: int, seen: int, generator: torch.Generator) -> Reservoir[int]:
    reservoir: Reservoir[int] = Reservoir(capacity)
    for item in range(seen):
        slot = reservoir.offer(generator)
        if slot is not None:
            reservoir.put(slot, item)
    return reservoir


@given(capacity=st.integers(1, 8), seen=st.integers(0, 40), seed=st.integers(0, 999))
def test_it_holds_different_items_and_never_more_than_it_may(capacity, seen, seed):
    reservoir = filled(capacity, seen, torch.Generator().manual_seed(seed))
    assert len(reservoir) == min(capacity, seen)
    assert len(set(reservoir.items)) == len(reservoir)
    assert reservoir.seen == seen


@pytest.mark.parametrize("shrink_to", [None, 3])
def test_every_item_is_kept_with_the_same_probability(shrink_to):
    """3000 reservoirs of 5 out of 20: each item is in 750 of them, give or take 24; of 3 out of 20: in 450."""
    kept = torch.zeros(20)
    generator = torch.Generator().manual_seed(1)
    for _ in range(3000):
        reservoir = filled(5, 12, generator)
        if shrink_to:
            reservoir.shrink(shrink_to, generator)
        for item in range(12, 20):
            slot = reservoir.offer(generator)
            if slot is not None:
                reservoir.put(slot, item)
        kept[reservoir.items] += 1
    expected = 3000 * (shrink_to or 5) / 20
    assert (kept - expected).abs().max() < 4 * expected**0.5


def test_samples_are_without_replacement_and_uniform():
    reservoir = filled(6, 6, torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(2)
    counts = torch.zeros(6)
    for _ in range(2000):
        chosen = reservoir.sample(2, generator)
        assert len(set(chosen)) == 2
        counts[chosen] += 1
    assert (counts - 2000 / 3).abs().max() < 100
    assert sorted(reservoir.sample(99, generator)) == [0, 1, 2, 3, 4, 5]


def test_draws_are_below_the_count():
    generator = torch.Generator().manual_seed(0)
    assert {draw(3, generator) for _ in range(50)} == {0, 1, 2}


def test_a_buffer_of_nothing_is_refused():
    with pytest.raises(DreeError, match="at least 1 batch, not 0"):
        Reservoir(0)


@given(st.integers(1, 8), st.integers(0, 20), st.integers(0, 20), st.integers(0, 999))
def test_what_is_foreseen_is_what_offering_and_putting_one_by_one_gives(capacity, before, count, seed):
    foreseeing, offering = (filled(capacity, before, torch.Generator().manual_seed(seed)) for _ in range(2))
    slots = foreseeing.foresee(count, torch.Generator().manual_seed(seed + 1))
    assert (foreseeing.seen, len(foreseeing)) == (before, min(capacity, before))
    generator, offered = torch.Generator().manual_seed(seed + 1), []
    for item in range(count):
        offered.append(offering.offer(generator))
        if offered[-1] is not None:
            offering.put(offered[-1], item)
    assert slots == offered
