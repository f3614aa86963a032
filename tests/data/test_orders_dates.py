"""Dates in the usual spellings, and what only a whole file can decide."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dree.data.orders_dates import day_names, day_of_file, is_clear_date, spelled_day
from dree.errors import DreeError

PATH = Path("orders.csv")


def days(*cells, order=None):
    names = day_names(PATH, "date", cells, order)
    return [names.get(cell) for cell in cells]


@pytest.mark.parametrize(
    ("cell", "day"),
    [
        ("2022-06-04", "2022-06-04"),
        ("2022/6/4", "2022-06-04"),
        ("2022.06.04", "2022-06-04"),
        ("2022-06-04T23:30:00+08:00", "2022-06-04"),
        ("2022-06-04 11:05:00", "2022-06-04"),
        ("20220604", "2022-06-04"),
        ("20220604.0", "2022-06-04"),
        ("20220604T110500", "2022-06-04"),
        ("04.06.2022", "2022-06-04"),
        ("4.6.22", "2022-06-04"),
        ("04. 06. 2022", "2022-06-04"),
        ("04.06.2022 00:00", "2022-06-04"),
        ("04.06.", "06-04"),
        ("604", "06-04"),
        ("0604", "06-04"),
        ("604.0", "06-04"),
        ("06-04", "06-04"),
        ("06-04 11:05:00", "06-04"),
        ("229", "02-29"),
        ("1231", "12-31"),
        ("25/06/2022", "2022-06-25"),
        ("6/25/2022", "2022-06-25"),
        ("25-06-2022", "2022-06-25"),
        ("06/06/2022", "2022-06-06"),
        ("25/06", "06-25"),
        ("2022年6月4日", "2022-06-04"),
        ("2022年06月04日 11:05", "2022-06-04"),
        ("6月4日", "06-04"),
        ("6月4号", "06-04"),
    ],
)
def test_a_date_is_read(cell, day):
    assert days(cell) == [day]


@pytest.mark.parametrize(
    "cell",
    [
        "Monday",
        "4",
        "2022-02-30",
        "20221301",
        "1301",
        "30.02.2022",
        "44716",
        "1654300800",
        "0202-06-04",
        "13/13/2022",
        "6月",
        "2022年2月30日",
        "6月4日3箱",
    ],
)
def test_what_is_no_date_is_left_out(cell):
    assert days("2022-06-04", cell, "") == ["2022-06-04", None, None]


@given(st.dates(date(1990, 1, 1), date(2099, 12, 31)))
def test_every_date_is_read_in_every_spelling(day):
    spellings = ["%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%Y%m%d", "%Y-%m-%dT%H:%M"]
    assert days(*(day.strftime(spelling) for spelling in spellings)) == [day.isoformat()] * len(spellings)
    assert days(day.strftime("%m%d"), day.strftime("%m-%d")) == [day.strftime("%m-%d")] * 2
    assert days(day.strftime("%d/%m/%Y"), order="dmy") == [day.isoformat()]
    assert days(day.strftime("%m/%d/%Y"), order="mdy") == [day.isoformat()]


def test_one_date_tells_the_order_of_all():
    assert days("04/06/2022", "25/06/2022") == ["2022-06-04", "2022-06-25"]
    assert days("06/04/2022", "06/25/2022") == ["2022-06-04", "2022-06-25"]


def test_dates_that_nothing_decides_are_refused():
    with pytest.raises(DreeError, match=r"has 04/06/2022, and no date tells .* --map dates=dmy or --map dates=mdy"):
        days("04/06/2022", "05/06/2022")


def test_both_orders_in_one_file_are_refused_but_a_stray_one_is_no_date():
    with pytest.raises(DreeError, match="dates with the day first and dates with the month first"):
        days("25/06/2022", "06/25/2022")
    cells = [*(f"{day}/06/2022" for day in range(10, 31)), *("25/06/2022",) * 5, "06/25/2022"]
    assert days(*cells)[-2:] == ["2022-06-25", None]


def test_another_order_than_two_is_refused():
    with pytest.raises(DreeError, match="--map dates=ymd: say dmy"):
        days("04/06/2022", order="ymd")


def test_a_column_without_any_date_is_refused():
    with pytest.raises(DreeError, match=r"No cell of the column 'date' .* the first is 'Monday'.*--map date=$"):
        days("Monday", "Tuesday")
    assert days("", "") == [None, None]


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("2022-06-04.csv", "2022-06-04"),
        ("orders_20220604_north.csv", "2022-06-04"),
        ("orders-2022_06_04.csv", "2022-06-04"),
        ("2022-06-04 to 2022-06-05.csv", "2022-06-04 to 2022-06-05"),
        ("2022-13-04.csv", "2022-13-04"),
        ("orders_30.06.2022.csv", "2022-06-30"),
        ("4.6.2022 north.csv", "2022-06-04"),
        ("05.03.2022.csv", "2022-03-05"),
        ("04.06.2022-11.06.2022.csv", "04.06.2022-11.06.2022"),
        ("31.06.2022.csv", "31.06.2022"),
        ("v1.04.06.2022.csv", "v1.04.06.2022"),
        ("120220604.csv", "120220604"),
        ("monday.csv", "monday"),
    ],
)
def test_a_file_may_be_named_by_its_day(name, day):
    assert day_of_file(Path("folder") / name) == day


def test_what_may_be_a_number_or_a_pair_of_hours_is_no_clear_date():
    clear = ["2022-06-04", "20220604", "04.06.", "05/03/2022", "6月4日", "2022-06-04 10:15"]
    other = ["604", "1231", "8-12", "1/2", "13/13/2022", "20221301", "Monday", ""]
    assert [cell for cell in [*clear, *other] if is_clear_date(cell)] == clear


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("05.03.2026", "2026-03-05"),
        (" 2026/3/5 ", "2026-03-05"),
        ("13/04/2026", "2026-04-13"),
        ("05/03/2026", None),
        ("06.03.2026", None),
        ("soon", None),
    ],
)
def test_a_day_may_be_asked_for_in_any_spelling_that_is_clear(text, day):
    assert spelled_day(text, ["2026-03-05", "2026-05-03", "2026-04-13"]) == day
