"""Batches of problems: what they refuse, and that handling them changes no value."""

import dataclasses
from decimal import Decimal

import numpy as np
import pytest
import torch

from dree.errors import DreeError
from dree.problems import Instances, Tours


def tsp(batch=2, nodes=3, seed=0):
    return Instances(torch.rand(batch, nodes, 2, generator=torch.Generator().manual_seed(seed)))


def cvrp(batch=2, nodes=3, seed=0):
    demands = torch.arange(batch * nodes).view(batch, nodes) % 7
    demands[:, 0] = 0
    return Instances(tsp(batch, nodes, seed).coords, demands, torch.arange(batch) + 7)


def assert_same(one, other):
    assert torch.equal(one.coords, other.coords)
    assert one.problem == other.problem
    if one.problem == "cvrp":
        assert torch.equal(one.demands, other.demands)
        assert torch.equal(one.capacity, other.capacity)


@pytest.mark.parametrize(
    "coords",
    [torch.rand(3, 2), torch.rand(1, 3, 3), torch.rand(1, 1, 3, 2), torch.zeros(1, 3, 2, dtype=torch.int64)],
    ids=["no batch", "three dimensions", "too many axes", "integers"],
)
def test_coordinates_of_the_wrong_shape_or_type_are_refused(coords):
    with pytest.raises(DreeError, match=r"Coordinates must be floats of shape \[instances, nodes, 2\], not") as error:
        Instances(coords)
    assert str(coords.dtype) in str(error.value)
    assert str(list(coords.shape)) in str(error.value)


@pytest.mark.parametrize("nodes", [0, 1])
def test_fewer_than_two_nodes_are_refused(nodes):
    with pytest.raises(DreeError, match=f"at least 2 nodes, this one has {nodes}"):
        Instances(torch.rand(1, nodes, 2))


def test_demands_and_capacity_go_together():
    coords, demands, capacity = torch.rand(1, 3, 2), torch.tensor([[0, 1, 1]]), torch.tensor([5])
    with pytest.raises(DreeError, match="go together"):
        Instances(coords, demands=demands)
    with pytest.raises(DreeError, match="go together"):
        Instances(coords, capacity=capacity)
    assert Instances(coords, demands, capacity).problem == "cvrp"


@pytest.mark.parametrize("demands", [torch.tensor([[0, 1]]), torch.tensor([[0.0, 1.0, 1.0]]), torch.tensor([0, 1, 1])])
def test_demands_of_the_wrong_shape_or_type_are_refused(demands):
    with pytest.raises(DreeError, match=r"Demands must be int64 of shape \[1, 3\]"):
        Instances(torch.rand(1, 3, 2), demands, torch.tensor([5]))


@pytest.mark.parametrize("capacity", [torch.tensor([5, 5]), torch.tensor([5.0]), torch.tensor(5)])
def test_a_capacity_of_the_wrong_shape_or_type_is_refused(capacity):
    with pytest.raises(DreeError, match=r"Capacity must be int64 of shape \[1\]"):
        Instances(torch.rand(1, 3, 2), torch.tensor([[0, 1, 1]]), capacity)


def test_a_depot_is_no_customer():
    assert (tsp(nodes=4).nodes, tsp(nodes=4).customers, tsp().problem) == (4, 4, "tsp")
    assert (cvrp(nodes=4).nodes, cvrp(nodes=4).customers, cvrp().problem) == (4, 3, "cvrp")


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("make", [tsp, cvrp])
def test_coordinates_that_are_not_finite_are_named(make, value, axis):
    batch = make(batch=3, nodes=5)
    batch.coords[1, 4, axis] = value
    batch.coords[2, 0, axis] = value  # only the first is named
    with pytest.raises(DreeError, match=r"Instance 1, node 4: coordinates .* are not finite"):
        batch.validated()


@pytest.mark.parametrize(("demand", "why"), [(-1, "is negative"), (9, "is over the capacity 8")])
def test_a_demand_out_of_range_is_named(demand, why):
    batch = cvrp()  # the second capacity is 8
    batch.demands[1, 2] = demand
    with pytest.raises(DreeError, match=f"Instance 1, node 2: demand {demand} {why}"):
        batch.validated()


@pytest.mark.parametrize("demand", [0, 8])
def test_no_demand_and_a_demand_that_fills_the_vehicle_are_fine(demand):
    batch = cvrp()
    batch.demands[1, 2] = demand
    assert batch.validated() is batch


@pytest.mark.parametrize("capacity", [0, -3])
def test_a_capacity_below_one_is_named(capacity):
    batch = cvrp()
    batch.capacity[1] = capacity
    with pytest.raises(DreeError, match=f"Instance 1: capacity {capacity} must be at least 1"):
        batch.validated()


def test_a_depot_with_a_demand_is_named():
    batch = cvrp()
    batch.demands[1, 0] = 4
    with pytest.raises(DreeError, match=r"Instance 1: the depot \(node 0\) has demand 4; it must be 0"):
        batch.validated()


@pytest.mark.parametrize("make", [tsp, cvrp])
def test_rows_are_chosen_by_slice_index_and_mask(make):
    batch = make(batch=4)
    assert len(batch) == 4
    assert_same(batch[1:3], batch[torch.tensor([1, 2])])
    assert_same(batch[torch.tensor([3, 0])], Instances.cat([batch[3:4], batch[0:1]]))
    assert_same(batch[torch.tensor([True, False, False, True])], batch[torch.tensor([0, 3])])
    assert torch.equal(batch[2:3].coords, batch.coords[2:3])
    assert len(batch[4:]) == 0
    if make is cvrp:
        assert torch.equal(batch[2:3].demands, batch.demands[2:3])
        assert batch[2:3].capacity.tolist() == [9]


@pytest.mark.parametrize("make", [tsp, cvrp])
def test_moving_to_a_device_moves_every_tensor(make):
    batch = make()
    assert_same(batch.to("cpu"), batch)
    moved = batch.to("meta")
    assert moved.device.type == "meta"
    tensors = [getattr(moved, field.name) for field in dataclasses.fields(moved)]
    assert {tensor.device.type for tensor in tensors if tensor is not None} == {"meta"}
    assert moved.problem == batch.problem


@pytest.mark.parametrize("make", [tsp, cvrp])
def test_batches_are_joined_in_order(make):
    first, second = make(batch=2, seed=1), make(batch=3, seed=2)
    joined = Instances.cat([first, second])
    assert_same(joined[:2], first)
    assert_same(joined[2:], second)


def test_only_batches_of_one_problem_and_size_are_joined():
    with pytest.raises(DreeError, match=r"one problem and size.*\('tsp', 3\), \('tsp', 4\)"):
        Instances.cat([tsp(nodes=3), tsp(nodes=4)])
    with pytest.raises(DreeError, match=r"one problem and size.*\('cvrp', 3\), \('tsp', 3\)"):
        Instances.cat([tsp(), cvrp()])
    with pytest.raises(DreeError, match="at least one batch"):
        Instances.cat([])


def test_instances_cannot_be_changed_by_accident():
    with pytest.raises(dataclasses.FrozenInstanceError):
        tsp().coords = torch.rand(1, 3, 2)


def test_the_best_tours_are_the_cheapest_of_each_instance():
    actions = torch.arange(2 * 3 * 4).view(2, 3, 4)
    best = Tours(actions, torch.tensor([[3.0, 1.0, 2.0], [5.0, 6.0, 4.0]])).best()
    assert best.costs.tolist() == [[1.0], [4.0]]
    assert torch.equal(best.actions, torch.stack((actions[0, 1:2], actions[1, 2:3])))


def test_of_equal_tours_one_is_the_best():
    best = Tours(torch.tensor([[[0, 1], [1, 0]]]), torch.tensor([[2.0, 2.0]])).best()
    assert best.costs.tolist() == [[2.0]]
    assert best.actions.shape == (1, 1, 2)


def test_plain_arrays_become_instances_of_the_types_that_solvers_take():
    coords = np.array([[[0, 0], [3, 4], [6, 8]], [[1, 1], [2, 2], [5, 5]]])
    batch = Instances.of(coords, [[0, 2, 3.0], [0, 1, 1]], 5)
    assert batch.coords.dtype == torch.float32
    assert batch.coords.tolist() == coords.tolist()
    assert batch.demands.tolist() == [[0, 2, 3], [0, 1, 1]]
    assert batch.capacity.tolist() == [5, 5]
    assert Instances.of(coords, [[0, 2, 3], [0, 1, 1]], np.array([5, 6])).capacity.tolist() == [5, 6]
    exact = Instances.of(torch.tensor(coords[0] + 0.1), dtype=torch.float64)
    assert exact.coords.tolist() == (coords[:1] + 0.1).tolist()


def test_a_single_problem_becomes_a_batch_of_one():
    assert_same(
        Instances.of([[0.0, 0.5], [1.0, 0.25]], [0, 3], 7),
        Instances(torch.tensor([[[0.0, 0.5], [1.0, 0.25]]]), torch.tensor([[0, 3]]), torch.tensor([7])),
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([[0, 1], [2]],), "'coords' must be an array of numbers in which all rows have the same length"),
        (("here",), "'coords' must be an array of numbers"),
        (([[0, 1], [2, np.nan]],), r"Instance 0, node 1: coordinates \[2.0, nan\] are not finite"),
        (([[0, 1], [2, 3]], [0, 1.5], 3), "'demands' must be whole numbers"),
        (([[0, 1], [2, 3]], [0, np.inf], 3), "'demands' must be whole numbers"),
        (([[0, 1], [2, 3]], [0, 1], 2.5), "'capacity' must be whole numbers"),
        (([[0, 1], [2, 3]], [0, 4], 3), "demand 4 is over the capacity 3"),
        (([[0, 1], [2, 3]], [0, 1]), "Demands and capacity go together"),
        (([[0, 1], [2, 3]], [0, 1], [3, 4]), r"Capacity must be int64 of shape \[1\]"),
        (([0, 1],), r"Coordinates must be floats of shape \[instances, nodes, 2\]"),
        ((torch.eye(2, dtype=torch.complex64),), "'coords' must be real numbers, not torch.complex64"),
        ((torch.eye(2) > 0,), "'coords' must be real numbers, not torch.bool"),
        ((np.eye(2) > 0,), "'coords' must be real numbers, not torch.bool"),
        (([[0, 1], [2, 3]], torch.tensor([False, True]), 3), "'demands' must be real numbers, not torch.bool"),
        (([[0, 1], [2, 3]], [0, 1e300], 3), "'demands' has a number that is too large"),
        (([[0, 1], [2, 3]], [0, 2**70], 3), "'demands' has a number that is too large"),
        (([[0, 1], [2, 3]], np.array([0, 2**63], dtype=np.uint64), 3), "'demands' has a number that is too large"),
        (([[0, 1], [2, 3]], torch.tensor([0, 2**63], dtype=torch.uint64), 3), "'demands' has a number that is too"),
        (([[0, 1], [2, 3]], np.array([0, 2**70], dtype=object), 3), "'demands' has a number that is too large"),
        (([[0, 1], [2, 3]], [0, Decimal(1)], 3), "'demands' must be plain numbers, and has also Decimal. Convert"),
        (([[0, 1], [2, None]],), "'coords' must be plain numbers, and has also NoneType"),
        ((np.array([[0, 1], [2]], dtype=object),), "'coords' must be an array of numbers in which all rows have"),
        ((np.ma.array(np.eye(2), mask=np.eye(2)),), "'coords' has values that are masked"),
        (([[0, 1], [2, 1e39]],), "'coords' has a number that is too large for torch.float32"),
        (([[0, 1], [2, 3]], [0, 1], 2.0**63), "'capacity' has a number that is too large: .* 9223372036854775807"),
    ],
)
def test_arrays_that_are_no_problems_are_refused_by_name(given, message):
    with pytest.raises(DreeError, match=message):
        Instances.of(*given)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tensors_are_taken_without_their_gradient_also_in_lists(dtype):
    coords = torch.tensor([[0.0, 0.5], [1.0, 0.25]], dtype=dtype, requires_grad=True)
    demands = torch.tensor([0.0, 3.0], requires_grad=True)
    same = Instances.of(coords.tolist(), [0, 3], 7)
    for points in (coords, list(coords), [list(point) for point in coords]):
        taken = Instances.of(points, demands, 7)
        assert not taken.coords.requires_grad
        assert_same(taken, same)


def test_plain_numbers_are_taken_however_they_are_kept():
    same = Instances.of([[0, 0.5], [1, 0.25]], [0, 3], 7)
    coords, demands = np.array([[0, 0.5], [1, 0.25]]), np.array([0, 3])
    assert_same(Instances.of(coords.astype(object), demands.astype(object), np.int8(7)), same)
    assert_same(Instances.of(np.ma.array(coords, mask=False), demands, 7), same)


def test_the_largest_whole_number_is_taken_as_it_is():
    most = 2**63 - 1
    for demands in ([0, most], np.array([0, most], dtype=np.uint64), torch.tensor([0, most], dtype=torch.uint64)):
        assert Instances.of([[0, 1], [2, 3]], demands, most).demands.tolist() == [[0, most]]


def test_the_constructor_says_where_arrays_can_be_given():
    with pytest.raises(DreeError, match=r"'coords' must be a tensor, not ndarray. Instances.of\("):
        Instances(np.zeros((1, 3, 2)))
    with pytest.raises(DreeError, match="'capacity' must be a tensor, not int"):
        Instances(torch.rand(1, 3, 2), torch.tensor([[0, 1, 1]]), 30)


def test_one_row_is_a_batch_of_one_and_a_batch_can_be_gone_through():
    batch = cvrp(3)
    assert_same(batch[1], batch[1:2])
    assert_same(batch[-1], batch[2:])
    for row in (np.int64(1), np.array(1), torch.tensor(1)):
        assert_same(batch[row], batch[1])
    assert_same(Instances.cat(list(batch)), batch)
    with pytest.raises(IndexError, match="There is no instance 3: there are 3"):
        batch[3]


def test_representations_are_one_line_without_numbers():
    assert repr(cvrp(2, 4)) == "Instances(cvrp, 2 of 3 customers, cpu)"
    tours = Tours(torch.zeros(2, 5, 7, dtype=torch.int64), torch.zeros(2, 5))
    assert repr(tours) == "Tours(5 for each of 2 instances, 7 actions, cpu)"
