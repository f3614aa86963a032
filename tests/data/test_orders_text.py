"""Files as text and text as rows: encodings, what is no text, quotes, lines."""

from __future__ import annotations

import gzip

import pytest

from dree.data.orders_text import OPEN_QUOTE, read_text, records, split_cells, split_lines
from dree.errors import DreeError

TEXT = "id,lat,lon\nMüller,48.1,11.5\n"


def written(tmp_path, content):
    path = tmp_path / "orders.csv"
    path.write_bytes(content)
    return path


def rows(text, delimiter=",", columns=3):
    return [*records(split_lines(text), delimiter, 1, columns)]


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (TEXT.encode(), "UTF-8"),
        (TEXT.encode("utf-8-sig"), "UTF-8"),
        (TEXT.encode("utf-16"), "UTF-16"),
        (b"\xfe\xff" + TEXT.encode("utf-16-be"), "UTF-16"),
        (TEXT.encode("utf-16-le"), "UTF-16-LE"),
        (TEXT.encode("utf-16-be"), "UTF-16-BE"),
        (TEXT.encode("utf-32"), "UTF-32"),
        (TEXT.encode("cp1252"), "Windows-1252"),
        (TEXT.encode("latin-1"), "Windows-1252"),
    ],
)
def test_the_encoding_is_found(tmp_path, content, encoding):
    assert read_text(written(tmp_path, content)) == (TEXT, encoding)


def test_chinese_without_unicode_is_read(tmp_path):
    text = "订单号,纬度,经度,数量\n上海市黄浦区人民大道200号,31.23,121.47,2\n朱镕,31.24,121.48,1\n"
    assert read_text(written(tmp_path, text.encode("GB18030"))) == (text, "GB18030")


@pytest.mark.parametrize(
    "name", ["Müller", "Pää", "Øvre Årdal", "naïve cœur", "Größe", "Füße", "Jäätie", "créée", "TÖÖLÖ"]
)
def test_european_names_are_not_taken_for_chinese(tmp_path, name):
    text = f"name,lat,lon\n{name},60.1,24.9\n"
    assert read_text(written(tmp_path, text.encode("cp1252"))) == (text, "Windows-1252")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04rest", "a workbook"),
        (b"\xd0\xcf\x11\xe0rest", "an old workbook"),
        (b"%PDF-1.7", "a PDF"),
        (gzip.compress(b"id,lat,lon", mtime=0), "compressed"),
        (b"PAR1data", "Parquet"),
        (bytes(range(32)) * 40, "not a text file"),
        (b"", "is empty"),
        (b"\xef\xbb\xbf \r\n\n", "is empty"),
        (b'{"lat": 1}', "JSON, HTML or XML"),
        (b"<html>", "JSON, HTML or XML"),
        (TEXT.encode("utf-16")[:-1], "not complete UTF-16"),
    ],
)
def test_what_is_no_text_is_refused_with_what_to_do(tmp_path, content, message):
    with pytest.raises(DreeError, match=message):
        read_text(written(tmp_path, content))


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(DreeError, match=r"There is no file .*none\.csv"):
        read_text(tmp_path / "none.csv")
    with pytest.raises(DreeError, match="cannot be read: Is a directory"):
        read_text(tmp_path)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_may_end_in_three_ways(end):
    assert [row.cells for row in rows(f"a,b,c{end}{end}d,e,f{end}")] == [["a", "b", "c"], ["d", "e", "f"]]
    assert [row.line for row in rows(f"a,b,c{end}{end}d,e,f{end}")] == [1, 3]


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        ('a,"b,c",d', ["a", "b,c", "d"]),
        (' a , "b, c" ,d ', ["a", "b, c", "d"]),
        ('a,"say ""x""",', ["a", 'say "x"', ""]),
        ('="0012",1,2', ["0012", "1", "2"]),
        ('"a,""b,c"",d"', ["a", "b,c", "d"]),
        ("", []),
    ],
)
def test_cells_may_be_quoted(line, cells):
    assert split_cells(line, ",") == cells


def test_a_cell_of_any_length_is_read():
    assert split_cells("a" * 200_000 + ",b", ",")[1] == "b"


def test_a_quoted_cell_may_go_over_several_lines():
    (first, second) = rows('A,"Long street\n5, backyard",3\nB,x,4')
    assert (first.line, first.cells, first.text) == (
        1,
        ["A", "Long street\n5, backyard", "3"],
        'A,"Long street\n5, backyard",3',
    )
    assert (second.line, second.cells) == (3, ["B", "x", "4"])


@pytest.mark.parametrize(
    "text",
    [
        'A,"x,3\nB,y,4\nC,z,5',
        'A,x,"3\nB,y,4\nC,z,5"',
        '"A,x,3\nB,y,4\n"C,z,5',
    ],
)
def test_a_quote_left_open_costs_its_own_line_alone(text):
    found = rows(text)
    assert found[0].reason == OPEN_QUOTE
    assert found[1].cells == ["B", "y", "4"]
    assert [row.line for row in found] == [1, 2, 3]


def test_a_mark_of_inches_is_no_quote():
    assert [row.cells for row in rows('A,5" pipe,1\nB,6" pipe,2\nC,x,3')] == [
        ["A", '5" pipe', "1"],
        ["B", '6" pipe', "2"],
        ["C", "x", "3"],
    ]
