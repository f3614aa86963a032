"""Streams: which task comes when, which tasks are tested, and when each of them takes part."""

import dataclasses
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dree.errors import DreeError
from dree.tasks import LAWS, ORDERS, SCENARIOS, SuddenStream, make_stream, principal


def test_the_five_orders_are_the_papers():
    assert {number: " ".join(order) for number, order in ORDERS.items()} == {
        1: "E C G U R GM",
        2: "U GM E R G C",
        3: "E G R C U GM",
        4: "G GM E U R C",
        5: "G C R U GM E",
    }


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_a_drift_passes_through_the_principal_tasks(order, problem):
    stream = make_stream("drift", problem, order, 1000)
    assert [stream.task(t) for t in range(0, 1001, 200)] == [principal(law, problem) for law in ORDERS[order]]
    assert stream.tests() == {law: principal(law, problem) for law in ORDERS[order]}
    assert list(stream.tests()) == list(ORDERS[order])


@pytest.mark.parametrize("order", ORDERS)
def test_sizes_of_a_drift_move_steadily_from_one_scale_to_the_next(order):
    stream = make_stream("drift", "tsp", order, 1000)
    for i in range(5):
        sizes = [stream.task(t).size for t in range(200 * i, 200 * i + 201)]
        assert sizes in (sorted(sizes), sorted(sizes, reverse=True))
        assert max(abs(a - b) for a, b in itertools.pairwise(sizes)) <= 1


def test_an_epoch_of_a_drift_is_a_task_of_its_own():
    stream = make_stream("drift", "tsp", 1, 50)
    assert all(stream.begins(t) and stream.ends(t) for t in range(1, 51))


def test_a_principal_task_is_active_while_it_gives_nodes():
    stream = make_stream("drift", "cvrp", 1, 1000)
    assert {law: stream.active(law) for law in ORDERS[1]} == {
        "E": [(1, 198)],
        "C": [(2, 398)],
        "G": [(201, 595)],
        "U": [(402, 794)],
        "R": [(605, 998)],
        "GM": [(805, 1000)],
    }


def test_a_law_that_comes_back_is_active_twice_and_tested_once():
    stream = make_stream("drift", "tsp", ("U", "R", "U"), 20)
    assert list(stream.tests()) == ["U", "R"]
    assert stream.active("U") == [(1, 9), (11, 20)]
    assert stream.active("R") == [(1, 19)]


def test_a_periodic_stream_keeps_each_task_for_its_period():
    stream = make_stream("periodic", "cvrp", 2, 1200)
    expected = [principal(law, "cvrp") for law in ORDERS[2] for _ in range(200)]
    assert [stream.task(t) for t in range(1, 1201)] == expected
    assert stream.task(0) == principal("U", "cvrp")
    assert [t for t in range(1, 1201) if stream.begins(t)] == [1, 201, 401, 601, 801, 1001]
    assert [t for t in range(1, 1201) if stream.ends(t)] == [200, 400, 600, 800, 1000, 1200]
    assert stream.active("E") == [(401, 600)]


def test_sudden_changes_exchange_the_papers_three_pairs_of_intervals():
    drift, sudden = (make_stream(name, "tsp", 1, 1000) for name in ("drift", "sudden"))
    source = list(range(1001))
    for one, other, length in ((23, 731, 20), (112, 517, 50), (278, 810, 100)):
        for k in range(length):
            source[one + k], source[other + k] = other + k, one + k
    assert (source[22], source[23], source[42], source[43], source[731], source[751]) == (
        22,
        731,
        750,
        43,
        23,
        751,
    )
    assert [sudden.task(t) for t in range(1001)] == [drift.task(t) for t in source]
    assert sudden.active("GM") == [(278, 377), (805, 809), (910, 1000)]
    assert sudden.begins(500)
    assert sudden.ends(500)


def test_exchanged_intervals_of_a_short_stream_are_rounded_not_cut():
    assert SuddenStream("tsp", ORDERS[1], 50).swaps() == [(1, 37, 1), (6, 26, 3), (14, 41, 5)]


@given(st.integers(10, 1000))
def test_exchanged_intervals_scale_without_overlap(fifths):
    stream = SuddenStream("tsp", ORDERS[1], 5 * fifths)
    intervals = sorted((start, start + length) for one, other, length in stream.swaps() for start in (one, other))
    assert intervals[0][0] >= 1
    assert intervals[-1][1] <= stream.epochs
    assert all(start < end for start, end in intervals)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(intervals))


@given(st.sampled_from([50, 60, 85, 205]))
def test_short_sudden_streams_meet_the_same_tasks_as_the_drift(epochs):
    drift, sudden = (make_stream(name, "tsp", 3, epochs) for name in ("drift", "sudden"))
    met = [[stream.task(t).name for t in range(epochs + 1)] for stream in (drift, sudden)]
    assert met[0] != met[1]
    assert sorted(met[0]) == sorted(met[1])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_sizes_can_be_set_per_law(scenario):
    stream = make_stream(scenario, "cvrp", ("E", "C"), 60, sizes={"C": 12, "E": 10})
    assert stream.tests() == {"E": principal("E", "cvrp", 10), "C": principal("C", "cvrp", 12)}
    assert {stream.task(t).size for t in range(61)} <= {10, 11, 12}
    assert stream.task(60) == principal("C", "cvrp", 12)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_specification_reaches_every_task(scenario):
    stream = make_stream(scenario, "tsp", ("U", "R"), 50, spec="official")
    assert {stream.task(t).spec for t in range(51)} == {"official"}
    assert stream.tests()["R"].spec == "official"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_stream_survives_json_and_can_be_a_key(scenario):
    stream = make_stream(scenario, "cvrp", 4, 300, "official", {"G": 9})
    again = SCENARIOS[scenario](**json.loads(json.dumps(dataclasses.asdict(stream))))
    assert again == stream
    assert {stream: 1}[again] == 1


@pytest.mark.parametrize(
    ("scenario", "order", "epochs", "nearest"),
    [
        ("drift", 1, 1001, 1000),
        ("drift", 1, 3, 5),
        ("drift", ("U", "R", "G"), 7, 8),
        ("periodic", 1, 1000, 1002),
        ("periodic", 1, 1, 6),
        ("sudden", 1, 999, 1000),
    ],
)
def test_epochs_that_do_not_divide_are_refused_with_the_nearest_that_do(scenario, order, epochs, nearest):
    with pytest.raises(DreeError, match=rf"nearest number that can is {nearest}\."):
        make_stream(scenario, "tsp", order, epochs)
    make_stream("drift" if scenario == "sudden" else scenario, "tsp", order, nearest)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_stream("drfit", "tsp", 1, 100), "Did you mean 'drift'"),
        (lambda: make_stream("drift", "tps", 1, 100), "Did you mean 'tsp'"),
        (lambda: make_stream("drift", "tsp", 6, 100), "Unknown order '6'.*1, 2, 3, 4, 5"),
        (lambda: make_stream("drift", "tsp", "1", 100), "number from 1 to 5 or a list"),
        (lambda: make_stream("drift", "tsp", ("U", "gm"), 100), "Did you mean 'GM'"),
        (lambda: make_stream("drift", "tsp", ("U",), 100), "at least 2 principal tasks"),
        (lambda: make_stream("drift", "tsp", 1, 100, "offical"), "Did you mean 'official'"),
        (lambda: make_stream("drift", "tsp", 1, 100, sizes={"u": 9}), "Did you mean 'U'"),
        (lambda: make_stream("drift", "tsp", 1, 100, sizes={"U": 1}), "at least 2 customers"),
        (lambda: make_stream("sudden", "tsp", 1, 45), "at least 50 epochs"),
        (lambda: make_stream("drift", "tsp", 1, 100).task(101), "Epoch 101.*0 to 100"),
        (lambda: make_stream("drift", "tsp", 1, 100).task(-1), "Epoch -1"),
        (lambda: make_stream("periodic", "tsp", 1, 60).begins(0), "Epoch 0.*1 to 60"),
        (lambda: make_stream("drift", "tsp", ("U", "R"), 10).active("GM"), "Unknown task.*Choose from: U, R"),
    ],
)
def test_what_cannot_be_a_stream_is_refused_with_advice(make, message):
    with pytest.raises(DreeError, match=message):
        make()


def test_every_order_visits_every_law_once():
    assert all(sorted(order) == sorted(LAWS) for order in ORDERS.values())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("epochs", [40, 200, 1000])
def test_the_finer_test_has_a_task_at_every_fortieth_of_a_drift(order, epochs):
    stream = make_stream("drift", "cvrp", order, epochs)
    expected = [stream.task(t) for t in range(0, epochs + 1, epochs // 40)]
    assert list(stream.finer().values()) == expected
    assert list(stream.finer()) == [task.name for task in expected]
    assert len(stream.finer()) == 41
    assert list(stream.finer().values())[::8] == list(stream.tests().values())


def test_the_finer_test_is_the_same_for_every_number_of_epochs_and_for_sudden_changes():
    finer = make_stream("drift", "tsp", 1, 1000).finer()
    assert make_stream("drift", "tsp", 1, 55).finer() == finer
    assert make_stream("sudden", "tsp", 1, 1000).finer() == finer


def test_a_periodic_stream_has_no_finer_test():
    with pytest.raises(DreeError, match="Only a stream that drifts"):
        make_stream("periodic", "tsp", 1, 60).finer()


def test_a_mixture_is_active_while_both_its_laws_give_nodes():
    stream = make_stream("drift", "cvrp", 1, 1000)
    assert stream.active(stream.task(25).name) == [(2, 198)]
    assert stream.active(stream.task(175).name) == [(2, 198)]
    assert stream.active("E50") == stream.active("E")
