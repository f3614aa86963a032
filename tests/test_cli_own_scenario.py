"""Runs of a user's own scenario or law on the command line: read where its module is not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from command_line import invoke
from conftest import random_instances
from dree.data import SetKey, TestSet, user_folder, write_test
from dree.errors import DreeError
from dree.experiments import Run, RunFolder
from dree.report.comparison_page import write_comparison_page
from dree.report.run_page import write_run_page
from run_folders import demo_run, write_all_gaps

LAWS = ["E", "C", "G", "U", "R", "GM"]


def recorded(path: Path, tasks: list[str], **settings: Any) -> Path:
    """The folder of a finished run whose manifest has settings that cannot be had here; it has logged three epochs."""
    demo_run(path, "tsp")
    folder = RunFolder(path)
    manifest = folder.manifest()
    manifest["settings"] |= settings
    manifest["data"] = {f"tsp-{task}30-text": "0" * 64 for task in tasks}
    (path / "manifest.json").write_text(json.dumps(manifest))
    write_all_gaps(folder, [[9.0] * len(tasks), [2.0] * len(tasks)], [0, 50], tasks)
    for epoch, task in enumerate([f"{tasks[0]}20", f"{tasks[0]}10+{tasks[1]}10", f"{tasks[1]}20"], start=1):
        folder.append("metrics.jsonl", {"epoch": epoch, "task": task, "loss": 1.0, "cost": 1.0})
    return path


@pytest.fixture(params=["scenario", "law"])
def gone(request, tmp_path) -> Path:
    path = tmp_path / "results/group/run"
    if request.param == "scenario":
        return recorded(path, LAWS, scenario="gone.ThereAndBack")
    return recorded(path, ["U", "gone.Road"], order=["U", "gone.Road"], sizes={"U": 10})


def test_it_can_be_measured_and_drawn(gone, tmp_path):
    assert "2.00" in invoke("metrics", gone, gone)
    invoke("plot", "curves", gone, "--out", tmp_path / "curves.svg")
    assert "n = 30" in (tmp_path / "curves.svg").read_text()


def test_its_solver_can_be_evaluated_on_the_tasks_that_are_here(tmp_path):
    run = recorded(tmp_path / "run", LAWS, scenario="gone.ThereAndBack")
    invoke("evaluate", run, "--limit", 1, "--json", tmp_path / "result.json")
    assert json.loads((tmp_path / "result.json").read_text())["rows"]


def test_its_solver_can_be_evaluated_on_the_test_sets_of_a_law_that_is_not_here(tmp_path):
    run = recorded(tmp_path / "run", ["U", "gone.Road"], order=["U", "gone.Road"])
    key = SetKey("tsp", "gone.Road30")
    test = TestSet(key.name, key.task, random_instances("tsp", 2, 30, seed=1), torch.ones(2, dtype=torch.float64))
    write_test(key, test, {"seed": 1}, user_folder())
    assert "Warning" not in invoke("evaluate", run, "--limit", 1, "--json", tmp_path / "result.json")
    rows = json.loads((tmp_path / "result.json").read_text())["rows"]
    assert "gone.Road30" in [row["task"] for row in rows]


def test_it_can_be_kept_and_has_its_line_and_command_on_the_page(gone, tmp_path):
    invoke("results", "add", gone, "--folder", tmp_path / "kept")
    invoke("results", "write", "--folder", tmp_path / "kept", "--out", tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| fine-tuning | 0 | 2.00 |" in text
    assert "gone." in text


def test_its_pages_can_be_written(gone, tmp_path):
    assert "gone." in write_run_page(gone).read_text(encoding="utf-8")
    again = shutil.copytree(gone, tmp_path / "again")
    page = write_comparison_page([gone, again], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "gone." in page


def test_what_was_logged_says_when_a_task_was_learned(gone):
    stream = RunFolder(gone).stream()
    first, second = stream.order[:2]
    assert stream.active(first) == [(1, 2)]
    assert stream.active(second) == [(2, 3)]
    assert stream.task(2).name == f"{first}10+{second}10"
    assert stream == RunFolder(gone).stream()
    with pytest.raises(DreeError, match="cannot be imported"):
        stream.task(4)


def test_only_going_on_needs_its_class(gone):
    with pytest.raises(DreeError, match=r"'gone\.\w+' cannot be imported"):
        Run.resume(gone)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"scenario": "gone.ThereAndBack", "batch_size": 0}, "'batch_size' must be at least 1"),
        ({"scenario": "gone.ThereAndBack", "order": ["U", "Q"]}, "Unknown law 'Q'"),
        ({"scenario": "gone.ThereAndBack", "order": 7}, "Unknown order '7'"),
        ({"scenario": "drifts"}, "Unknown scenario 'drifts'"),
        ({"epochs": 51}, "51 epochs cannot be divided"),
    ],
)
def test_what_is_wrong_with_other_settings_is_said(tmp_path, settings, words):
    path = tmp_path / "run"
    demo_run(path, "tsp")
    manifest = RunFolder(path).manifest()
    manifest["settings"] |= settings
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DreeError, match=words):
        RunFolder(path).settings()
