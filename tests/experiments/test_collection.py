"""Runs that are kept: what is copied and under which name, and that nothing is lost by copying."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dree.errors import DreeError
from dree.experiments import DEMO, RunFolder, collection
from dree.experiments.collection import OF_A_RUN, collect, collected, kept_name
from dree.files import write_bytes
from dree.settings import override
from run_folders import run_with_gaps, write_evaluation

LAWS = ["E", "C", "G", "U", "R", "GM"]


def kept_run(path: Path, last: float = 2.0, precision: str = "bf16", **settings: object) -> Path:
    """A run of 100 epochs with all its files, and some that are not kept."""
    run_with_gaps(path, [[9.0] * 6, [last] * 6], [0, 100], LAWS, **{"epochs": 100, **settings})
    folder = RunFolder(path)
    manifest = folder.manifest()
    manifest["hardware"]["precision"] = precision
    (path / "manifest.json").write_text(json.dumps(manifest))
    folder.append("metrics.jsonl", {"epoch": 1, "task": "E50", "loss": 0.5, "cost": 7.0})
    folder.append("timings.jsonl", {"epoch": 1, "seconds": 3.0, "peak_bytes": None})
    (path / "checkpoint").mkdir()
    (path / "checkpoint/000000100.safetensors").write_bytes(b"weights")
    (path / "report.html").write_text("page")
    return path


def everything(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_manifest_gaps_and_logs_are_copied_and_nothing_else(tmp_path):
    run = kept_run(tmp_path / "run", method="dree", **{"options.without": "pir"})
    (found,) = collect([run], tmp_path / "results")
    assert found.new
    assert found.path == tmp_path / "results/cvrp-drift-1-T100/cvrp-drift-1-dree-without-pir-T100-seed0-bf16"
    assert everything(found.path) == {name: (run / name).read_bytes() for name in OF_A_RUN}
    assert RunFolder.open(found.path).settings() == RunFolder.open(run).settings()


@pytest.mark.parametrize(
    ("settings", "precision", "name"),
    [
        ({}, "fp32", "cvrp-drift-1-fine-tuning-T100-seed0-fp32"),
        ({"learner.precision": "bf16"}, "bf16", "cvrp-drift-1-fine-tuning-T100-seed0-bf16"),
        (
            {"method": "dree", "options": {"divergence": "literal", "alpha": 1}, "problem": "tsp", "seed": 2},
            "bf16",
            "tsp-drift-1-dree-alpha-1.0-divergence-literal-T100-seed2-bf16",
        ),
        ({"order": 3, "batches": 7}, "bf16", "cvrp-drift-3-fine-tuning-T100-seed0-batches=7-bf16"),
    ],
)
def test_a_name_says_what_was_run(tmp_path, settings, precision, name):
    assert kept_name(RunFolder(kept_run(tmp_path / "run", precision=precision, **settings))) == name


def test_a_run_of_the_demo_is_called_so_and_an_older_one_by_the_precision_that_was_set(tmp_path):
    folder = RunFolder.create(tmp_path / "run", override(DEMO, {"seed": 3}), {})
    manifest = folder.manifest()
    del manifest["hardware"]["precision"]
    (folder.path / "manifest.json").write_text(json.dumps(manifest))
    assert kept_name(folder) == "demo-cvrp-drift-1-fine-tuning-T50-seed3-auto"


def test_the_same_run_again_changes_nothing(tmp_path):
    run = kept_run(tmp_path / "run")
    (first,) = collect([run], tmp_path / "results", "mine")
    before = everything(tmp_path / "results")
    (again,) = collect([run, run], tmp_path / "results", "mine")
    assert (first.new, again.new, again.path) == (True, False, first.path)
    assert everything(tmp_path / "results") == before


def test_other_data_are_not_overwritten_unless_told_and_then_nothing_old_is_left(tmp_path):
    root = tmp_path / "results"
    (kept,) = collect([kept_run(tmp_path / "first")], root)
    (kept.path / "notes.txt").write_text("mine")
    other, more = kept_run(tmp_path / "other", last=3.0), kept_run(tmp_path / "more", seed=1)
    (other / "timings.jsonl").unlink()
    before = everything(root)
    with pytest.raises(DreeError, match=r"holds other data \(gaps.csv, .*timings.jsonl\)\. Nothing .*--force.*--group"):
        collect([more, other], root)
    assert everything(root) == before
    assert [each.new for each in collect([more, other], root, force=True)] == [True, True]
    assert sorted(path.name for path in kept.path.iterdir()) == [
        "gaps.csv", "manifest.json", "metrics.jsonl", "notes.txt",
    ]  # fmt: skip
    assert (kept.path / "gaps.csv").read_bytes() == (other / "gaps.csv").read_bytes()


def test_what_is_kept_is_not_kept_a_second_time_by_mistake(tmp_path):
    root = tmp_path / "results"
    (kept,) = collect([kept_run(tmp_path / "run")], root, "mine")
    before = everything(root)
    with pytest.raises(DreeError, match=r"is kept already.*--group"):
        collect([kept.path], root)
    assert everything(root) == before
    (again,) = collect([kept.path], root, "another")
    assert again.new


def test_two_different_runs_do_not_take_one_place(tmp_path):
    runs = [kept_run(tmp_path / "one", last=1.0), kept_run(tmp_path / "two", last=2.0)]
    with pytest.raises(DreeError, match="Two of these runs would both be"):
        collect(runs, tmp_path / "results", force=True)
    assert not (tmp_path / "results").exists()


def test_a_run_under_way_is_kept_without_the_line_that_is_being_written(tmp_path):
    run = kept_run(tmp_path / "run")
    whole = (run / "metrics.jsonl").read_bytes()
    (run / "metrics.jsonl").write_bytes(whole + b'{"epoch": 2, "lo')
    (found,) = collect([run], tmp_path / "results")
    assert (found.path / "metrics.jsonl").read_bytes() == whole


def test_what_is_no_run_is_refused_and_nothing_is_copied(tmp_path):
    good, untested = kept_run(tmp_path / "good"), kept_run(tmp_path / "untested", seed=1)
    (untested / "gaps.csv").unlink()
    damaged = kept_run(tmp_path / "damaged", seed=2)
    (damaged / "metrics.jsonl").write_text("no JSON\n")
    for bad, words in {
        tmp_path: "is not a run: it has no manifest.json. But it holds runs",
        untested: "has not been tested yet",
        damaged: "is damaged",
    }.items():
        with pytest.raises(DreeError, match=words):
            collect([good, bad], tmp_path / "results")
    for group in ("a/b", "..", ""):
        with pytest.raises(DreeError, match="cannot be the name of a group"):
            collect([good], tmp_path / "results", group)
    assert not (tmp_path / "results").exists()


def test_kept_runs_are_found_in_their_groups_and_other_folders_passed_over(tmp_path):
    root = tmp_path / "results"
    runs = [kept_run(tmp_path / str(seed), seed=seed) for seed in (1, 0)]
    places = [each.path for each in collect(runs, root, "b")]
    (alone,) = collect(runs[:1], root, "a")
    (root / "speed").mkdir()
    (root / "speed/README.md").write_text("no run")
    assert collected(root) == {"a": [alone.path], "b": sorted(places)}
    assert collected(tmp_path / "nowhere") == {}


def test_what_its_solver_does_on_library_instances_is_kept_with_a_run_until_there_is_something_newer(
    tmp_path,
):
    root, run = tmp_path / "results", kept_run(tmp_path / "run")
    collect([run], root)
    for gap in (5.0, 6.0):
        file = write_evaluation(RunFolder(run), {"X-n101-k25": gap})
        (kept,) = collect([run], root)
        assert kept.new
        assert (kept.path / "cvrplib.json").read_bytes() == file.read_bytes()
    file.unlink()
    (again,) = collect([run], root)
    assert not again.new
    assert (kept.path / "cvrplib.json").is_file()


def test_where_the_new_files_cannot_be_written_the_old_ones_stay(tmp_path, monkeypatch):
    root = tmp_path / "results"
    (kept,) = collect([kept_run(tmp_path / "first")], root)
    before = everything(root)

    def full(path, data):
        if path.name == "timings.jsonl":
            raise DreeError("No space left on device")
        write_bytes(path, data)

    monkeypatch.setattr(collection, "write_bytes", full)
    with pytest.raises(DreeError, match="No space"):
        collect([kept_run(tmp_path / "other", last=3.0)], root, force=True)
    assert everything(root) == before
    assert kept.path.is_dir()


def test_a_run_that_is_replaced_takes_what_was_known_of_its_solver_with_it(tmp_path):
    root, run = tmp_path / "results", kept_run(tmp_path / "run")
    write_evaluation(RunFolder(run), {"X-n101-k25": 5.0})
    (kept,) = collect([run], root)
    collect([kept_run(tmp_path / "other", last=3.0)], root, force=True)
    assert not (kept.path / "cvrplib.json").exists()


def test_an_evaluation_of_another_solver_is_not_kept(tmp_path):
    run = kept_run(tmp_path / "run")
    write_evaluation(RunFolder(run), {"X-n101-k25": 5.0}, epoch=80)
    with pytest.raises(DreeError, match=r"cvrplib.json is about .* of epoch 80, and .* last tested after epoch 100"):
        collect([run], tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_what_a_killed_process_was_writing_is_no_kept_run(tmp_path):
    (kept,) = collect([kept_run(tmp_path / "run")], tmp_path / "results", "mine")
    (kept.path.with_name(".half")).mkdir()
    (kept.path.with_name(".half") / "manifest.json").write_text("{}")
    assert collected(tmp_path / "results") == {"mine": [kept.path]}
