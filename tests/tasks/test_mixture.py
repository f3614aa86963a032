"""Tasks: sizes, capacities, groups and mixtures."""

import dataclasses
import json
import math
from fractions import Fraction

import pytest
import torch

from dree.errors import DreeError
from dree.tasks import LAWS, ORDERS, SPECS, SyntheticTask, capacity_for, make_stream, mix, principal, task_named
from dree.tasks.dice import Dice

SCALES = {"U": 20, "R": 20, "E": 50, "G": 50, "C": 100, "GM": 100}


def nearest(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("order", ORDERS)
def test_node_counts_of_every_epoch_are_the_papers_formula(order):
    stream = make_stream("drift", "cvrp", order, 1000)
    for t in range(1001):
        i = min(t // 200, 4)
        first, second = ORDERS[order][i], ORDERS[order][i + 1]
        share = Fraction(t - 200 * i, 200)
        size = nearest((1 - share) * SCALES[first] + share * SCALES[second])
        new = nearest(share * size)
        expected = tuple((law, n) for law, n in ((first, size - new), (second, new)) if n)
        assert stream.task(t).groups == expected


def test_halves_of_sizes_and_counts_go_up():
    small, large = principal("U", "tsp", 20), principal("R", "tsp", 21)
    assert mix(small, large, 1, 2).groups == (("U", 10), ("R", 11))  # 20.5 -> 21, 10.5 -> 11
    assert mix(large, small, 1, 2).groups == (("R", 10), ("U", 11))


@pytest.mark.parametrize(("size", "capacity"), [(20, 30), (50, 40), (100, 50), (200, 70), (2, 24), (21, 30)])
def test_capacity_at_known_sizes(size, capacity):
    assert capacity_for(size) == capacity
    assert principal("U", "cvrp", size).capacity == capacity


def test_capacity_is_linear_between_the_three_given_sizes_and_beyond():
    for size in range(1, 400):
        line = 30 + Fraction(size - 20, 3) if size <= 50 else 40 + Fraction(size - 50, 5)
        assert capacity_for(size) == nearest(line)
        assert capacity_for(size) >= 10


def test_a_task_is_named_after_its_groups():
    assert principal("GM", "tsp").name == "GM100"
    assert SyntheticTask("cvrp", (("E", 38), ("C", 12))).name == "E38+C12"


def test_principal_tasks_have_the_papers_scale_or_the_one_asked_for():
    assert {law: principal(law, "tsp").size for law in LAWS} == SCALES
    assert principal("C", "cvrp", 12).groups == (("C", 12),)


def test_groups_without_nodes_are_dropped():
    assert SyntheticTask("tsp", (("U", 0), ("R", 20))) == principal("R", "tsp")
    assert mix(principal("E", "tsp"), principal("C", "tsp"), 0, 7) == principal("E", "tsp")
    assert mix(principal("E", "tsp"), principal("C", "tsp"), 7, 7) == principal("C", "tsp")


def test_a_task_survives_json():
    task = SyntheticTask("cvrp", (("E", 38), ("C", 12)), "official")
    again = SyntheticTask(**json.loads(json.dumps(dataclasses.asdict(task))))
    assert again == task
    assert hash(again) == hash(task)


def test_cvrp_samples_have_a_depot_first_and_the_capacity_of_their_size():
    instances = mix(principal("E", "cvrp"), principal("C", "cvrp"), 1, 4).sample(5000, generator())
    instances.validated()
    assert (instances.problem, instances.customers, len(instances)) == ("cvrp", 63, 5000)  # 62.5 -> 63
    assert instances.capacity.unique().tolist() == [43]  # 40 + 13/5 = 42.6
    assert (instances.demands[:, 0] == 0).all()
    depot = instances.coords[:, 0]
    torch.testing.assert_close(depot.mean(0), torch.full((2,), 0.5), atol=0.02, rtol=0)
    torch.testing.assert_close(depot.T.cov(), torch.eye(2) / 12, atol=0.005, rtol=0)


def test_tsp_samples_have_no_depot():
    instances = principal("U", "tsp").sample(3, generator())
    assert (instances.problem, instances.customers, instances.nodes) == ("tsp", 20, 20)


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_each_group_follows_its_own_law_in_order(problem):
    instances = SyntheticTask(problem, (("U", 60), ("G", 30))).sample(20, generator())
    customers = instances.coords[:, instances.nodes - instances.customers :]
    for row in customers:
        distinct = [len({round(x, 5) for x in part[:, 0].tolist()}) for part in (row[:60], row[60:])]
        assert distinct[0] > 55
        assert distinct[1] <= 13  # ceil(sqrt(30 * 5)) columns at most


@pytest.mark.parametrize("spec", SPECS)
def test_groups_are_drawn_one_after_the_other_by_the_specification_of_the_task(problem, spec):
    groups = (("R", 8), ("GM", 30))
    found = SyntheticTask(problem, groups, spec).sample(3, generator())
    again = generator()
    depot = Dice(3, again).uniform(2) if problem == "cvrp" else None
    coords, demands = zip(*(LAWS[law].draw(3, size, again, depot, spec) for law, size in groups), strict=True)
    assert torch.equal(found.coords[:, -38:], torch.cat(coords, dim=1))
    if problem == "cvrp":
        assert torch.equal(found.coords[:, 0], depot)
        assert torch.equal(found.demands[:, 1:], torch.cat(demands, dim=1))


def test_demands_of_a_group_depend_on_the_depot_of_the_instance():
    instances = SyntheticTask("cvrp", (("U", 5), ("G", 400))).sample(40, generator())
    distance = (instances.coords[:, 6:] - instances.coords[:, :1]).norm(dim=-1)
    for row in range(40):
        pair = torch.stack((distance[row], instances.demands[row, 6:].float()))
        assert pair.corrcoef()[0, 1] > 0.15


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: principal("g", "tsp"), "Unknown law 'g'. Did you mean 'G'"),
        (lambda: SyntheticTask("tsp", (("Grid", 5),)), "Unknown law 'Grid'"),
        (lambda: principal("U", "cvpr"), "Did you mean 'cvrp'"),
        (lambda: principal("U", "tsp", spec="txt"), "Did you mean 'text'"),
        (lambda: SyntheticTask("tsp", (("U", -1), ("R", 9))), "must not be negative"),
        (lambda: principal("U", "tsp", 1), "at least 2 customers"),
        (lambda: SyntheticTask("cvrp", ()), "at least 1 customers"),
        (lambda: mix(principal("U", "tsp"), principal("U", "cvrp"), 1, 2), "one problem"),
        (lambda: mix(principal("U", "tsp"), principal("R", "tsp"), 3, 2), "between 0 and 1"),
        (
            lambda: mix(SyntheticTask("tsp", (("U", 3), ("R", 3))), principal("R", "tsp"), 1, 2),
            "single law",
        ),
    ],
)
def test_what_cannot_be_a_task_is_refused_with_advice(make, message):
    with pytest.raises(DreeError, match=message.replace("(", r"\(")):
        make()


@pytest.mark.parametrize("name", ["U20", "GM100", "E38+C12"])
def test_a_task_is_found_by_its_name(problem, name):
    task = task_named(name, problem, "official")
    assert (task.name, task.problem, task.spec) == (name, problem, "official")
    assert task.size == {"U20": 20, "GM100": 100, "E38+C12": 50}[name]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("U", "names no task"),
        ("", "names no task"),
        ("E38+", "names no task"),
        ("u20", "Did you mean 'U'"),
        ("U0", "at least"),
    ],
)
def test_a_name_that_is_none_is_refused(name, message):
    with pytest.raises(DreeError, match=message):
        task_named(name, "tsp")
