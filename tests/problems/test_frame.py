"""Into the unit square: one shift and one scale, so that the best tour stays the best."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from problem_strategies import instances, play

from dree.errors import DreeError
from dree.problems import Instances, rules, to_unit_square
from dree.problems.frame import over_largest


def test_one_scale_serves_both_axes():
    batch = Instances(torch.tensor([[[10.0, 5.0], [30.0, 15.0], [20.0, 5.0]]], dtype=torch.float64))
    scaled = to_unit_square(batch).coords
    assert scaled.tolist() == [[[0.0, 0.0], [1.0, 0.5], [0.5, 0.0]]]
    assert scaled.dtype == torch.float32


@given(instances("cvrp"), st.floats(1e-3, 1e4), st.floats(-1e3, 1e3), st.integers(0, 2**32))
def test_costs_change_by_one_factor_per_instance(batch, scale, shift, seed):
    moved = Instances(batch.coords.double() * scale + shift, batch.demands, batch.capacity)
    framed = to_unit_square(moved)
    actions, _ = play(batch, seed)
    extent = (moved.coords.amax(1) - moved.coords.amin(1)).amax(-1)
    back = rules("cvrp").cost(framed, actions).double() * extent[:, None]
    torch.testing.assert_close(back, rules("cvrp").cost(moved, actions), rtol=1e-5, atol=1e-6 * scale)
    assert framed.coords.amin() == 0
    assert framed.coords.amax() == 1
    assert torch.equal(framed.demands, batch.demands)
    assert torch.equal(framed.capacity, batch.capacity)


@pytest.mark.parametrize("place", [0.0, -7.5])
def test_points_that_are_all_equal_go_to_the_corner(place):
    assert (to_unit_square(Instances(torch.full((1, 3, 2), place))).coords == 0).all()


def test_the_official_frame_divides_by_the_largest_coordinate_and_moves_nothing():
    batch = Instances(torch.tensor([[[10.0, 5.0], [40.0, 15.0], [20.0, -2.0]]], dtype=torch.float64))
    torch.testing.assert_close(over_largest(batch).coords, torch.tensor([[[0.25, 0.125], [1, 0.375], [0.5, -0.05]]]))
    with pytest.raises(DreeError, match="No coordinate is positive"):
        over_largest(Instances(-batch.coords.abs()))


@pytest.mark.parametrize(
    ("far", "message"),
    [(float("nan"), r"node 2: coordinates \[nan, 0.0\] are not finite"), (1e200, "too far apart for floating-point")],
)
def test_what_cannot_be_scaled_is_refused_with_the_real_cause(far, message):
    batch = Instances(torch.tensor([[[0.0, 0.0], [1.0, 1.0], [far, 0.0]]], dtype=torch.float64))
    with pytest.raises(DreeError, match=message):
        to_unit_square(batch)
