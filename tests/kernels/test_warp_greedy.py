"""Greedy tours by the kernels in CUDA C++ on the emulator, against scores in double precision."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("triton")

from emulated import needs_compiler
from warp_model import alive_on, exact_scores, nodes_like, refereed, run_on_the_cpu, unrecorded

from dree.errors import DreeError
from dree.solvers.kernel_decoder import KernelDecoder
from dree.solvers.warp_rollout import HEADS

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch):
    run_on_the_cpu(monkeypatch)


def assert_best(instances, tensors, tours, within):
    """Of the allowed nodes each decision takes one that is hardly worse than the best, and mostly that one."""
    score, blocked = exact_scores(instances, [each.double() for each in tensors], tours.actions)
    score = score.clamp(max=9.011)  # where the hyperbolic tangent is one
    taken = score.gather(-1, tours.actions[..., 1:, None]).squeeze(-1)
    best, which = score.masked_fill(blocked, -torch.inf).max(-1)
    alive = alive_on(tours)
    assert (best - taken)[alive].max() < within
    assert (which == tours.actions[..., 1:])[alive].double().mean() > 0.98


@pytest.mark.parametrize(
    ("problem", "nodes", "tours", "low"),
    [
        *((problem, nodes, None, torch.float16) for problem in ("tsp", "cvrp") for nodes in (2, 16, 33)),
        ("tsp", 112, 18, torch.float16),
        ("tsp", 20, 70, torch.float16),  # of 16 in a warp, in three blocks of two warps
        ("tsp", 33, 10, torch.bfloat16),
        ("cvrp", 128, 10, torch.float16),
        ("cvrp", 10, 40, torch.float16),
        ("cvrp", 33, 10, torch.bfloat16),
    ],
)
def test_greedy_tours_take_the_best_node(problem, nodes, tours, low):
    within = 0.004 if low == torch.float16 else 0.03
    torch.manual_seed(nodes)
    instances, (packed, *others) = nodes_like(problem, nodes)
    tensors = (packed.to(low), *others)
    made = unrecorded(instances, tensors, None if tours is None else torch.randint(1, nodes, (2, tours)))
    refereed(instances, made)
    assert_best(instances, tensors, made, within)


@pytest.mark.parametrize("offset", [0.0, 9.1])
def test_of_nodes_that_are_equally_good_the_first_is_taken(offset):
    """By their scores, or because the clip makes equals of them."""
    instances, tensors = nodes_like("tsp", 40, query=0.0, pointer=0.0, offset=0.0)
    tensors[2][:] = torch.linspace(offset, 3 * offset, 40)
    made = unrecorded(instances, (tensors[0].half(), *tensors[1:]))
    everyone = torch.arange(40)
    for start in range(40):
        assert (made.actions[:, start, 0] == start).all()
        assert (made.actions[:, start, 1:] == everyone[everyone != start]).all()
    assert (made.lengths == 40).all()


@pytest.mark.parametrize("about", [0.0, -13.0, -100.0, 13.0, 100.0])
def test_exponentials_beyond_the_range_of_fp16_are_taken_again(problem, about):
    """Attention scores of up to hundreds; or all of them about as far below zero, or above."""
    torch.manual_seed(0)
    instances, tensors = nodes_like(problem, 36, query=0.2 if about else 2.0, key=0.1 if about else 2.0)
    tensors[0][:, :, 0] += 2 if problem == "cvrp" else 1
    tensors[0][:, :, 4:] += 1
    tensors[0][:, :, 1] += about / 32
    tensors = (tensors[0].half(), *tensors[1:])
    made = unrecorded(instances, tensors, torch.arange(1, 17).expand(2, -1))
    refereed(instances, made)
    assert_best(instances, tensors, made, 0.004 if about else 0.03)


@pytest.mark.parametrize("wrong", ["nodes", "offset", "infinity"])
def test_weights_that_are_no_numbers_make_no_sound_greedy_tours(problem, wrong):
    instances, tensors = nodes_like(problem, 6)
    tensors = (tensors[0].half(), *tensors[1:])
    tensors[2 if wrong == "offset" else 0][1] = torch.inf if wrong == "infinity" else torch.nan
    made = unrecorded(instances, tensors)
    refereed(instances[:1], SimpleNamespace(actions=made.actions[:1], lengths=made.lengths[:1]))
    assert not made.lengths[1].any()
    with pytest.raises(DreeError, match="A tour does not end"):
        KernelDecoder(HEADS, tensors).rollout(
            instances, made.actions[..., 0], made.actions.shape[-1], 10.0, None, record=False
        )


def test_one_score_that_is_no_number_makes_no_sound_greedy_tours():
    """But in tours that begin there, where it is never asked for."""
    instances, tensors = nodes_like("tsp", 20, 1)
    tensors[2][0, 17] = torch.nan
    assert unrecorded(instances, tensors).lengths[0].nonzero().tolist() == [[17]]


def test_a_demand_over_the_capacity_makes_no_sound_greedy_tours():
    instances, tensors = nodes_like("cvrp", 6)
    instances.demands[1, 5] = 21
    lengths = unrecorded(instances, tensors, torch.arange(1, 5).expand(2, -1)).lengths
    assert (lengths[0] > 0).all()
    assert not lengths[1].any()
