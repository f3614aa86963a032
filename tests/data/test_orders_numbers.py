"""Numbers as people write them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dree.data.orders import read_orders
from dree.data.orders_numbers import check_thousands, decimal_mark, exact, plain_number
from dree.data.orders_options import capacity_option, parse_capacity
from dree.errors import DreeError
from orders_files import read_as_file


@pytest.mark.parametrize(
    ("cell", "mark", "value"),
    [
        ("48.137", ".", "48.137"),
        ("48,137", ",", "48.137"),
        ("-0,127", ",", "-0.127"),
        ("-0,127", ".", None),
        ("−12.5", ".", "-12.5"),
        ("1,234.5", ".", "1234.5"),
        ("1.234,5", ",", "1234.5"),
        ("1.234.567", ",", "1234567"),
        ("1.234.567", ".", None),
        ("1 234.5", ".", "1234.5"),
        ("1\u202f234,5", ",", "1234.5"),
        ("1'234.5", ".", "1234.5"),
        ("48 8", ".", None),
        ("48.1°", ".", "48.1"),
        ("1.2152E+02", ".", "121.52"),
        ("1,2152E+02", ",", "121.52"),
        (".5", ".", "0.5"),
        ("5.", ".", "5"),
        ("+7", ".", "7"),
        ("nan", ".", None),
        ("inf", ".", None),
        ("1e999", ".", None),
        ("٣", ".", None),
        ("1_000", ".", None),
        ("5 kg", ".", None),
        ("", ".", None),
    ],
)
def test_a_number_is_read_exactly_or_is_none(cell, mark, value):
    assert exact(cell, mark) == (None if value is None else Decimal(value))


@given(st.decimals(-(10**9), 10**9, places=6), st.sampled_from(".,"))
def test_every_decimal_is_read_as_it_was_written(number, mark):
    assert exact(str(number).replace(".", mark), mark) == number


@given(st.text(max_size=12), st.sampled_from(".,"))
def test_any_text_is_a_finite_number_or_none(text, mark):
    number = plain_number(text, mark)
    assert number is None or abs(float(number)) < float("inf")


@pytest.mark.parametrize(
    ("cells", "mark"),
    [
        (["48.1", "11.5"], "."),
        (["48,1", "11,5"], ","),
        (["48,1", "11,5", "11.5"], ","),
        (["1.234,5"], ","),
        (["1,234.5"], "."),
        (["48", "11"], None),
        ([], None),
    ],
)
def test_most_numbers_decide_the_decimal_mark(cells, mark):
    assert decimal_mark(cells) == mark


@pytest.mark.parametrize("mark", ".,")
def test_marks_that_may_group_thousands_are_refused_with_what_to_write(mark):
    words = r"'x' has 1[.,]234, which may be 1234 or 1\.234\. Write 1234 or 1\.2340, without"
    with pytest.raises(DreeError, match=words):
        check_thousands([f"1{mark}234", f"2{mark}500", "7"], "x", mark)
    for clear in (["1.234", "2.5"], ["1", "2"], ["1.234", "0.500"], ["1.500", "1200.000"]):
        check_thousands([cell.replace(".", mark) for cell in clear], "x", mark)


XY = "x{0}y{0}kg\n0{0}0{0}0\n1.500{0}2.250{0}1.500\n3.750{0}2.125{0}2.000\n{1}{0}1.000{0}{2}\n"
DEGREES = "lat{0}lon{0}kg\n48.1{0}11.5{0}1.500\n48.2{0}11.6{0}{1}\n"


@pytest.mark.parametrize(
    ("text", "column"),
    [
        (XY.format(";", "900", "1.250"), "x"),
        (XY.format("\t", "1.900", "900"), "kg"),
        (DEGREES.format(";", "900"), "kg"),
        ("x;y;kg\n1;2;1.500\n3;4;2.000\n", "kg"),
        (XY.format(",", "900", "1.250"), None),
        (XY.format(";", "0.900", "1.250"), None),
        (XY.format(";", "1.900", "1.250"), None),
        (XY.format(";", "900.25", "2.5"), None),
        (DEGREES.format(";", "2.5"), None),
        (DEGREES.format(",", "900"), None),
        (DEGREES.format(";", "2.500"), None),
        (DEGREES.format(";", "900").replace(".", ",").replace("1,500", "1.500"), "kg"),
    ],
)
def test_points_between_thousands_are_refused_where_decimals_would_be_clear_otherwise(tmp_path, text, column):
    path = tmp_path / "orders.csv"
    path.write_text(text)
    if column is None:
        assert read_orders(path, depot=(48.1, 11.5), capacity=Decimal(2000)).bad == ()
        return
    with pytest.raises(DreeError, match=rf"The column '{column}' has 1\.500, which may be 1500 or 1\.5\."):
        read_orders(path, depot=(48.1, 11.5), capacity=Decimal(2000))


@pytest.mark.parametrize("text", [DEGREES.format(";", "900"), "x;y;kg\n1;2;1.500\n3;4;2.000\n"])
def test_demands_that_are_not_used_need_not_be_clear(tmp_path, text):
    (tmp_path / "orders.csv").write_text(text)
    assert len(read_orders(tmp_path / "orders.csv").days[0].places) == 2


POINTS = "id;lat;lon;kg\n1;48.1;7.8;{}\n2;48.2;7.9;{}\n3;48.2;7.8;{}\n"
COMMAS = POINTS.replace(".", ",")


def demands_of(tmp_path, text, *cells):
    file = read_as_file(tmp_path, text.format(*cells), depot=(48.1, 7.9), capacity=Decimal(5000))
    assert file.bad == ()
    (day,) = file.days
    return [Decimal(int(demand)) / day.units for demand in day.demands], file.notes


@pytest.mark.parametrize(
    ("text", "cells", "demands", "own"),
    [
        (POINTS, ("1,500", "12", "0,750"), ("1.5", "12", "0.75"), "comma"),
        (POINTS, ("1,500", "12", "2,5"), ("1.5", "12", "2.5"), "comma"),
        (POINTS, ("1,500", "12.5", "2"), ("1500", "12.5", "2"), None),
        (POINTS, ("1,500", "2", "1,000.5"), ("1500", "2", "1000.5"), None),
        (POINTS, ("1,5", "2,25", "3,125"), ("1.5", "2.25", "3.125"), "comma"),
        (COMMAS, ("1.500", "2.250", "0.750"), ("1.5", "2.25", "0.75"), "point"),
        (COMMAS, ("1.500", "2.250", "12,5"), ("1500", "2250", "12.5"), None),
        (COMMAS, ("1.500", "2.250", "900"), None, None),
        (COMMAS, ("1.500", "2.250", "3.000"), None, None),
        (COMMAS, ("1,500", "12", "3"), None, None),
        (POINTS, ("1,500", "12", "3"), None, None),
        (POINTS, ("1,500", "2.5", "0,5"), None, None),
        (POINTS, ("1,500", "2.250", "3"), None, None),
    ],
)
def test_demands_tell_their_own_decimal_mark_or_are_refused(tmp_path, text, cells, demands, own):
    if demands is None:
        with pytest.raises(DreeError, match=r"The column 'kg' has 1[.,]500, which may be 1500 or 1\.5\. Write 1500 or"):
            demands_of(tmp_path, text, *cells)
        return
    found, notes = demands_of(tmp_path, text, *cells)
    assert found == [Decimal(each) for each in demands]
    assert notes == (() if own is None else (f"The demands (kg) have a decimal {own}, unlike the coordinates.",))


def test_a_number_with_the_other_mark_than_most_demands_is_a_bad_row(tmp_path):
    text = POINTS.format("1,5", "2,5", "2.5")
    file = read_as_file(tmp_path, text, depot=(48.1, 7.9), capacity=Decimal(5000))
    assert [(row.line, row.reason) for row in file.bad] == [(4, "the demand is not a number")]
    assert file.days[0].demands.tolist() == [15, 25]


@pytest.mark.parametrize("text", ["1.300", "1,300", " 12.125 ", "999,000"])
def test_a_capacity_that_may_be_in_thousands_is_refused_with_what_to_write(text):
    with pytest.raises(DreeError, match=r"The capacity is .*, which may be [0-9]+ or .*\. Write "):
        parse_capacity(text)


def test_a_capacity_that_is_clear_is_read_and_written_so_that_it_stays_clear():
    for text, value in {"1300": "1300", "1.3": "1.3", "0.300": "0.3", "0,25": "0.25", "1300.125": "1300.125"}.items():
        assert parse_capacity(text) == Decimal(value)
    for value in ("12.125", "1.3", "20", "1E+3"):
        assert parse_capacity(capacity_option(Decimal(value)).removeprefix("--capacity=")) == Decimal(value)
