"""Rows of LaDe-D: what is clean is read exactly, what is not is counted with its line and its reason."""

from __future__ import annotations

import io
import sys
from datetime import date, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dree.data import lade_csv, lade_rows
from dree.data.lade_rows import DAYS, REASONS, RegionId, city_code, date_of, read_rows
from dree.errors import DreeError
from lade_tables import HEADER, row, write

pytest.importorskip("pyarrow")


def left_out(rows):
    files, lines, reasons = (column.tolist() for column in rows.left_out)
    return [(file, line, REASONS[reason]) for file, line, reason in zip(files, lines, reasons, strict=True)]


def only_reason(tmp_path, line):
    rows = read_rows([write(tmp_path / "a.csv", [row(1), line, row(3)])])
    assert (rows.counts, len(rows.days)) == ([3], 2)
    ((file, number, reason),) = left_out(rows)
    assert (file, number) == (0, 3)
    return reason


def test_regions_days_and_places_are_what_the_file_says(tmp_path):
    lines = [
        row(7, 12, "Yantai", "121.38171", "-37.5", "0604"),
        row(3, 2, "Shanghai", "121.1234567", "31.00001", "1031"),
        row(9, 12, "Yantai", "1.2138171e2", "37.", "501"),
        row(1, 2, "SHANGHAI", "+121.5", ".5", "604.0"),
    ]
    rows = read_rows([write(tmp_path / "a.csv", lines)])
    assert rows.names == [RegionId("sh", 2, "Shanghai"), RegionId("yt", 12, "Yantai")]
    assert [each.name for each in rows.names] == ["sh-2", "yt-12"]
    assert rows.regions.tolist() == [1, 0, 1, 0]
    assert [f"{date_of(int(day)):%m-%d}" for day in rows.days] == ["06-04", "10-31", "05-01", "06-04"]
    assert rows.places.tolist() == [
        [1_213_817_100, -375_000_000],
        [1_211_234_567, 310_000_100],
        [1_213_817_100, 370_000_000],
        [1_215_000_000, 5_000_000],
    ]
    assert rows.counts == [4]
    assert left_out(rows) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"lng": ""}, "a coordinate is missing"),
        ({"lat": " "}, "a coordinate is missing"),
        ({"lng": "nan"}, "a coordinate is not a number"),
        ({"lat": "31.1.2"}, "a coordinate is not a number"),
        ({"lng": "181"}, "impossible coordinates"),
        ({"lat": "-90.0000001"}, "impossible coordinates"),
        ({"lat": "1e999"}, "impossible coordinates"),
        ({"lng": "31.1", "lat": "121.5"}, "impossible coordinates"),
        ({"lng": "0", "lat": "0.0"}, "impossible coordinates"),
        ({"ds": ""}, "ds is not a date (MMDD)"),
        ({"ds": "0"}, "ds is not a date (MMDD)"),
        ({"ds": "64"}, "ds is not a date (MMDD)"),
        ({"ds": "0229"}, "ds is not a date (MMDD)"),
        ({"ds": "631"}, "ds is not a date (MMDD)"),
        ({"ds": "1301"}, "ds is not a date (MMDD)"),
        ({"ds": "06-04"}, "ds is not a date (MMDD)"),
        ({"ds": "20220604"}, "ds is not a date (MMDD)"),
        ({"ds": "-604"}, "ds is not a date (MMDD)"),
        ({"region": ""}, "region_id is not a whole number"),
        ({"region": "1.5"}, "region_id is not a whole number"),
        ({"region": "-1"}, "region_id is not a whole number"),
        ({"region": "12345678901"}, "region_id is not a whole number"),
        ({"city": ""}, "no city"),
        ({"order": ""}, "no order_id"),
        ({"order": "1"}, "order_id was there before"),
        ({"order": "3"}, None),  # the first is kept: it is the row after this one that is left out
        ({"ds": "x", "lng": "", "city": ""}, "no city"),
        ({"lng": '"121,5"'}, "a comma inside a cell (a decimal comma?)"),
        ({"lng": "121,5"}, "more cells than columns (decimal commas?)"),
        ({"lng": "121,5", "lat": "31,1"}, "more cells than columns (decimal commas?)"),
    ],
)
def test_a_bad_row_is_left_out_for_its_reason(tmp_path, change, reason):
    line = row(**{"order": 2, **change})
    if reason is None:
        rows = read_rows([write(tmp_path / "a.csv", [row(1), line, row(3)])])
        assert left_out(rows) == [(0, 4, "order_id was there before")]
    else:
        assert only_reason(tmp_path, line) == reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "an empty line"),
        ("," * 16, "an empty line"),
        ("2,1,Shanghai", "fewer cells than columns"),
        (row(2) + ",5", "more cells than columns (decimal commas?)"),
        ('"' + row(2).replace("121.5,", '121.5",'), None),
    ],
)
def test_a_line_that_is_no_row_is_left_out_for_its_reason(tmp_path, line, reason):
    if reason is None:  # quotes only wrap cells, a stray one spoils at most its own
        rows = read_rows([write(tmp_path / "a.csv", [row(1), line, row(3)])])
        assert (len(rows.days), left_out(rows)) == (3, [])
    else:
        assert only_reason(tmp_path, line) == reason


def test_the_first_clean_row_of_an_order_is_kept_even_after_a_bad_one_and_across_files(tmp_path):
    one = write(tmp_path / "1.csv", [row(1, lat=""), row(1, lat="31.2"), row(1, lat="31.3"), row("1x")])
    two = write(tmp_path / "2.csv", [row("1x", city="Jilin"), row(5)])
    rows = read_rows([one, two])
    assert rows.places[:, 1].tolist() == [312_000_000, 311_000_000, 311_000_000]
    assert [each.name for each in rows.names] == ["sh-1"]
    again = "order_id was there before"
    assert left_out(rows) == [(0, 2, "a coordinate is missing"), (0, 4, again), (1, 2, again)]
    assert rows.counts == [4, 2]


def test_byte_order_mark_quotes_windows_lines_and_other_orders_of_columns_do_not_matter(tmp_path):
    plain = read_rows([write(tmp_path / "plain.csv", [row(1), row(2, 5)])])
    header = "DS, lat,lng ,city,region_id,order_id"
    lines = ["604,31.1,121.5,Shanghai,1,1", '"0604"," 31.1","121.5","Shanghai",5,"2"']
    odd = tmp_path / "odd.csv"
    odd.write_bytes("\r\n".join(["\ufeff" + header, *lines]).encode())
    other = read_rows([odd])
    assert left_out(other) == []
    assert other.names == plain.names
    for name in ("regions", "days", "places"):
        np.testing.assert_array_equal(getattr(other, name), getattr(plain, name))


def test_bytes_that_are_not_utf8_spoil_their_own_row_only(tmp_path):
    path = tmp_path / "a.csv"
    text = "\n".join([HEADER, row(1, city="Z?rich"), row(2, lng="1?1"), "2,?", row(3, city="Zürich"), ""])
    path.write_bytes(text.encode().replace(b"?", b"\xfc"))
    rows = read_rows([path])
    assert [each.name for each in rows.names] == ["z-rich-1", "zürich-1"]
    assert left_out(rows) == [(0, 3, "a coordinate is not a number"), (0, 4, "fewer cells than columns")]


@given(
    st.lists(st.sampled_from([b"a", b"\n", b"\xc3", b"\xbc", b"\xe4\xb8\x8a", b"\xff"]), max_size=12), st.integers(4, 9)
)
def test_what_is_not_utf8_reads_as_question_marks_wherever_reading_pauses(parts, size):
    data = b"".join(parts)
    text, seen = lade_csv._Text(io.BytesIO(data), lambda _: None), []
    while piece := text.read(size):
        seen.append(piece)
    assert b"".join(seen) == data.decode("utf-8", "surrogateescape").encode("utf-8", "replace")


@pytest.mark.parametrize("block", [220, 1000])
def test_blocks_do_not_show(tmp_path, monkeypatch, block):
    lines = [row(number, city="Zürich", ds=str(601 + number % 20)) for number in range(40)]
    lines[3] = lines[17] = "x"
    lines[4] = lines[30] = ""
    lines[18] = row(2)
    path = write(tmp_path / "a.csv", lines)
    whole = read_rows([path])
    monkeypatch.setattr(lade_csv, "BLOCK", block)
    seen: list[int] = []
    parts = read_rows([path], seen.append)
    assert sum(seen) == path.stat().st_size - len(HEADER) - 1
    assert left_out(parts) == left_out(whole)
    assert [line for _, line, _ in left_out(whole)] == [5, 6, 19, 20, 32]
    np.testing.assert_array_equal(parts.days, whole.days)
    np.testing.assert_array_equal(parts.places, whole.places)


@pytest.mark.parametrize("ending", ["", "\n"])
def test_a_file_with_nothing_but_a_header_has_no_rows(tmp_path, ending):
    path = tmp_path / "a.csv"
    path.write_text(HEADER + ending)
    rows = read_rows([path])
    assert (rows.names, rows.counts, len(rows.days), left_out(rows)) == ([], [0], 0, [])


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("", "is not a file of LaDe-D: its first line does not name order_id, region_id, city, lng, lat, ds"),
        (HEADER.replace("lng,", "long,", 1), "does not name lng. It must name order_id"),
        (HEADER.replace(",", ";"), "separates its cells by semicolons, LaDe's files by commas"),
        (HEADER.replace(",", "\t"), "separates its cells by tabs"),
        (HEADER + ",lat", "names a column twice"),
    ],
)
def test_a_file_of_another_kind_is_refused_by_name(tmp_path, header, message):
    path = write(tmp_path / "a.csv", [row(1)], header)
    with pytest.raises(DreeError, match=f"a.csv.*{message}"):
        read_rows([path])


def test_a_line_without_end_is_refused_without_a_traceback(tmp_path, monkeypatch):
    monkeypatch.setattr(lade_csv, "BLOCK", 400)
    path = write(tmp_path / "a.csv", [row(1), row("2" * 2000)])
    with pytest.raises(DreeError, match=r"a\.csv cannot be read as CSV"):
        read_rows([path])


def test_without_arrow_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DreeError, match=r"pip install 'dree\[lade\]'"):
        read_rows([write(tmp_path / "a.csv", [row(1)])])


@pytest.mark.parametrize(
    ("title", "code"),
    [("Shanghai", "sh"), (" HANGZHOU ", "hz"), ("St. Gallen", "st-gallen"), ("上海", "上海"), ("?", "city")],
)
def test_cities_have_short_names(title, code):
    assert city_code(title) == code


def test_every_date_of_the_year_and_no_other_number_is_a_day():
    assert (DAYS >= 0).sum() == 365
    assert date_of(int(DAYS[604])) == date(2022, 6, 4)
    assert [date_of(day) for day in (0, 364)] == [date(2022, 1, 1), date(2022, 12, 31)]


@given(st.dates(date(2022, 1, 1), date(2022, 12, 31)), st.booleans())
def test_dates_are_read_with_and_without_the_leading_zero(day, dropped):
    text = f"{day:%m%d}"
    text = text.lstrip("0") if dropped else text
    value = lade_rows._numbers(lade_csv.arrow()[0].array([text]), lade_rows.MMDD)[0]
    assert timedelta(days=int(DAYS[int(value[0])])) == day - date(2022, 1, 1)


@given(st.integers(-1_800_000_000, 1_800_000_000))
def test_coordinates_of_seven_decimals_come_back_as_they_were(units):
    value = units / lade_rows.UNITS
    assert round(value * lade_rows.UNITS) == units
    assert np.float64(np.int32(units)) / lade_rows.UNITS == float(f"{value:.7f}")
