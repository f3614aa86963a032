"""Generators by name: whatever differs in a name gives other numbers."""

from __future__ import annotations

from itertools import pairwise

import torch

from dree.randomness import named_generator, named_seed

NAMES = [
    (0, "a", 1, 23),
    (0, "a", 12, 3),
    (0, "a", 123),
    (0, "a", 23, 1),
    (0, "a1", 23),
    (1, "a", 1, 23),
    (2, "a", 1, 23),
]


def test_every_name_and_seed_has_a_seed_of_its_own_always_the_same():
    seeds = [named_seed(*name) for name in NAMES]
    assert len(set(seeds)) == len(NAMES)
    assert seeds == [named_seed(*name) for name in NAMES]
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_seeds_that_follow_each_other_do_not_give_seeds_that_do():
    by_seed = [named_seed(seed, "instances", 1, 0) for seed in range(50)]
    steps = {after - before for before, after in pairwise(by_seed)}
    assert len(steps) == 49
    assert min(map(abs, steps)) > 1000


def test_a_generator_draws_what_its_seed_says():
    drawn = torch.rand(3, generator=named_generator(5, "here"))
    assert drawn.equal(torch.rand(3, generator=torch.Generator().manual_seed(named_seed(5, "here"))))
