"""Hundreds of odd and malformed files: each ends in the right answer or in a clear message."""

from __future__ import annotations

import random
import re
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import invoke
from dree.data.orders import read_orders
from dree.data.orders_options import parse_capacity, parse_columns, parse_depot
from dree.errors import DreeError
from orders_cases import all_cases
from orders_files import GOOD, table, written

READERS = {
    "--map": ("columns", parse_columns),
    "--depot": ("depot", parse_depot),
    "--capacity": ("capacity", parse_capacity),
}


def read(path, options):
    """The file as the command reads it."""
    pairs = zip(options[::2], options[1::2], strict=True)
    return read_orders(path, **{READERS[name][0]: READERS[name][1](value) for name, value in pairs})


def outcome(path, **options):
    """The file, or what is said of it."""
    try:
        return read_orders(path, **options)
    except DreeError as error:
        return str(error)


def expected(stops, used):
    """What is to be routed, in any order."""
    return sorted((float(stop.lon), float(stop.lat), Decimal(stop.parcels) if used else 1) for stop in stops)


def routed(day):
    demands = [1] * len(day.places) if day.demands is None else [Decimal(int(each)) / day.units for each in day.demands]
    return sorted((*place, demand) for place, demand in zip(day.places.tolist(), demands, strict=True))


def test_there_are_more_than_200_of_them():
    assert len(all_cases()) > 200
    assert sum(case.refused for case in all_cases()) > 30


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_an_odd_file_ends_in_the_right_answer_or_a_clear_message(tmp_path, case):
    path = tmp_path / case.file
    path.write_bytes(case.content)
    if case.refused:
        with pytest.raises(DreeError, match=case.message):
            invoke("orders", "check", path, *case.options)
        return
    output = invoke("orders", "check", path, "--all", *case.options, code=0 if case.stops else 1)
    file = read(path, case.options)
    assert tuple((row.line, row.reason) for row in file.bad) == case.left_out
    assert all(f"line {line}: {reason}" in output for line, reason in case.left_out)
    assert [day.day for day in file.days] == ([case.day] if case.stops else [])
    assert [routed(day) for day in file.days] == (
        [expected(case.stops, file.days[0].demands is not None)] if case.stops else []
    )
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("seed", range(100))
def test_noise_never_ends_in_a_traceback(tmp_path, seed):
    dice = random.Random(seed)
    content = bytearray(written(table()).encode(dice.choice(["utf-8", "utf-16", "cp1252"])))
    for _ in range(dice.choice([1, 3, 30, 300])):
        place = dice.randrange(len(content))
        choice = dice.randrange(3)
        if choice == 0:
            content[place] = dice.choice([dice.randrange(256), *b'",;\t|.-0\n\r'])
        elif choice == 1:
            del content[place : place + dice.randrange(1, 5)]
        else:
            content[place:place] = content[dice.randrange(len(content)) :][: dice.randrange(20)]
    path = tmp_path / "orders.csv"
    path.write_bytes(bytes(content))
    found = outcome(path, capacity=Decimal(20))
    if isinstance(found, str):
        assert re.search(r"orders.csv|column", found)
    else:
        invoke("orders", "check", path, "--capacity", 20, code=0 if found.days else 1)
        assert sum(len(day.places) for day in found.days) + len(found.bad) > 0


@settings(max_examples=300)
@given(st.one_of(st.text(max_size=200), st.from_regex(r"(lat|x)[,;](lon|y)([\n\r][^\n]{0,12}){0,5}")))
def test_any_text_at_all_is_read_or_refused(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("any") / "orders.csv"
    path.write_text(text, encoding="utf-8", errors="replace", newline="")
    found = outcome(path)
    if isinstance(found, str):
        assert re.search(r"orders.csv|column", found)
    else:
        lines = re.split("\r\n|\r|\n", text)
        assert sum(len(day.places) for day in found.days) + len(found.bad) <= len(lines)


def test_the_good_file_is_good(tmp_path):
    path = tmp_path / "orders.csv"
    path.write_text(written(table()))
    (day,) = read_orders(path, capacity=Decimal(20)).days
    assert routed(day) == expected(GOOD, True)
    assert day.names == tuple(stop.id for stop in GOOD)
