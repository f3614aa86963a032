"""`dree data lade`: what is in the files is listed, and nothing is dropped without a number."""

from __future__ import annotations

import json
from functools import partial

import pytest

from command_line import cells, invoke
from dree.errors import DreeError
from lade_tables import days, row, write

pytest.importorskip("pyarrow")
dree_lade = partial(invoke, "data", "lade")


@pytest.fixture
def folder(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    write(source / "sh.csv", [*days({601 + number: 20 + number for number in range(25)}), row("x", lat="")])
    write(source / "jl.csv", days({601: 12, 602: 2}, "31", "Jilin", first=10_000))
    write(source / "other.csv", [], "x")
    return source


def test_regions_are_listed_with_their_days_and_packages(folder):
    output = dree_lade(folder)
    lines = cells(output)
    assert ["sh-1", "Shanghai", "25", "25", "20-44", "32.0", "7.2", "23", "2"] in lines
    assert ["jl-31", "Jilin", "2", "1", "2-12", "7.0", "5.0", "-", "-"] in lines
    assert "cities: 2, regions: 2" in output
    assert "815 rows, of which 1 are left out:" in output
    assert "1: a coordinate is missing (sh.csv line 802)" in output
    assert "No stream can be made of 1 of 2 regions" in output
    assert output.count("Left out: ") == 1


def test_the_second_time_says_the_same(folder):
    assert dree_lade(folder) == dree_lade(folder)


def test_a_region_shows_its_stream(folder, tmp_path):
    output = dree_lade(folder, "--region", "sh-1", "--ratio", "0.5", "--json", tmp_path / "list.json")
    assert "sh-1: 23 days to learn, 06-01 to 06-23, with 10 to 21 nodes (share 0.5)." in output
    assert "process tests: 06-01\n" in output
    assert "Gen: 06-24, 06-25\n" in output
    assert "jl-31" not in output
    written = json.loads((tmp_path / "list.json").read_text())
    assert (written["files"], written["rows"]) == (["jl.csv", "sh.csv"], 815)
    assert written["left_out"] == {"a coordinate is missing": 1}
    (region,) = written["regions"]
    assert (region["region"], region["packages"], region["mean"]) == ("sh-1", 800, 32)


def test_without_bad_rows_it_says_so(folder):
    assert "14 rows, all of them used." in dree_lade(folder / "jl.csv")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--region", "sh-2"], "Unknown region 'sh-2'. Did you mean 'sh-1'"),
        (["--region", "jl-31"], "jl-31 has 1 valid days"),
        (["--ratio", "0.5"], "name them with --region"),
        (["--region", "sh-1", "--ratio", "2"], "above 0 and at most 1"),
    ],
)
def test_what_cannot_be_done_is_refused(folder, arguments, message):
    with pytest.raises(DreeError, match=message):
        dree_lade(folder, *arguments)


def test_a_missing_source_is_named(tmp_path):
    with pytest.raises(DreeError, match="There is no file or folder"):
        dree_lade(tmp_path / "none.csv")
