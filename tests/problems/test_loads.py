"""A vehicle's load is an integer: exactly full fits, one more does not."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dree.problems import Instances, rules

LAW = rules("cvrp")


def cvrp(demands, capacity):
    return Instances(torch.rand(1, len(demands), 2), torch.tensor([demands]), torch.tensor([capacity])).validated()


def after(batch, *actions):
    state = LAW.begin(batch, torch.tensor([[actions[0]]]))
    for action in actions[1:]:
        state = LAW.advance(batch, state, torch.tensor([[action]]))
    return state


def blocked(state):
    return [node for node, no in enumerate(state.blocked[0, 0].tolist()) if no]


@given(st.integers(1, 2**40), st.data())
def test_exactly_what_is_left_fits_and_one_more_does_not(capacity, data):
    first = data.draw(st.integers(0, capacity - 1))
    batch = cvrp([0, first, capacity - first, capacity - first + 1 if first else capacity], capacity)
    state = after(batch, 1)
    assert state.load.item() == capacity - first
    assert blocked(state) == ([1, 3] if first else [1])
    assert after(batch, 1, 2).load.item() == 0


def test_a_full_vehicle_can_still_serve_a_customer_without_demand():
    state = after(cvrp([0, 5, 0, 1], 5), 1)
    assert state.load.item() == 0
    assert blocked(state) == [1, 3]


def test_the_depot_is_blocked_at_the_depot_until_all_is_done():
    batch = cvrp([0, 3, 3], 5)
    assert blocked(after(batch, 1)) == [1, 2]  # 2 does not fit: only the depot is left
    assert blocked(after(batch, 1, 0)) == [0, 1]
    assert blocked(after(batch, 1, 0, 2)) == [1, 2]
    assert blocked(after(batch, 1, 0, 2, 0)) == [1, 2]  # done: it stays


def test_the_vehicle_may_return_before_it_is_full():
    state = after(cvrp([0, 1, 1], 5), 1)
    assert blocked(state) == [1]
    assert after(cvrp([0, 1, 1], 5), 1, 0).load.item() == 5


def test_a_tour_is_finished_when_all_are_served_and_the_vehicle_is_back():
    batch = cvrp([0, 1, 1], 5)
    finished = [bool(LAW.finished(batch, after(batch, *actions))) for actions in ((1,), (1, 0), (1, 2), (1, 2, 0))]
    assert finished == [False, False, False, True]


@pytest.mark.parametrize("capacities", [[4, 9], [9, 4]])
def test_every_instance_has_its_own_capacity(capacities):
    batch = Instances(torch.rand(2, 3, 2), torch.tensor([[0, 2, 4], [0, 2, 4]]), torch.tensor(capacities))
    state = LAW.begin(batch, torch.tensor([[1, 2], [1, 2]]))
    assert state.load.tolist() == [[capacity - 2, capacity - 4] for capacity in capacities]
    too_large = [capacity - 2 < 4 for capacity in capacities]
    assert state.blocked[:, 0, 2].tolist() == too_large
