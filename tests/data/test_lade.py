"""LaDe-D by region and day: counts that are right, and a kept form that is used, noticed when damaged, and exact."""

from __future__ import annotations

import csv
import re
from collections import Counter
from datetime import date
from statistics import fmean, pstdev

import numpy as np
import pytest
import torch

from dree.data import lade
from dree.data.lade import kept_at, lade_files, log_at, read_lade
from dree.errors import DreeError
from dree.randomness import named_generator
from lade_tables import SHARED, days, row, write

pytest.importorskip("pyarrow")
COUNTS = {601: 12, 602: 3, 1003: 11, 930: 20}


@pytest.fixture
def file(tmp_path):
    lines = days(COUNTS) + days({601: 4}, "30", "Jilin", first=100) + [row(3), row(200, ds="x"), "?"]
    return write(tmp_path / "a.csv", lines)


def test_days_are_in_order_and_have_their_packages_in_the_order_of_the_file(tmp_path):
    lines = [row(1, lng="121.3", ds="1001"), row(2, 2), row(3, lng="121.2", ds="930"), row(4, lng="121.1", ds="1001")]
    found = read_lade([write(tmp_path / "a.csv", lines)])
    region = found.region("sh-1")
    assert [day.date for day in region.days] == [date(2022, 9, 30), date(2022, 10, 1)]
    assert [day.coords.tolist() for day in region.days] == [[[121.2, 31.1]], [[121.3, 31.1], [121.1, 31.1]]]
    assert [each.name for each in found.regions()] == ["sh-1", "sh-2"]


def test_the_summary_is_the_papers_row(file):
    jilin, shanghai = (each.summary() for each in read_lade([file]).regions())
    assert shanghai == {
        "region": "sh-1",
        "city": "Shanghai",
        "days": 4,
        "valid_days": 3,
        "packages": 46,
        "least": 3,
        "most": 20,
        "mean": 11.5,
        "std": pytest.approx(pstdev(COUNTS.values())),
        "learned_days": 2,
        "held_out_days": 1,
    }
    assert (jilin["region"], jilin["std"], jilin["valid_days"]) == ("jl-30", 0, 0)
    assert (jilin["learned_days"], jilin["held_out_days"]) == (0, 0)


def test_a_region_makes_a_stream_with_the_papers_share_or_a_given_one(file, tmp_path):
    region = read_lade([file]).region("sh-1")
    assert (region.stream().ratio, region.stream(1).task(2).size) == (0.3, 20)
    assert [day.label for day in region.stream().valid] == ["06-01", "09-30", "10-03"]
    with pytest.raises(DreeError, match=r"jl-30 has 0 valid days.*a stream needs 3"):
        read_lade([file]).region("jl-30").stream()
    berlin = read_lade([write(tmp_path / "b.csv", days(COUNTS, city="Berlin"))]).region("berlin-1")
    with pytest.raises(DreeError, match="no share of a day's packages for Berlin"):
        berlin.stream()
    assert berlin.stream(0.5).epochs == 2
    with pytest.raises(DreeError, match="Did you mean 'sh-1'"):
        read_lade([file]).region("sh-11")


def test_rows_left_out_are_counted_and_logged(file):
    found = read_lade([file])
    assert found.counts == (53,)
    assert len(found.places) == 50
    assert found.reasons() == {
        "order_id was there before": 1,
        "ds is not a date (MMDD)": 1,
        "fewer cells than columns": 1,
    }
    assert found.describe_left_out()[0] == "1: order_id was there before (line 52)"
    log = log_at(found.key)
    expected = (
        "file,line,reason\na.csv,52,order_id was there before\na.csv,53,ds is not a date (MMDD)\n"
        "a.csv,54,fewer cells than columns\n"
    )
    assert log.read_text() == expected
    log.unlink()
    read_lade([file])
    assert log.read_text() == expected


def test_examples_of_a_reason_are_few_and_name_the_file_where_there_are_several(tmp_path):
    one = write(tmp_path / "1.csv", [row(1), row(2, lat="")])
    two = write(tmp_path / "2.csv", [row(order, lat="") for order in range(3, 8)])
    assert read_lade([one, two]).describe_left_out() == [
        "6: a coordinate is missing (1.csv line 3, 2.csv line 2, 2.csv line 3, ...)"
    ]


def test_what_was_kept_is_used_and_is_the_same_to_the_bit(file, monkeypatch):
    first = read_lade([file])
    kept = kept_at(first.key).read_bytes()
    monkeypatch.setattr(lade, "read_rows", lambda *_: pytest.fail("read again"))
    again = read_lade([file])
    assert (again.key, again.files, again.counts, again.names) == (first.key, first.files, first.counts, first.names)
    ours, theirs = ((*each.left_out, each.groups, each.places) for each in (first, again))
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    samples = [
        each.region("sh-1").stream().task(1).sample(5, named_generator(3, "instances")).coords
        for each in (first, again)
    ]
    assert torch.equal(*samples)
    assert kept_at(first.key).read_bytes() == kept


def test_other_content_or_another_name_is_read_anew(file, tmp_path):
    first = read_lade([file])
    copy = tmp_path / "copy.csv"
    copy.write_bytes(file.read_bytes())
    assert read_lade([copy]).files == ("copy.csv",)
    file.write_text(file.read_text().replace("121.00000", "121.99999"))
    second = read_lade([file])
    assert len({kept_at(first.key), kept_at(second.key), kept_at(read_lade([copy]).key)}) == 3
    assert second.places.max() == 1_219_999_900


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b[:10], lambda b: b"", lambda b: b[:500] + b"!" + b[501:]]
)
def test_a_damaged_kept_file_is_made_again_and_said(file, damage):
    first = read_lade([file])
    kept = kept_at(first.key)
    whole = kept.read_bytes()
    kept.write_bytes(damage(whole))
    said: list[str] = []
    read_lade([file], said.append)
    assert said == [f"{kept} is damaged and is made again."]
    assert kept.read_bytes() == whole


def test_nothing_usable_is_an_error_that_says_why(tmp_path):
    path = write(tmp_path / "a.csv", [row(1, ds="x"), row(2, lat="")])
    for _ in range(2):  # the second time from what was kept
        with pytest.raises(DreeError, match=r"No row of .*a\.csv can be used\. 1: ds is not a date .*line 2.*line 3"):
            read_lade([path])
    with pytest.raises(DreeError, match="there is none"):
        read_lade([write(tmp_path / "b.csv", [])])


def test_a_folder_is_its_lade_files_and_others_are_left_out_aloud(tmp_path):
    write(tmp_path / "b.csv", [row(2)])
    write(tmp_path / "a.CSV", [row(1)])
    write(tmp_path / "c.csv", ["1"], "x")
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "d.csv").mkdir()
    said: list[str] = []
    assert [path.name for path in lade_files(tmp_path, said.append)] == ["a.CSV", "b.csv"]
    assert len(said) == 1
    assert re.match(r"Left out: .*c\.csv is not a file of LaDe-D", said[0])
    with pytest.raises(DreeError, match="is not a file of LaDe-D"):
        lade_files(tmp_path / "c.csv")
    with pytest.raises(DreeError, match="There is no file or folder"):
        lade_files(tmp_path / "none")
    with pytest.raises(DreeError, match="There is no CSV file of LaDe-D"):
        lade_files(tmp_path / "d.csv")


def test_progress_hears_of_all_bytes_when_hashed_and_when_read(file):
    seen: list[int] = []
    read_lade([file], progress=seen.append)
    size, header = file.stat().st_size, len(file.read_bytes().splitlines()[0]) + 1
    assert sum(seen) == 2 * size - header
    seen.clear()
    read_lade([file], progress=seen.append)
    assert sum(seen) == size


@pytest.mark.skipif(not SHARED.exists(), reason="the slice of LaDe is not here")
def test_the_real_slice_has_the_counts_of_an_independent_reader():
    path = SHARED / "delivery_sh_sample.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({each["order_id"] for each in rows}) == len(rows) == 5000
    counts = Counter(each["ds"].zfill(4) for each in rows)
    found = read_lade([path])
    assert (found.counts, found.reasons()) == ((5000,), {})
    (region,) = found.regions()
    assert {f"{day.date:%m%d}": day.packages for day in region.days} == counts
    assert [f"{day.date:%m%d}" for day in region.days] == sorted(counts)
    summary = region.summary()
    valid = sum(count >= 10 for count in counts.values())
    assert (summary["region"], summary["days"], summary["valid_days"]) == ("sh-1", 162, valid)
    assert (summary["least"], summary["most"]) == (min(counts.values()), max(counts.values()))
    assert summary["mean"] == pytest.approx(fmean(counts.values()))
    assert summary["std"] == pytest.approx(pstdev(counts.values()))
    for day in region.days:
        same = [each for each in rows if each["ds"].zfill(4) == f"{day.date:%m%d}"]
        assert day.coords.tolist() == [[float(each["lng"]), float(each["lat"])] for each in same]
    stream = region.stream()
    assert (valid, stream.epochs, len(stream.held_out())) == (150, 142, 8)
    assert list(stream.tests()) == ["06-02", "07-03", "08-02", "09-01", "10-01"]
    assert {stream.task(epoch).size for epoch in range(143)} == {
        max(10, 3 * count // 10) for name, count in counts.items() if count >= 10 and name < "1023"
    }
