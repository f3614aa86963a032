"""The picture of a plan: it says what the table says."""

from __future__ import annotations

import pytest

from dree.report.plan_picture import draw_plan
from dree.report.plan_table import plan_table
from dree.routing import Plan
from order_days import a_day, length_of


@pytest.mark.parametrize("geographic", [True, False])
@pytest.mark.parametrize("capacity", [None, 99])
@pytest.mark.parametrize("units", [1, 10])
def test_title_and_length_are_those_of_the_table(geographic, capacity, units):
    orders = a_day(9, geographic=geographic, capacity=capacity, units=units, depot=capacity is not None)
    plan = Plan.of(orders, [range(9)] if capacity is None else [range(4), range(4, 9)])
    (axes,) = draw_plan(plan).axes
    length = f"{length_of(plan):.2f} km" if geographic else f"{length_of(plan):.6g}"
    assert axes.get_title() == str(plan_table(plan).title) == f"2026-03-04: {length}"
    assert axes.get_xlabel() == f"length {length}" + (", 2 routes" if capacity else "")
