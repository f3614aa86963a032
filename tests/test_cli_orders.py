"""`dree orders check`: what is understood of a file, and every bad row."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from command_line import cells, dree, invoke, warm_dree
from dree.errors import DreeError

check = partial(invoke, "orders", "check")
EXAMPLE = Path(__file__).parents[1] / "examples" / "orders.csv"


@pytest.fixture
def write(tmp_path):
    def to(text, name="orders.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return to


def test_the_example_is_understood():
    output = check(EXAMPLE, "--capacity", 15)
    lines = cells(output)
    assert ["text", "UTF-8,", "delimiter", "comma,", "decimal", "point"] in lines
    assert "latitude and longitude: columns lat, lon; around 47.99 N, 7.85 E" in output
    assert ["date", "column", "date"] in lines
    assert ["demand", "column", "parcels"] in lines
    assert ["depot", "marked", "in", "line", "2"] in lines
    assert "Note: Line 2 (Warehouse) is taken for the depot, not for a stop." in output
    assert ["depot", "47.9845", "7.8931"] in lines
    assert ["A-1041", "47.99193", "7.85421", "1"] in lines
    assert ["2026-03-02", "24", "5.214", "56", "4"] in lines
    assert output.endswith("No bad rows.\nStops to route: 24, days: 1.\n")


def test_without_a_capacity_there_is_one_tour():
    output = check(EXAMPLE)
    assert "one tour a day over all stops, from the depot" in output
    assert "Note: The demands (parcels) are neither used nor checked" in output
    assert ["2026-03-02", "24", "5.214"] in cells(output)


def test_every_bad_row_is_shown_with_line_reason_and_text(write):
    output = check(write("lat,lon\n48,11\n0,0\n48.1,[bold]east[/bold]\n"))
    assert "Bad rows, which are left out: 2\n" in output
    assert "  line 3: the place is (0, 0): 0,0\n" in output
    assert "  line 4: the longitude is not a number: 48.1,[bold]east[/bold]\n" in output
    assert "Stops to route: 1, days: 1." in output


def test_many_bad_rows_are_folded_by_reason(write):
    path = write("lat,lon\n48,11\n" + "0,0\n" * 30 + "48,\n")
    output = check(path)
    assert "  30: the place is (0, 0) (lines 3, 4, 5, 6, 7, ...), such as: 0,0\n" in output
    assert "  1: the longitude is missing (lines 33), such as: 48,\n" in output
    assert check(path, "--all").count("the place is (0, 0): 0,0\n") == 30


def test_many_days_are_folded(write):
    path = write("date,lat,lon\n" + "".join(f"2022-06-{day:02d},48,11\n" for day in range(1, 31)))
    assert "... and 10 more days, to 2022-06-30. All of them: --all" in check(path)
    assert ["2022-06-30", "1", "0"] in cells(check(path, "--all"))


def test_where_there_is_nothing_to_route_the_exit_code_is_1(write):
    assert check(write("lat,lon\n0,0\n"), code=1).endswith("There is nothing to route.\n")


def test_headings_without_rows_are_called_that(write):
    for text in ("id,lat,lon,kg\n", "id,lat,lon,kg\n,,,\n\n"):
        output = check(write(text), "--capacity", 5, code=1)
        assert output.endswith("\nThe file has headings and no rows. There is nothing to route.\n")
        assert "latitude and longitude: columns lat, lon" in output
        assert "none" not in output  # of the columns, of which nothing is known
        assert "no column" not in output
    assert "Bad rows, which are left out: 1\n  line 2: the header again" in check(write("lat,lon\nlat,lon\n"), code=1)
    with pytest.raises(DreeError, match="has headings and no rows: add one for each order"):
        invoke("solve", write("id,lat,lon,kg\n"))


def test_columns_depot_and_capacity_can_be_said(write):
    path = write("d,a,b,kg\n04/06/2022,11.5,48.1,2\n", name="today.csv")
    said = ["--map", "date=d,lat=b,lon=a,dates=mdy", "--depot", "48.2,11.5", "--capacity", "2.5"]
    output = check(path, *said)
    assert ["2022-04-06", "1", "11.12", "2", "1"] in cells(output)
    assert ["depot", "48.2", "11.5"] in cells(output)
    assert "vehicles of capacity 2.5, from the depot" in output


def test_the_file_s_name_is_the_day_where_there_is_no_date(write):
    assert "none; the file's name: 2022-06-04" in check(write("x,y\n1,2\n", name="2022-06-04.csv"))


def test_what_cannot_be_read_is_refused(write):
    with pytest.raises(DreeError, match="no columns for the place"):
        check(write("a,b\n1,2\n"))


def test_bad_rows_are_shown_where_the_depot_is_missing_or_elsewhere(write):
    path = write("id,lat,lon,kg\na,48,11,3\nb,48.1,11,many\nc,,11,2\n")
    for said, words in (((), "needs a depot"), (("--depot", "11,48"), "from the middle of the stops")):
        result = warm_dree("orders", "check", str(path), "--capacity", "20", *said)
        assert result.returncode == 2
        assert "Bad rows, which are left out: 2\n" in result.stdout
        assert "  line 3: the demand is not a number: b,48.1,11,many\n" in result.stdout
        assert result.stdout.endswith("  line 4: the latitude is missing: c,,11,2\n")
        assert result.stderr.startswith("Error: ")
        assert words in result.stderr


DATES = "no date tells whether the day or the month comes first"
SWAPPED = "latitude and longitude are swapped, for 2 of 2"


@pytest.mark.parametrize(
    ("text", "bad", "words"),
    [
        ("id,date,lat,lon,kg\na,04/06/2022,48,11,3\nb,05/06/2022,48,11,many\n", ["3: the demand is not a"], [DATES]),
        ("id,lat,lon,kg\na,114,22,3\nb,114,22,99\nc,,22,3\n", ["3: the demand is over", "4: the lat"], [SWAPPED]),
        ("id,lat,lon,kg\na,48,11,x\nb,,11,y\n", ["3: the latitude is missing"], ["No cell of the column 'kg'"]),
        ("id,date,lat,lon,kg\na,04/06/2022,114,22,3\nb,,114,22,-1\n", ["3: the demand is neg"], [SWAPPED, DATES]),
        ("id;x;y;kg\na;1.234;5;1\nb;7;8;2\nc;1;2;3;4\n", ["4: more cells"], ["The column 'x' has 1.234"]),
        ("type,lat,lon,kg\ndepot,48,11,\ndepot,49,11,\n,48,12,-1\n", ["4: the demand is neg"], ["several depots"]),
    ],
)  # fmt: skip
def test_bad_rows_are_shown_beside_all_that_is_wrong_with_the_whole_file(write, text, bad, words):
    result = warm_dree("orders", "check", str(write(text)), "--capacity", "20")
    assert result.returncode == 2
    assert f"Bad rows, which are left out: {len(bad)}\n" in result.stdout
    for row in bad:
        assert f"  line {row}" in result.stdout
    for each in words:
        assert each in " ".join(result.stderr.split())


def test_no_rows_are_called_good_where_the_file_could_not_be_judged(write):
    result = warm_dree("orders", "check", str(write("id,date,lat,lon\na,04/06/2022,48,11\n")))
    assert DATES in " ".join(result.stderr.split())
    assert "bad rows" not in result.stdout.lower()


def test_a_user_meets_a_sentence_and_no_traceback(write):
    result = dree("orders", "check", str(write("a,b\n1,2\n")))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.stderr


def test_nothing_is_written(write, tmp_path):
    path = write("lat,lon\n48,11\n")
    check(path)
    assert [*tmp_path.iterdir()] == [path]
