"""Which task comes when in meta-training: the curriculum of sizes, and weights from gaps."""

from __future__ import annotations

import math

import pytest
import torch

from dree.errors import DreeError
from dree.lifelong.meta import MetaSettings, Schedule

PAPER = MetaSettings()


@pytest.mark.parametrize(
    ("iteration", "size"),
    [
        (1, 50),
        (7_499, 50),
        (7_500, 55),
        (14_999, 55),
        (15_000, 60),
        (112_500, 125),
        (224_999, 195),
        (225_000, 200),
        (250_000, 200),
    ],
)
def test_sizes_grow_linearly_in_whole_steps(iteration, size):
    assert PAPER.size_at(iteration) == size


def test_there_are_31_sizes_of_11_tasks():
    sizes = {PAPER.size_at(iteration) for iteration in range(0, 250_001, 500)}
    assert sizes == set(range(50, 201, 5))
    tasks = Schedule("cvrp", PAPER).tasks_at(7_500)
    assert {task.size for task in tasks} == {55}
    assert len({task.name for task in tasks}) == 11
    assert {task.problem for task in tasks} == {"cvrp"}


def test_rates_batches_and_orders_change_where_they_should():
    assert [PAPER.rate_at(iteration) for iteration in (1, 224_999, 225_000, 250_000)] == [1e-4, 1e-4, 1e-5, 1e-5]
    assert [PAPER.batch_at(size) for size in (50, 150, 155, 200)] == [64, 64, 32, 32]
    assert PAPER.second_order_at(250_000)
    assert not MetaSettings(order="first").second_order_at(1)
    both = MetaSettings(order="second-then-first")
    assert [both.second_order_at(iteration) for iteration in (1, 50_000, 50_001)] == [True, True, False]


def test_weights_are_equal_until_gaps_are_known_and_then_their_softmax_for_that_size_alone():
    schedule = Schedule("tsp", PAPER)
    assert schedule.weights_at(100) == pytest.approx([1 / 11] * 11)
    gaps = [0.0, 1.0, *[2.0] * 9]
    schedule.refresh(100, gaps)
    total = 1 + math.e + 9 * math.e**2
    assert schedule.weights_at(7_499) == pytest.approx([1 / total, math.e / total, *[math.e**2 / total] * 9])
    assert schedule.weights_at(7_500) == pytest.approx([1 / 11] * 11)
    schedule.refresh(200, [5.0] * 11)  # nothing is left of the old weights
    assert schedule.weights_at(200) == pytest.approx([1 / 11] * 11)
    hot = Schedule("tsp", MetaSettings(temperature=2.0))
    hot.refresh(1, [0.0, 2.0, *[0.0] * 9])
    assert hot.weights_at(1)[1] / hot.weights_at(1)[0] == pytest.approx(math.e)


def test_tasks_are_drawn_by_their_weights():
    schedule = Schedule("tsp", PAPER)
    schedule.refresh(1, [0.0, 2.0, 1.0, *[-9.0] * 8])
    generator = torch.Generator().manual_seed(0)
    names = [schedule.draw(1, generator)[0].task.name for _ in range(2000)]
    for task, weight in zip(schedule.tasks_at(1), schedule.weights_at(1), strict=True):
        assert names.count(task.name) / 2000 == pytest.approx(weight, abs=0.03)


def test_shares_of_several_tasks_are_the_softmax_of_their_weights():
    schedule = Schedule("tsp", MetaSettings(tasks=3))
    schedule.refresh(1, [float(index) for index in range(11)])
    by_name = dict(zip([task.name for task in schedule.tasks_at(1)], schedule.weights_at(1), strict=True))
    drawn = schedule.draw(1, torch.Generator().manual_seed(1))
    parts = [math.exp(by_name[share.task.name]) for share in drawn]
    assert [share.weight for share in drawn] == pytest.approx([part / sum(parts) for part in parts])
    assert Schedule("tsp", PAPER).draw(1, torch.Generator())[0].weight == 1


def test_a_schedule_goes_on_from_a_state():
    schedule, other = Schedule("tsp", PAPER), Schedule("tsp", PAPER)
    schedule.refresh(7_600, [float(index) for index in range(11)])
    other.load_state_dict(schedule.state_dict())
    assert other.weights_at(7_600) == schedule.weights_at(7_600)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"iterations": 0}, "'iterations' must be positive, not 0"),
        ({"learning_rate": -1.0}, "'learning_rate' must be positive"),
        ({"order": "third"}, "Unknown order 'third'"),
        ({"precision": "fp8"}, "Unknown precision"),
        ({"smallest": 1}, "at least 2"),
        ({"smallest": 60, "largest": 50}, "not 60 to 50"),
        ({"probe": 300}, "cannot take 300 instances of a pool of 200"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(DreeError, match=message):
        MetaSettings(**changes)


def test_no_weight_decay_and_no_second_order_are_allowed():
    MetaSettings(weight_decay=0.0, order="second-then-first", second_order_iterations=0)
