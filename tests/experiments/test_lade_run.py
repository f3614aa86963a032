"""Runs on real days: their settings, what their manifests record, Gen, and reports about them without their data."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from command_line import invoke
from dree.errors import DreeError
from dree.evaluation.evaluate import average_gap
from dree.experiments import Run, RunFolder, RunSettings, load_solver
from dree.experiments.configuration import changed_preset
from dree.experiments.naming import run_command, run_name
from dree.experiments.summary import departures, means, run_metrics
from dree.lifelong import METHODS, make_method
from dree.tasks.lade import LadeStream
from lade_tables import days, write
from run_folders import run_with_gaps
from small_runs import SMALL, as_options, finish_in_pieces

pytest.importorskip("pyarrow")
pytest.importorskip("hygese")
DAYS = dict.fromkeys((*range(601, 631), *range(701, 705)), 30) | {620: 5}  # 33 are valid: 31 to learn, 2 held out
FILES = ("metrics.jsonl", "gaps.csv", "checkpoint/000000031.safetensors")


def table(path, counts=DAYS):
    return write(path / "sh.csv", days(counts, first=0))


def settings_for(file, **changes) -> RunSettings:
    return changed_preset("demo", {"scenario": "lade", "data": str(file), "region": "sh-1", **SMALL, **changes})


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """What one test has solved, the others need not."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_cache(cache, monkeypatch):
    monkeypatch.setenv("DREE_CACHE", str(cache))


@pytest.fixture
def finished(tmp_path):
    run = Run.start(tmp_path / "run", settings_for(table(tmp_path), ratio=0.4))
    run.finish()
    return run


def test_a_run_learns_a_day_an_epoch_and_ends_with_gen(finished):
    log = finished.folder.log("metrics.jsonl")
    assert [row["epoch"] for row in log] == list(range(1, 32))
    assert (log[0]["task"], log[18]["task"], log[19]["task"]) == ("sh-1-06-01-n12", "sh-1-06-19-n12", "sh-1-06-21-n12")
    epochs, matrix, tasks = finished.folder.gaps()
    assert epochs == [0, 10, 20, 30, 31]
    assert tasks == ["06-01", "07-02"]
    solver = load_solver(finished.folder.path)
    for gap, test in zip(matrix[-1], finished.tests.values(), strict=True):
        assert average_gap(solver, test) == pytest.approx(gap, abs=1e-9)
    assert [row["epoch"] for row in log if "Gen" in row] == [31]
    held_out = {day: average_gap(solver, test) for day, test in finished.held_out.items()}
    assert log[-1]["held_out"] == pytest.approx(held_out, abs=1e-9)
    assert {day: len(test.instances) for day, test in finished.held_out.items()} == {"07-03": 1, "07-04": 2}
    assert log[-1]["Gen"] == pytest.approx((held_out["07-03"] + 2 * held_out["07-04"]) / 3, abs=1e-9)


def test_the_manifest_has_the_deliveries_without_where_they_were(finished, tmp_path):
    manifest = finished.folder.manifest()
    recorded = manifest["deliveries"]
    assert (recorded["files"], recorded["region"], recorded["ratio"]) == (["sh.csv"], "sh-1", 0.4)
    assert len(recorded["key"]) == 64
    assert len(recorded["days"]) == 33
    assert recorded["days"]["2022-06-01"] == 30
    assert str(tmp_path) not in json.dumps(recorded)
    assert len(manifest["data"]) == 4
    assert all(len(digest) == 64 for digest in manifest["data"].values())
    real, known = finished.stream, finished.folder.stream()
    assert isinstance(real, LadeStream)
    assert [known.task(t).name for t in range(32)] == [real.task(t).name for t in range(32)]
    assert known.active("07-02") == real.active("07-02") == [(31, 31)]
    assert known == LadeStream.recorded(real.record())
    with pytest.raises(DreeError, match="only the number of packages is recorded"):
        known.task(1).sample(1, torch.Generator())


def test_all_methods_are_tested_on_the_same_instances(tmp_path, finished):
    data = finished.folder.manifest()["data"]
    for method in METHODS:
        run = Run.start(tmp_path / method, replace(finished.settings, method=method, seed=3))
        assert run.folder.manifest()["data"] == data
        run.test()
        run.learn_epoch()
        assert np.isfinite(run.folder.log("metrics.jsonl")[0]["loss"])


def test_the_reference_counts_every_day_once(finished):
    generator = torch.Generator().manual_seed(0)
    method = make_method("mt-ref")
    labels = [method.choose(finished.stream, 1, generator).day.label for _ in range(3100)]
    assert len(set(labels)) == 31
    assert labels.count("06-01") == pytest.approx(100, abs=30)
    assert not set(labels) & set(finished.held_out)


def test_stopped_at_every_epoch_it_ends_bit_identical(tmp_path):
    settings = settings_for(table(tmp_path), method="li")
    whole = Run.start(tmp_path / "whole", settings)
    whole.finish()
    finish_in_pieces(tmp_path / "parts", settings, 31)
    for name in FILES:
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_other_deliveries_are_refused_when_it_goes_on(finished, tmp_path):
    table(tmp_path, DAYS | {704: 31})
    with pytest.raises(DreeError, match="are not those with which the run was started"):
        Run.resume(finished.folder.path)
    table(tmp_path)
    Run.resume(finished.folder.path)
    manifest = finished.folder.manifest()
    manifest["data"] |= dict.fromkeys(manifest["data"], "0")
    (finished.folder.path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DreeError, match="The test sets have changed"):
        Run.resume(finished.folder.path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": None, "region": None}, "needs --data, a CSV file of LaDe-D or a folder of them, and --region"),
        ({"data": None}, r"needs --data, a CSV file of LaDe-D or a folder of them\."),
        ({"region": None}, r"needs --region, one of those in .*sh\.csv: jl-31, sh-1\."),
        ({"ratio": 1.5}, "must be above 0 and at most 1"),
        ({"epochs": 5}, "'epochs' cannot be 5"),
        ({"problem": "cvrp"}, "'problem' cannot be cvrp"),
        ({"order": 2}, "'order' cannot be 2"),
        ({"tests": "finer"}, "'tests' cannot be finer"),
        ({"sizes": {"U": 10}}, "'sizes' cannot be"),
    ],
)
def test_what_is_missing_or_does_not_belong_is_said(tmp_path, changes, message):
    data = write(tmp_path / "sh.csv", [*days({601: 12}), *days({601: 12}, "31", "Jilin", first=100)])
    with pytest.raises(DreeError, match=message):
        settings_for(data, **changes)


def test_other_scenarios_have_no_data():
    with pytest.raises(DreeError, match=r"Only real days have a setting 'region'\. Add --scenario lade"):
        RunSettings(region="sh-1")
    with pytest.raises(DreeError, match=r"Unknown scenario 'lad'.*lade"):
        RunSettings(scenario="lad")


def test_nothing_is_written_where_the_region_is_unknown(tmp_path):
    data = table(tmp_path)
    with pytest.raises(DreeError, match="Unknown region 'sh-7'"):
        Run.start(tmp_path / "run", settings_for(data, region="sh-7"))
    assert not (tmp_path / "run").exists()


def test_names_and_commands_have_the_region(tmp_path):
    settings = changed_preset("paper", {"scenario": "lade", "data": "somewhere/all.csv", "region": "sh-2"})
    assert (settings.problem, settings.test_every, settings.epochs) == ("tsp", 10, None)
    assert (settings.batches_per_epoch, replace(settings, method="dree").batches_per_epoch) == (164, 128)
    assert run_name(settings) == "tsp-lade-sh-2-fine-tuning-seed0"
    words = "dree run --scenario lade --data all.csv --region sh-2 --method fine-tuning --seed 0"
    assert " ".join(run_command(settings)) == words
    half = replace(settings, ratio=0.5)
    assert run_name(half) == "tsp-lade-sh-2-fine-tuning-seed0-ratio=0.5"
    assert " ".join(run_command(half)) == words.replace("sh-2 ", "sh-2 --ratio 0.5 ")
    assert departures(settings) == {}
    assert departures(half) == {"ratio": 0.5}


def paper_run(path, region, gen, **settings):
    """A run of the paper's setting that was never run: 31 days, two process tests."""
    chosen = {"scenario": "lade", "problem": "tsp", "test_every": 10, "data": "all.csv", "region": region, **settings}
    run_with_gaps(path, [[9.0, 8.0], [1.0, 3.0]], [0, 31], ["06-01", "07-01"], **chosen)
    record = {"files": ["all.csv"], "key": "x", "region": region, "ratio": 0.3}
    record["days"] = {f"2022-06-{day:02d}": 40 for day in range(1, 31)} | {f"2022-07-{d:02d}": 40 for d in (1, 2, 3)}
    manifest = json.loads((path / "manifest.json").read_text()) | {"deliveries": record}
    (path / "manifest.json").write_text(json.dumps(manifest))
    RunFolder(path).append("metrics.jsonl", {"epoch": 31, "Gen": gen})
    return path


def test_the_papers_numbers_stand_beside_those_of_its_regions_and_their_mean(tmp_path):
    regions = ("sh-2", "hz-120", "jl-31", "yt-167", "cq-144")
    runs = [
        each
        for number, region in enumerate(regions)
        for each in run_metrics(paper_run(tmp_path / region, region, float(number), method="dree"))
    ]
    assert runs[0].values.as_dict() == {"AP": 2.0, "AFB": 0.0, "AMFB": 0.0, "ABPl": 2.0, "Gen": 0.0}
    assert runs[0].finished
    assert [run.published["Gen"] for run in runs] == [0.79, 0.4, 1.7, 1.58, 2.15]
    (mean,) = means(runs)
    assert mean.values["Gen"] == pytest.approx((2.0, 2**0.5))
    assert mean.published["AP"] == (1.03, 0.8)
    (fewer,) = means(runs[:4])
    assert fewer.published is None
    (other,) = run_metrics(paper_run(tmp_path / "other", "sh-2", 1.0, ratio=0.5))
    assert other.published is None
    (unknown,) = run_metrics(paper_run(tmp_path / "unknown", "sh-1", 1.0))
    assert unknown.published is None


def test_reports_about_kept_runs_need_no_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = paper_run(tmp_path / "a", "sh-2", 0.5, method="dree")
    two = paper_run(tmp_path / "b", "sh-2", 0.7, method="mt-ref")
    shown = invoke("metrics", one, two, "--json", "metrics.json")
    assert "process tests" in shown
    rows = json.loads((tmp_path / "metrics.json").read_text())
    assert [(row["region"], row["epochs"], row["Gen"], row["published_Gen"]) for row in rows] == [
        ("sh-2", 31, 0.5, 0.79),
        ("sh-2", 31, 0.7, 0.85),
    ]
    invoke("plot", "curves", one, two, "--out", "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000
    invoke("report", one)
    page = (one / "report.html").read_text()
    assert "Not shown: There is no file or folder " in page  # of examples of the tasks
    assert "Not shown: its weights are not kept." in page
    invoke("report", one, two, "--out", "both.html")
    assert "Not shown: dree: its weights are not kept. mt-ref: its weights" in (tmp_path / "both.html").read_text()
    invoke("results", "add", one, two, "--folder", "kept")
    assert (tmp_path / "kept/tsp-lade-sh-2/tsp-lade-sh-2-dree-seed0-fp32/manifest.json").is_file()
    invoke("results", "write", "--folder", "kept", "--out", "page.md")
    page = (tmp_path / "page.md").read_text()
    assert "TSP, lade, region sh-2, 31 days." in page
    assert "| method | seeds | AP | AFB | AMFB | ABPl | Gen |" in page
    assert "| published |  | 0.64 | 0.41 | 0.68 | 0.23 | 0.79 |" in page
    assert "| published |  | 0.59 | – | – | – | 0.85 |" in page
    assert "- Gen: Generalisation" in page
    assert "`dree run --scenario lade --data all.csv --region sh-2 --method dree --seed 0 --device cpu`" in page


def test_curves_of_other_days_are_not_drawn_together(tmp_path):
    one = paper_run(tmp_path / "a", "sh-2", 0.5)
    other = paper_run(tmp_path / "b", "sh-1", 0.7, method="dree")
    with pytest.raises(DreeError, match="have learned from different streams"):
        invoke("plot", "curves", one, other, "--out", tmp_path / "curves.png")


def test_the_command_runs_reports_and_evaluates(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table(tmp_path)
    small = as_options(SMALL)
    output = invoke("run", "--scenario", "lade", "--data", "sh.csv", "--region", "sh-1", "--preset", "demo", *small)
    path = tmp_path / "runs"
    (path,) = path.iterdir()
    assert "Gen" in output
    page = (path / "report.html").read_text()
    assert "lade, region sh-1, 31 days" in page
    assert "Generalisation" in page
    invoke("evaluate", path, "--json", "evaluation.json")
    rows = json.loads((tmp_path / "evaluation.json").read_text())["rows"]
    _, matrix, _ = RunFolder(path).gaps()
    assert [row["task"] for row in rows] == [f"sh-1-{day}-n10" for day in ("06-01", "07-02", "07-03", "07-04")]
    assert [row["mean_gap"] for row in rows[:2]] == pytest.approx(matrix[-1].tolist(), abs=1e-9)
    shutil.copytree(path, tmp_path / "copy")
    invoke("report", path, tmp_path / "copy", "--out", "comparison.html")
    (tmp_path / "sh.csv").unlink()
    with pytest.raises(DreeError, match=r"There is no file or folder sh\.csv"):
        invoke("evaluate", path)
