"""Costs: those of plain geometry, least where brute force finds them, unchanged by symmetry and labels."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problem_strategies import every_tour, instances, play, trimmed, walk

from dree.problems import SYMMETRIES, Instances, augment, rules
from dree.problems.check import check_cvrp, check_tsp

SEEDS = st.integers(0, 2**32)


def best_split(points, demands, capacity, order):
    """The cheapest way to serve customers in this order: over all places to return to the depot."""
    best = [0.0] + [math.inf] * len(order)
    for end in range(1, len(order) + 1):
        for begin in range(end):
            route = order[begin:end]
            if sum(demands[node] for node in route) <= capacity:
                best[end] = min(best[end], best[begin] + walk(points, (0, *route)))
    return best[-1]


def feasible_sequences(demands, capacity):
    """Every order of the customers with every set of returns that keeps each route within capacity."""
    customers = range(1, len(demands))
    for order in itertools.permutations(customers):
        for returns in itertools.product([False, True], repeat=len(order) - 1):
            actions = [order[0]]
            for back, node in zip(returns, order[1:], strict=True):
                actions += [0, node] if back else [node]
            routes = [list(group) for depot, group in itertools.groupby(actions, lambda node: node == 0) if not depot]
            if all(sum(demands[node] for node in route) <= capacity for route in routes):
                yield (*actions, 0)


@settings(max_examples=8)
@given(instances("tsp", customers=st.integers(2, 7), batch=st.just(1), dtype=torch.float64))
def test_the_tours_of_a_tsp_are_all_permutations_and_their_costs_plain_sums(one):
    actions = every_tour(one)
    points = one.coords[0].tolist()
    permutations = list(itertools.permutations(range(one.nodes)))
    assert sorted(map(tuple, actions[0].tolist())) == permutations
    costs = rules("tsp").cost(one, actions)[0].tolist()
    assert costs == pytest.approx([walk(points, tour) for tour in actions[0].tolist()], rel=1e-12)
    assert min(costs) == pytest.approx(min(walk(points, tour) for tour in permutations), rel=1e-12)


@settings(max_examples=8)
@given(instances("cvrp", customers=st.integers(1, 5), batch=st.just(1), dtype=torch.float64))
def test_the_tours_of_a_cvrp_are_all_feasible_sequences_and_the_best_is_brute_forces(one):
    actions = every_tour(one)
    points, demands, capacity = one.coords[0].tolist(), one.demands[0].tolist(), int(one.capacity[0])
    tours = [trimmed(tour) for tour in actions[0].tolist()]
    assert sorted(tours) == sorted(feasible_sequences(demands, capacity))
    costs = rules("cvrp").cost(one, actions)[0].tolist()
    assert costs == pytest.approx([walk(points, (0, *tour)) for tour in tours], rel=1e-12)
    orders = itertools.permutations(range(1, one.nodes))
    best = min(best_split(points, demands, capacity, order) for order in orders)
    assert min(costs) == pytest.approx(best, rel=1e-12)


def test_the_best_of_forty_thousand_tours_is_the_one_brute_force_finds():
    generator = torch.Generator().manual_seed(8)
    salesman = Instances(torch.rand(1, 8, 2, generator=generator))
    permutations = torch.tensor(list(itertools.permutations(range(8))))[None]
    points = salesman.coords[0].tolist()
    best = min(walk(points, tour) for tour in itertools.permutations(range(8)) if tour[0] == 0)
    assert rules("tsp").cost(salesman, permutations).min().item() == pytest.approx(best, rel=1e-6)
    assert rules("tsp").cost(salesman, permutations).shape == (1, 40320)


def test_known_tours_have_known_costs():
    square = torch.tensor([[[0.0, 0.0], [3.0, 0.0], [3.0, 4.0], [0.0, 4.0]]])
    tours = torch.tensor([[[0, 1, 2, 3], [0, 2, 1, 3]]])
    assert rules("tsp").cost(Instances(square), tours).tolist() == [[14.0, 18.0]]
    vehicle = Instances(square, torch.tensor([[0, 1, 1, 1]]), torch.tensor([3]))
    tours = torch.tensor([[[1, 2, 3, 0, 0, 0], [1, 0, 2, 0, 3, 0], [2, 1, 0, 3, 0, 0]]])
    assert rules("cvrp").cost(vehicle, tours).tolist() == [[14.0, 24.0, 20.0]]
    assert check_tsp(square[0], [0, 2, 1, 3]) == 18.0
    assert check_cvrp(square[0], [0, 1, 1, 1], 3, [2, 1, 0, 3, 0, 0]) == 20.0


def test_the_vehicle_leaves_the_depot_before_and_reaches_it_after_its_actions():
    line = Instances(torch.tensor([[[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]]]), torch.tensor([[0, 1, 1]]), torch.tensor([2]))
    assert rules("cvrp").closed(torch.tensor([[[1, 0, 2, 0]]])).tolist() == [[[0, 1, 0, 2, 0]]]
    assert rules("tsp").closed(torch.tensor([[[1, 0, 2]]])).tolist() == [[[1, 0, 2]]]
    assert rules("cvrp").cost(line, torch.tensor([[[1, 2], [2, 1]]])).tolist() == [[6.0, 6.0]]
    assert rules("cvrp").cost(line, torch.tensor([[[1, 0, 2]]])).tolist() == [[8.0]]


def test_the_referee_does_not_mind_a_depot_before_or_missing_after_the_routes():
    line = [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]
    for actions in ([1, 0, 2], [1, 0, 2, 0], [0, 1, 0, 2, 0, 0], [0, 0, 1, 0, 0, 2]):
        assert check_cvrp(line, [0, 1, 1], 1, actions) == 6.0


@pytest.mark.parametrize("kind", ["tsp", "cvrp"])
@given(st.data(), SEEDS)
def test_no_symmetry_changes_a_cost(kind, data, seed):
    batch = data.draw(instances(kind))
    actions, _ = play(batch, seed)
    law = rules(kind)
    copies = law.cost(augment(batch), actions.repeat(SYMMETRIES, 1, 1))
    torch.testing.assert_close(copies, law.cost(batch, actions).repeat(SYMMETRIES, 1), rtol=1e-5, atol=1e-6)


def test_the_eight_copies_come_in_the_customary_order_copy_by_copy():
    x, y = 0.25, 0.125
    other = (0.5, 0.75)
    batch = Instances(
        torch.tensor([[[x, y], [0.0, 0.0]], [list(other), [0.0, 0.0]]]),
        torch.tensor([[0, 1], [0, 2]]),
        torch.tensor([3, 4]),
    )
    copies = augment(batch)
    assert copies.coords[::2, 0].tolist() == [
        [x, y],
        [1 - x, y],
        [x, 1 - y],
        [1 - x, 1 - y],
        [y, x],
        [1 - y, x],
        [y, 1 - x],
        [1 - y, 1 - x],
    ]
    assert copies.coords[1].tolist() == [list(other), [0.0, 0.0]]
    assert copies.coords[11, 0].tolist() == [1 - other[1], other[0]]
    assert copies.demands.tolist() == [[0, 1], [0, 2]] * 8
    assert copies.capacity.tolist() == [3, 4] * 8


def test_the_only_numbers_of_copies_are_one_and_eight():
    batch = Instances(torch.rand(2, 3, 2))
    assert augment(batch, copies=1) is batch
    assert augment(batch).problem == "tsp"
    with pytest.raises(ValueError, match="must be 1 or 8, not 4"):
        augment(batch, copies=4)


@pytest.mark.parametrize("kind", ["tsp", "cvrp"])
@given(st.data(), SEEDS)
def test_new_labels_for_the_customers_change_no_cost(kind, data, seed):
    batch = data.draw(instances(kind))
    law = rules(kind)
    actions, _ = play(batch, seed)
    order = data.draw(st.permutations(range(law.first_customer, batch.nodes)))
    old = torch.tensor([*range(law.first_customer), *order])  # the old label of each new node
    new = old.argsort()
    relabelled = Instances(
        batch.coords[:, old], None if batch.demands is None else batch.demands[:, old], batch.capacity
    )
    torch.testing.assert_close(law.cost(relabelled, new[actions]), law.cost(batch, actions), rtol=1e-6, atol=1e-7)


@given(instances("tsp"), SEEDS, st.integers(0, 7))
def test_a_salesman_may_begin_anywhere_and_go_either_way(batch, seed, shift):
    law = rules("tsp")
    actions, _ = play(batch, seed)
    cost = law.cost(batch, actions)
    torch.testing.assert_close(law.cost(batch, actions.roll(shift, -1)), cost, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(law.cost(batch, actions.flip(-1)), cost, rtol=1e-5, atol=1e-6)
