"""`dree drift`: one sentence, a figure and its numbers; and what is refused."""

from __future__ import annotations

import importlib.util
import json
from functools import partial

import pytest

from command_line import invoke
from dree.errors import DreeError
from lade_tables import days, write

pytest.importorskip("ot")
pytest.importorskip("pyarrow")
dree_drift = partial(invoke, "drift")


@pytest.fixture
def file(tmp_path):
    return write(
        tmp_path / "sh.csv", [*days({601 + n: 10 + n % 3 for n in range(16)}), *days({601: 12}, "2", first=500)]
    )


def test_the_report_of_a_region(file, tmp_path):
    stem = tmp_path / "out" / "report.v1"
    output = dree_drift(file, "--region", "sh-1", "--workers", 1, "--out", stem)
    content = json.loads((tmp_path / "out" / "report.v1.json").read_text())
    assert content["sentence"] in output
    assert content["name"] == "sh-1"
    assert len(content["days"]) == 16
    assert (tmp_path / "out" / "report.v1.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "out" / "report.v1.pdf").read_bytes()[:4] == b"%PDF"
    again = dree_drift(file, "--region", "sh-1", "--workers", 1, "--out", stem)
    assert "120 of 120 distances are known from before." in again


def test_the_report_of_a_synthetic_stream(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output = dree_drift("--scenario", "drift", "--order", 1, "--epochs", 15, "--nodes", 10, "--workers", 1)
    content = json.loads((tmp_path / "drift-tsp-drift-1.json").read_text())
    assert content["unit"] == "epoch"
    assert "epochs with more than 10 nodes a random part is compared (seed 0)" in output
    assert {each["compared"] for each in content["days"]} == {10}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Name what to examine"),
        (["FILE", "--scenario", "drift"], "Name what to examine"),
        (["FILE"], r"Name the region with --region\. .* has: sh-1, sh-2\."),
        (["FILE", "--region", "sh-3"], "Unknown region 'sh-3'. Did you mean 'sh-"),
        (["FILE", "--region", "sh-2"], r"sh-2 has 1 valid days.*Choose another region"),
        (["FILE", "--region", "sh-1", "--epochs", "15"], "belong to --scenario"),
        (["FILE", "--region", "sh-1", "--workers", "0"], "workers must be at least 1"),
        (["--scenario", "drift", "--region", "sh-1"], "name the file before it"),
        (["--scenario", "drift", "--epochs", "10"], "at least 14 epochs"),
        (["--scenario", "drfit"], "Unknown scenario 'drfit'. Did you mean 'drift'"),
        (["nowhere.csv", "--region", "sh-1"], "There is no file or folder"),
    ],
)
def test_what_cannot_be_done_is_refused(file, arguments, message):
    with pytest.raises(DreeError, match=message):
        dree_drift(*(file if each == "FILE" else each for each in arguments))


@pytest.mark.parametrize("out", [".", "..", "/", "folder/.."])
def test_a_name_that_is_a_folder_is_refused_before_anything_is_compared(out, monkeypatch):
    monkeypatch.setattr("dree.evaluation.drift.measure_drift", None)
    with pytest.raises(DreeError, match=r"--out \S+ is a folder\. Name the report's files in it, such as \S*drift\."):
        dree_drift("--scenario", "drift", "--epochs", 15, "--out", out)


@pytest.mark.parametrize("suffix", ["png", "pdf", "json"])
def test_a_file_that_is_in_the_way_is_named_before_anything_is_compared(suffix, tmp_path, monkeypatch):
    (tmp_path / f"report.{suffix}").mkdir()
    monkeypatch.setattr("dree.evaluation.drift.measure_drift", None)
    with pytest.raises(DreeError, match=rf"Cannot write .*report\.{suffix}: it is a folder"):
        dree_drift("--scenario", "drift", "--epochs", 15, "--out", tmp_path / "report")


def test_a_missing_package_is_named_before_anything_is_read(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(DreeError, match=r"pip install 'dree\[drift\]'"):
        dree_drift("nowhere.csv", "--region", "sh-1")
