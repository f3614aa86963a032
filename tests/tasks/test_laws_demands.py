"""The demands the six laws give: their range, their law, and what they depend on."""

import math

import pytest
import torch

from dree.tasks import LAWS
from dree.tasks.dice import Dice
from dree.tasks.laws import round_half_up

BOTH = pytest.mark.parametrize("spec", ["text", "official"])


def draw(law, batch, n, spec="text", seed=0):
    generator = torch.Generator().manual_seed(seed)
    depot = torch.rand(batch, 2, generator=torch.Generator().manual_seed(99))
    coords, demands = LAWS[law].draw(batch, n, generator, depot, spec)
    return coords, demands, (coords - depot[:, None]).norm(dim=-1)


def test_halves_are_rounded_up():
    assert round_half_up(torch.tensor([-0.5, 0.5, 1.5, 2.5, 2.49])).tolist() == [0, 1, 2, 3, 2]


@BOTH
def test_uniform_demands_are_one_to_ten_equally_often(spec):
    _, demands, _ = draw("U", 2000, 20, spec)
    share = torch.bincount(demands.flatten(), minlength=11) / demands.numel()
    torch.testing.assert_close(share, torch.tensor([0] + [0.1] * 10), atol=0.008, rtol=0)


@pytest.mark.parametrize("law", ["E", "C"])
@BOTH
def test_bell_shaped_demands_have_mean_five_and_deviation_one_up_to_rounding(law, spec):
    demands = draw(law, 2000, 50, spec)[1].double()
    assert demands.mean().item() == pytest.approx(5, abs=0.02)
    assert demands.var().item() == pytest.approx(1 + 1 / 12, rel=0.02)


@pytest.mark.parametrize(
    ("law", "spec", "expected"),
    [
        ("E", "text", [0, 0, 3, 10, 10]),
        ("E", "official", [1, 1, 3, 10, 10]),
        ("C", "text", [10, 10, 7, 0, 0]),
        ("C", "official", [9, 9, 7, 0, 0]),
    ],
)
def test_extreme_bell_shaped_demands_are_clipped(monkeypatch, law, spec, expected):
    extremes = torch.tensor([[-3.0, 0.2, 3.2, 10.3, 13.0]])
    monkeypatch.setattr(Dice, "normal", lambda *_, **__: extremes)
    assert draw(law, 1, 5, spec)[1].tolist() == [expected]


@pytest.mark.parametrize("law", ["G", "R"])
@BOTH
def test_demands_by_depot_distance_reach_exactly_one_and_ten(law, spec):
    _, demands, _ = draw(law, 300, 20, spec)
    assert demands.amin(1).tolist() == [1] * 300
    assert demands.amax(1).tolist() == [10] * 300


@pytest.mark.parametrize(
    ("law", "spec", "noise", "sign"),
    [
        ("G", "text", 1, 1),
        ("G", "official", 1, 1),
        ("R", "text", 2, 1),
        ("R", "official", 1, -1),
    ],
)
def test_demands_follow_the_depot_distance_with_uniform_noise(law, spec, noise, sign):
    _, demands, distance = draw(law, 100, 4000, spec)
    x = (distance - distance.mean(1, keepdim=True)).double()
    y = (demands - demands.double().mean(1, keepdim=True)).double()
    slope = (x * y).sum(1) / (x * x).sum(1)
    rest = (y - slope[:, None] * x).square().mean(1) - 1 / 12  # less what rounding adds
    assert (slope.sign() == sign).all()
    estimated = (12 * rest).sqrt() / slope.abs()
    assert estimated.median().item() == pytest.approx(noise, rel=0.05)


def mixture(spec, n):
    """Demands, and the distance of each node from its own cluster's centre, by replaying the draws."""
    batch = 50
    dice = Dice(batch, torch.Generator().manual_seed(0))
    dice.uniform(5, 2)
    points = n if spec == "text" else n - 5
    return draw("GM", batch, n, spec)[1], dice.normal(points, 2).norm(dim=-1)


def test_mixture_demands_are_ten_times_the_scaled_distance_within_the_cluster():
    demands, distance = mixture("text", 37)
    for row in range(len(demands)):
        for cluster in range(5):
            d = [distance[row, i].item() for i in range(cluster, 37, 5)]
            expected = [math.floor(10 * (x - min(d)) / (max(d) - min(d)) + 0.5) for x in d]
            assert demands[row, cluster::5].tolist() == expected


def test_official_mixture_demands_grow_from_one_to_ten_within_the_cluster():
    demands, distance = mixture("official", 100)
    for row in range(len(demands)):
        for cluster in range(5):
            block = slice(19 * cluster, 19 * cluster + 19)
            d = distance[row, block].tolist()
            expected = [math.floor(9 * (x - min(d)) / (max(d) - min(d))) + 1 for x in d]
            assert demands[row, 5:][block].tolist() == expected


def test_official_mixture_centres_have_uniform_demands():
    centres = draw("GM", 8000, 100, "official")[1][:, :5]
    share = torch.bincount(centres.flatten(), minlength=11) / centres.numel()
    torch.testing.assert_close(share, torch.tensor([0] + [0.1] * 10), atol=0.008, rtol=0)


def test_about_one_customer_in_eleven_of_a_mixture_has_no_demand_in_the_text_but_none_officially():
    assert (draw("GM", 500, 100, "text")[1] == 0).float().mean().item() == pytest.approx(0.09, abs=0.01)
    assert draw("GM", 500, 100, "official")[1].min() == 1


@pytest.mark.parametrize("n", [1, 4, 5, 9])
def test_lone_nodes_of_a_small_mixture_get_the_demands_of_a_full_one(n):
    small = draw("GM", 6000, n)[1].double()
    full = draw("GM", 500, 100)[1].double()
    assert small[:, -1].mean().item() == pytest.approx(full.mean().item(), abs=0.25)
    assert small[:, -1].std().item() == pytest.approx(full.std().item(), rel=0.1)


def test_an_official_mixture_too_small_for_its_clusters_has_the_demands_of_a_full_one():
    full = draw("GM", 500, 100, "official")[1][:, 5:].double()
    small = draw("GM", 6000, 12, "official")[1][:, 5].double()
    assert small.mean().item() == pytest.approx(full.mean().item(), abs=0.25)
    assert small.std().item() == pytest.approx(full.std().item(), rel=0.1)
