"""Numbers as people write them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dree.data.orders_numbers import check_thousands, decimal_mark, exact, plain_number
from dree.errors import DreeError


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


def test_commas_that_may_group_thousands_are_refused():
    with pytest.raises(DreeError, match=r"'x' has 1,234, which may be 1234 or 1\.234"):
        check_thousands(["1,234", "2,500", "7"], "x")
    check_thousands(["1,234", "2,5"], "x")
    check_thousands(["1", "2"], "x")
