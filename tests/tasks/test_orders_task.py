"""A day of orders as problems: the whole day, and random parts of it that are learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dree.errors import DreeError
from dree.tasks.orders import LARGEST, LEAST_STOPS, Orders, OrdersTask

DEPOT = (11.5, 48.1)


def orders(stops=20, seed=0, capacity=None, depot=None, geographic=True, **changes):
    dice = np.random.default_rng(seed)
    places = dice.normal((11.5, 48.1), 0.05, (stops, 2))
    demands = None if capacity is None else dice.integers(0, 5, stops)
    names = tuple(f"stop {number}" for number in range(stops))
    day = Orders("2022-06-04", places, names, geographic, depot, demands, capacity)
    return replace(day, **changes)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def chosen(day, batch):
    """Which stops of the day an instance has, by their places."""
    points = torch.from_numpy(day.frame().to_unit(day.nodes)).float()
    return (batch.coords[:, :, None] == points).all(-1).float().argmax(-1)


def test_a_day_without_demands_is_one_tour_over_its_stops():
    day = orders()
    batch = day.instance()
    assert (day.problem, batch.problem, batch.nodes) == ("tsp", "tsp", 20)
    np.testing.assert_allclose(batch.coords[0].numpy(), day.frame().to_unit(day.places), atol=1e-7)


def test_a_tour_from_a_depot_has_it_as_its_first_node():
    day = orders(depot=DEPOT)
    assert day.instance().nodes == 21
    np.testing.assert_allclose(day.instance().coords[0, :1], day.frame().to_unit(np.array([DEPOT])), atol=1e-7)


def test_a_day_with_demands_is_a_cvrp_with_the_depot_first():
    day = orders(capacity=12, depot=DEPOT)
    batch = day.instance().validated()
    assert (day.problem, batch.problem, batch.customers, batch.capacity.tolist()) == ("cvrp", "cvrp", 20, [12])
    assert batch.demands[0].tolist() == [0, *day.demands.tolist()]


def test_parts_of_a_day_keep_their_places_and_demands():
    day = orders(capacity=12, depot=DEPOT)
    whole, part = day.instance(), day.instances(np.array([[3, 1], [0, 19]]))
    assert torch.equal(part.coords[0], whole.coords[0, [0, 4, 2]])
    assert part.demands.tolist() == [[0, int(day.demands[3]), int(day.demands[1])], [0, *day.demands[[0, 19]].tolist()]]


@pytest.mark.parametrize("depot", [None, DEPOT])
def test_instances_have_no_stop_twice_and_all_come_from_the_day(depot):
    day = orders(depot=depot)
    found = chosen(day, OrdersTask(day).sample(200, generator()))
    first = 0 if depot is None else 1
    assert OrdersTask(day).size == 18
    assert found.shape == (200, 18 + first)
    assert all(len(set(row)) == len(row) for row in found.tolist())
    assert depot is None or (found[:, 0] == 0).all()


def test_every_stop_is_equally_likely():
    day = orders(stops=12)
    sampled = OrdersTask(day)
    assert sampled.size == 11
    left_out = [set(range(12)) - set(row) for row in chosen(day, sampled.sample(12_000, generator())).tolist()]
    counts = np.bincount([each for (each,) in left_out], minlength=12)
    assert ((counts - 1000) ** 2 / 1000).sum() < 31.3  # the 0.1 % quantile of a chi-squared law with 11 degrees


def test_every_order_of_the_stops_is_equally_likely():
    found = chosen(orders(stops=12), OrdersTask(orders(stops=12)).sample(12_000, generator(1)))
    counts = np.bincount(found[:, 0].numpy(), minlength=12)
    assert ((counts - 1000) ** 2 / 1000).sum() < 31.3


def test_the_same_seed_gives_the_same_instances():
    sampled = OrdersTask(orders(capacity=12, depot=DEPOT))
    for one, two in zip(*(sampled.sample(5, generator(3)).tensors() for _ in range(2)), strict=True):
        assert torch.equal(one, two)
    assert not torch.equal(sampled.sample(5, generator(4)).coords, sampled.sample(5, generator(3)).coords)


def test_instances_are_never_larger_than_the_solver_learns():
    assert OrdersTask(orders(stops=500)).size == LARGEST


def test_a_task_is_named_by_its_day_and_size():
    assert OrdersTask(orders()).name == "2022-06-04-n18"


def test_nothing_is_learned_from_a_very_small_day():
    day = orders(stops=LEAST_STOPS - 1)
    assert day.instance().nodes == LEAST_STOPS - 1
    with pytest.raises(DreeError, match="2022-06-04 has 9 stops; to learn from a day it needs 10"):
        OrdersTask(day)


@pytest.mark.parametrize("geographic", [True, False])
@pytest.mark.parametrize("depot", [None, DEPOT])
def test_stops_at_one_place_give_finite_instances(geographic, depot):
    day = orders(stops=12, depot=depot, geographic=geographic, places=np.tile([DEPOT], (12, 1)))
    assert (day.instance().coords == 0).all()
    assert (OrdersTask(day).sample(4, generator()).validated().coords == 0).all()


def test_a_plane_goes_through_the_same_interface():
    day = orders(geographic=False, places=np.array([[0.0, 100], [200, 500], [50, 100]]), names=("a", "b", "c"))
    assert day.instance().coords[0].tolist() == [[0, 0], [0.5, 1], [0.125, 0]]


def test_the_key_does_not_know_the_order_of_rows_or_names():
    day = orders(capacity=12, depot=DEPOT)
    turned = replace(day, places=day.places[::-1], demands=day.demands[::-1], names=("x",) * 20)
    assert turned.key == day.key


@pytest.mark.parametrize(
    "changes",
    [
        {"depot": (11.5, 48.2)},
        {"capacity": 13},
        {"units": 10},
        {"geographic": False},
        {"demands": None, "capacity": None},
        {"places": orders(seed=1).places},
        {"demands": np.ones(20, np.int64)},
    ],
    ids=str,
)
def test_the_key_knows_what_is_to_be_routed(changes):
    day = orders(capacity=12, depot=DEPOT)
    assert replace(day, **changes).key != day.key


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"places": np.empty((0, 2)), "names": ()}, "must have stops"),
        ({"places": np.full((20, 2), np.nan)}, "finite"),
        ({"names": ("a",)}, "20 stops and 1 names"),
        ({"capacity": None}, "go together"),
        ({"depot": None}, "no depot"),
        ({"demands": np.full(20, 13)}, "from 0 to the capacity 12"),
        ({"demands": np.full(20, -1)}, "from 0 to the capacity 12"),
        ({"demands": np.ones(19, np.int64)}, "for every stop"),
    ],
)
def test_what_is_no_day_is_refused(changes, message):
    day = orders(capacity=12, depot=DEPOT)
    with pytest.raises(DreeError, match=message):
        replace(day, **changes)
