"""Operations of behaviour replay: counted as they are done, for every base solver of the paper's table."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dree.reproduce import Choice, Found, experiment, flops
from dree.reproduce.flops import UNKNOWN_TO_TORCH, attention_flops, experience, published_flops, replay_flops
from dree.reproduce.scales import scale
from dree.solvers import products


def test_the_papers_formula_adds_something_for_each_depot_return():
    assert published_flops("pomo", "cvrp", 20, 3) == 2_840_000_000 + 3 * 4_260_000
    assert published_flops("invit", "tsp", 50, 0) == 300_790_000_000


def test_what_is_counted_is_as_long_as_what_dree_keeps():
    _, kept = experience("pomo", "cvrp", 8, 4)
    assert kept.actions.shape[1] == int(kept.needed())
    assert kept.actions[:, -2].any()  # a customer, after whom the longest tour returns


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
@pytest.mark.parametrize("base", ["pomo", "invit"])
def test_a_batch_takes_as_many_times_the_operations_of_one_of_its_instances(base, problem):
    learner, old = experience(base, problem, 8, 3)
    with FlopCounterMode(display=False, custom_mapping=UNKNOWN_TO_TORCH) as counter:
        learner.method.behaviour_replay(learner, old).backward()  # small enough for one pass
    assert replay_flops(learner, old)[1] == counter.get_total_flops()


@pytest.mark.parametrize("size", [20, 100])
@pytest.mark.parametrize("base", ["pomo", "invit"])
def test_nothing_is_computed_twice(base, size):
    forward, both = replay_flops(*experience(base, "cvrp", size, 1))
    assert both / forward == pytest.approx(3, abs=0.05)  # a product has two gradients


@pytest.mark.skipif(products.LINEAR is None, reason="this PyTorch has no such operator")
@pytest.mark.parametrize("base", ["pomo", "invit"])
def test_operations_are_counted_whichever_library_multiplies(monkeypatch, base):
    counted = []
    for wide in (False, True):
        monkeypatch.setattr(products, "_wide", lambda wide=wide: wide)
        counted.append(replay_flops(*experience(base, "tsp", 8, 16)))
    assert counted[0] == counted[1]


def test_attention_is_two_products_of_two_operations_for_each_multiplication():
    assert attention_flops((2, 3, 5, 7), (2, 3, 11, 7)) == 2 * 2 * (2 * 3 * 5 * 11 * 7)


def test_the_table_has_forward_and_backward_of_32_instances_beside_the_papers_formula(monkeypatch, tmp_path):
    monkeypatch.setattr(flops, "experience", lambda *_: (None, SimpleNamespace(actions=torch.zeros(32, 23))))
    monkeypatch.setattr(flops, "replay_flops", lambda *_: (10**9, 3 * 10**9))
    (table,) = experiment("flops").tables(Choice(scale("smoke")), Found({}, tmp_path))
    assert [row.keys for row in table.rows] == [
        (solver, problem, "20", returns)
        for solver in ("POMO", "INViT")
        for problem, returns in (("CVRP", "3"), ("TSP", "0"))
    ]
    assert [row.cells[0].ours for row in table.rows] == [3.0] * 4
    printed = [2.84 + 3 * 0.00426, 2.73, 78.53 + 3 * 4.13, 78.53]
    assert [row.cells[0].published for row in table.rows] == pytest.approx(printed)
    assert flops.BATCH == 32
