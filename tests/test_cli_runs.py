"""`dree metrics` and `dree plot curves`: what runs are called, and runs of which there is nothing to show."""

from __future__ import annotations

import pytest

from command_line import invoke
from dree.errors import DreeError
from dree.experiments import DEMO, RunFolder
from dree.report.run_page import metrics_summary, write_run_page
from run_folders import run_with_gaps

LAWS = ["E", "C", "G", "U", "R", "GM"]


def run(path, **settings):
    return run_with_gaps(path, [[9.0] * 6, [2.0] * 6], [0, 1000], LAWS, **settings)


def test_a_table_of_metrics_names_the_base_solver_where_it_is_not_pomo(tmp_path):
    shown = invoke("metrics", *(run(tmp_path / base, base=base) for base in ("pomo", "omni")))
    assert "fine-tuning, CVRP, drift, 1000 epochs" in shown
    assert "fine-tuning (omni), CVRP, drift, 1000 epochs" in shown


def test_the_final_table_and_the_page_of_a_run_name_the_base_solver_where_it_is_not_pomo(tmp_path):
    for base, name in (("pomo", "fine-tuning"), ("omni", "fine-tuning (omni)")):
        path = run(tmp_path / base, base=base)
        (method,) = metrics_summary(path).columns[0].cells
        assert method == name
        page = write_run_page(path).read_text(encoding="utf-8")
        assert f"<dd>{name}</dd>" in page
        assert f'<th scope="col">{name}</th>' in page


def test_a_run_that_was_never_tested_is_named_and_left_out_of_the_metrics(tmp_path):
    killed = RunFolder.create(tmp_path / "killed", DEMO, {}).path
    shown = invoke("metrics", run(tmp_path / "one"), killed, run(tmp_path / "two", seed=1), "--csv", tmp_path / "x.csv")
    assert f"Left out: {killed} has not been tested yet. Continue it with: dree run --resume {killed}" in shown
    assert "mean of 2 runs" in shown
    assert "killed" not in (tmp_path / "x.csv").read_text()
    with pytest.raises(DreeError, match="killed has not been tested yet"):
        invoke("metrics", killed, killed)


def test_a_run_that_is_given_twice_counts_once(tmp_path):
    one = run(tmp_path / "one")
    assert "mean of" not in invoke("metrics", one, one.parent / "." / one.name)


def test_a_copy_of_a_run_is_in_no_mean_and_that_is_said(tmp_path):
    one, copy, other = run(tmp_path / "one"), run(tmp_path / "copy"), run(tmp_path / "other", seed=1)
    shown = invoke("metrics", one, copy, other, "--csv", tmp_path / "x.csv")
    assert f"In no mean: {copy}, which has the settings and the seed of {one}." in shown
    assert "mean of 2 runs" in shown
    rows = [line.split(",") for line in (tmp_path / "x.csv").read_text().splitlines()]
    assert [row[rows[0].index("runs")] for row in rows[1:]] == ["1", "1", "1", "2"]
    assert "In no mean" not in invoke("metrics", one, other)


def test_files_beside_runs_are_left_out_aloud(tmp_path):
    """As a shell's star finds them."""
    one, notes = run(tmp_path / "one"), tmp_path / "README.md"
    notes.write_text("Notes.")
    shown = [
        invoke("metrics", one, notes),
        invoke("plot", "curves", one, notes, "--out", tmp_path / "curves.png"),
    ]
    assert all(f"Left out: {notes}, which is a file." in each.replace("\n", " ").replace("  ", " ") for each in shown)
    assert (tmp_path / "curves.png").is_file()
    with pytest.raises(DreeError, match=r"README\.md"):
        invoke("metrics", notes)
