"""A problem in a JSON file is read as it is, or refused with the number of the node."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from dree.data.instance_files import read_problem
from dree.errors import DreeError

BAD_FILES = {
    "nan": ('{"coordinates": [[0, 0], [NaN, 1]], "demands": [0, 1], "capacity": 5}', "json: node 1: .* not finite"),
    "large": (
        '{"coordinates": [[0, 0], [1, 1]], "demands": [0, 9], "capacity": 5}',
        "json: node 1: demand 9 is over the capacity 5",
    ),
    "negative": (
        '{"coordinates": [[0, 0], [1, 1]], "demands": [0, -1], "capacity": 5}',
        "json: node 1: demand -1 is negative",
    ),
    "single": ('{"coordinates": [[0, 0]], "demands": [0], "capacity": 5}', "at least 2 nodes"),
    "none": ('{"coordinates": []}', "at least 2 nodes"),
    "ragged": ('{"coordinates": [[0, 0], [1]], "demands": [0, 1], "capacity": 5}', "node 1 must be a pair"),
    "truncated": ('{"coordinates": [[0, 0], [1,', "not complete JSON"),
    "fraction": ('{"coordinates": [[0, 0], [1, 1]], "demands": [0, 2.5], "capacity": 5}', "whole numbers"),
    "word": ('{"coordinates": [[0, 0], [1, "one"]]}', "'one' where a number is needed"),
    "quotes": ('{"coordinates": [[0, 0], ["1", 1]]}', "node 1 has '1' .* without quotes"),
    "quoted capacity": (
        '{"coordinates": [[0, 0], [1, 1]], "demands": [0, 1], "capacity": "5"}',
        "capacity has '5' .* without quotes",
    ),
    "names": ('{"coordinates": [[0, 0], [1, 1]], "names": ["a", "b"]}', "'names'. Choose from: coordinates, "),
    "key": ('{"coordinates": [[0, 0], [1, 1]], "demand": [0, 1]}', "Did you mean 'demands'"),
    "short": ('{"coordinates": [[0, 0], [1, 1]], "demands": [0], "capacity": 5}', "one number for each of the 2"),
    "nocapacity": ('{"coordinates": [[0, 0], [1, 1]], "demands": [0, 1]}', "no capacity"),
    "nodemands": ('{"coordinates": [[0, 0], [1, 1]], "capacity": 5}', "no demands"),
    "depot": ('{"coordinates": [[0, 0], [1, 1]], "demands": [1, 1], "capacity": 5}', "depot .* must be 0"),
    "huge": ('{"coordinates": [[1' + "0" * 400 + ", 0], [0, 0]]}", "where a number is needed"),
    "digits": ('{"coordinates": [[' + "1" * 5001 + ", 0], [0, 0]]}", "not complete JSON"),
    "deep": ("[" * 100_000, "not complete JSON"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_gets_a_clear_message(tmp_path, name):
    content, message = BAD_FILES[name]
    (tmp_path / "stops.json").write_text(content)
    with pytest.raises(DreeError, match=message):
        read_problem(tmp_path / "stops.json")


def test_with_demands_the_first_node_is_the_depot(tmp_path):
    problem = {"coordinates": [[5, 6], [1, 2], [3, 4]], "demands": [0, 7, 8], "capacity": 9}
    (tmp_path / "stops.json").write_text(json.dumps(problem))
    orders = read_problem(tmp_path / "stops.json")
    assert (orders.day, orders.problem, orders.geographic, orders.depot) == ("stops", "cvrp", False, (5.0, 6.0))
    assert orders.places.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert (orders.names, orders.demands.tolist(), orders.capacity) == (("1", "2"), [7, 8], 9)
    assert read_problem(tmp_path / "stops.json", Decimal(20)).capacity == 20


def test_without_demands_all_nodes_are_stops(tmp_path):
    (tmp_path / "stops.json").write_text('{"coordinates": [[5, 6], [1, 2]]}')
    orders = read_problem(tmp_path / "stops.json")
    assert (orders.problem, orders.depot, orders.names) == ("tsp", None, ("0", "1"))
    assert orders.places.tolist() == [[5.0, 6.0], [1.0, 2.0]]


def test_a_capacity_that_was_given_is_shown_as_it_was_given(tmp_path):
    file = tmp_path / "day.json"
    file.write_text('{"coordinates": [[0, 0], [1, 1]], "demands": [0, 2]}')
    with pytest.raises(DreeError, match=r"the capacity is 6\.5, but demands and capacity are whole numbers"):
        read_problem(file, Decimal("6.5"))
