"""Runs of a user's own method or solver on the command line: read where its module is not, stopped by its faults."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from command_line import dree, invoke, warm_dree
from dree.errors import DreeError
from dree.experiments import Run, RunFolder, load_solver
from dree.experiments.material import load_material
from dree.report.comparison_page import write_comparison_page
from dree.report.run_page import write_run_page
from run_folders import demo_run, write_all_gaps
from small_runs import SMALL, as_options

LAWS = ["E", "C", "G", "U", "R", "GM"]
FAULTY = """
from dree.lifelong import Method

class Faulty(Method):
    def remember(self, learner, lesson):
        self.nothing_like_that
"""


def with_settings(path: Path, **changes: Any) -> Path:
    """The folder of a run whose manifest has other settings than it was made with."""
    demo_run(path, "tsp")
    folder = RunFolder(path)
    manifest = folder.manifest() | load_material(folder.settings()).record()
    manifest["settings"] |= changes
    (path / "manifest.json").write_text(json.dumps(manifest))
    return path


@pytest.fixture(scope="module")
def gone(tmp_path_factory) -> Path:
    """The folder of a finished run whose method cannot be imported here."""
    path = tmp_path_factory.mktemp("results") / "group/run"
    folder = RunFolder(with_settings(path, method="gone.Rehearse", options={"kept": 16}, batches=None))
    write_all_gaps(folder, [[9.0] * 6, [2.0] * 6], [0, 50], LAWS)
    folder.append("metrics.jsonl", {"epoch": 1, "task": "E20", "loss": 1.0, "cost": 1.0, "replays": 4, "improved": 0.5})
    return path


def test_it_can_be_measured_drawn_and_evaluated(gone, tmp_path):
    assert "gone.Rehearse, kept 16" in invoke("metrics", gone, gone)
    invoke("plot", "curves", gone, "--out", tmp_path / "curves.svg")
    assert "gone.Rehearse, kept 16" in (tmp_path / "curves.svg").read_text()
    invoke("evaluate", gone, "--limit", 1, "--json", tmp_path / "result.json")
    assert json.loads((tmp_path / "result.json").read_text())["method"] == "gone.Rehearse"


def test_it_can_be_kept_and_has_its_line_and_command_on_the_page(gone, tmp_path):
    invoke("results", "add", gone, "--folder", tmp_path / "kept")
    assert [each.name for each in (tmp_path / "kept").glob("*/*")] == [
        "demo-tsp-drift-1-gone.Rehearse-kept-16-T50-seed0-batches=None-solver.width=16-solver.heads=2-solver.layers=1-"
        "solver.feed_forward=32-fp32"
    ]
    invoke("results", "write", "--folder", gone.parents[1], "--out", tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| gone.Rehearse, kept 16 | 0 | 2.00 |" in text
    assert "| gone.Rehearse, kept 16 | 4.00 | – |" in text  # replays; how many batches the method takes is not known
    assert "--method gone.Rehearse" in text
    assert "--set options.kept=16" in text


def test_its_pages_can_be_written(gone, tmp_path):
    assert "gone.Rehearse" in write_run_page(gone).read_text(encoding="utf-8")
    again = shutil.copytree(gone, tmp_path / "again")
    page = write_comparison_page([gone, again], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "run unknown, again unknown" in page  # batches an epoch


def test_only_going_on_needs_its_class(gone):
    with pytest.raises(DreeError, match=r"Method 'gone\.Rehearse' cannot be imported"):
        Run.resume(gone)


def test_options_that_its_class_has_no_more_are_as_recorded_and_only_going_on_refuses_them(tmp_path):
    path = with_settings(tmp_path / "run", method="dree.lifelong.FineTuning", options={"kept": 16})
    assert RunFolder(path).settings().options == {"kept": 16}
    with pytest.raises(DreeError, match=r"Unknown setting 'options\.kept'"):
        Run.resume(path)


def test_runs_of_a_solver_that_is_not_here_can_be_measured_drawn_and_kept(tmp_path):
    path = with_settings(tmp_path / "group/run", base="gone.Near", solver={"eagerness": 4.0})
    write_all_gaps(RunFolder(path), [[9.0] * 6, [2.0] * 6], [0, 50], LAWS)
    assert "2.00" in invoke("metrics", path)
    invoke("plot", "curves", path, "--out", tmp_path / "curves.svg")
    invoke("results", "add", path, "--folder", tmp_path / "kept")
    invoke("results", "write", "--folder", tmp_path / "kept", "--out", tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| fine-tuning (gone.Near) | 0 | 2.00 |" in text
    assert "--solver gone.Near" in text
    assert "--set solver.eagerness=4.0" in text
    for needing in (load_solver, Run.resume):
        with pytest.raises(DreeError, match=r"[Ss]olver 'gone\.Near' cannot be imported"):
            needing(path)


@pytest.mark.parametrize("changes", [{"method": "gone.Rehearse"}, {"base": "gone.Near"}])
def test_what_is_wrong_with_other_settings_is_said(tmp_path, changes):
    with pytest.raises(DreeError, match="'batch_size' must be at least 1"):
        RunFolder(with_settings(tmp_path / "run", batch_size=0, **changes)).settings()
    group = "solver" if "method" in changes else "options"
    other = with_settings(tmp_path / "other", **{group: {"nonsense": 1}}, **changes)
    with pytest.raises(DreeError, match=rf"Unknown setting '{group}\.nonsense'"):
        RunFolder(other).settings()


def test_a_fault_in_a_hook_ends_in_the_traceback_of_the_users_code_and_what_finds_such_faults(tmp_path):
    (tmp_path / "mine.py").write_text(FAULTY)
    failed = dree("run", "--preset", "demo", "--method", "mine.Faulty", *as_options(SMALL), cwd=tmp_path)
    assert failed.returncode == 1
    assert 'mine.py", line 6, in remember\n    self.nothing_like_that' in failed.stderr
    fault, note = failed.stderr.splitlines()[-2:]
    assert fault == "AttributeError: 'Faulty' object has no attribute 'nothing_like_that'"
    assert note.startswith("This was in the hook 'remember' of your method mine.Faulty. dree.testing.check_method")
    (run,) = (tmp_path / "runs").iterdir()
    again = warm_dree("run", "--resume", str(run), cwd=tmp_path)
    assert "is at epoch 0 of 50: it begins from the start." in again.stdout.replace("\n", " ")
