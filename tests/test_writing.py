"""One rule for all commands: folders are made, and a place that cannot be written is refused before the work."""

from __future__ import annotations

import json

import pytest

from command_line import invoke
from dree.errors import DreeError
from dree.experiments import DEMO, Run
from run_folders import demo_run


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--preset", "demo"),
        ("demo",),
        ("pretrain", "--preset", "small"),
        ("reproduce", "table1", "--scale", "smoke"),
    ],
    ids=lambda words: words[0],
)
def test_a_folder_in_which_nothing_can_be_written_is_refused_before_anything_is_learned(words, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(Run, "finish", None)
    with pytest.raises(DreeError, match=r"Nothing can be written to .*file/inside\S*: Not a directory .* with --out"):
        invoke(*words, "--out", tmp_path / "file/inside")


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "--solver", "tsp-drift", "--json"),
        ("evaluate", "--solver", "tsp-drift", "--csv"),
        ("bench", "--device", "cpu", "--json"),
        ("data", "check", "--json"),
        ("drift", "--scenario", "drift", "--epochs", 20, "--out"),
        ("watch", "state", "--out"),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(words, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DreeError, match=r"Cannot write .*file/inside.*: Not a directory"):
        invoke(*words, tmp_path / "file/inside")


@pytest.mark.parametrize("by", ["option", "cache"])
def test_a_folder_of_test_sets_that_cannot_be_written_is_refused_before_anything_is_solved(by, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr("dree.evaluation.building.build_test", None)
    words = ["data", "build", "--task", "U5"]
    if by == "option":
        words += ["--folder", tmp_path / "file/inside"]
    else:
        monkeypatch.setenv("DREE_CACHE", str(tmp_path / "file"))
    with pytest.raises(DreeError, match=r"Nothing can be written to .*file/\S+: Not a directory .* with --folder"):
        invoke(*words)


def test_a_run_that_cannot_be_written_is_refused_in_python_too(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DreeError, match="Nothing can be written to"):
        Run.start(tmp_path / "file/inside", DEMO)


def test_folders_that_are_not_there_are_made(tmp_path):
    demo_run(tmp_path / "run", "tsp", (50,))
    out = tmp_path / "new/folder"
    invoke("plot", "tasks", "--out", out / "tasks.svg")
    invoke("evaluate", tmp_path / "run", "--limit", 1, "--json", out / "deep/result.json")
    assert (out / "tasks.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert json.loads((out / "deep/result.json").read_text())["problem"] == "tsp"
