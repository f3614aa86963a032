"""`dree reproduce`: from nothing to tables, figures and a page, by real processes; then again, with nothing to do."""

from __future__ import annotations

import csv
import re
import shutil

import pytest

from command_line import dree, invoke, warm_dree
from dree.errors import DreeError
from dree.experiments import RunFolder

SMOKE = ("--scale", "smoke", "--problems", "tsp", "--device", "cpu", "--out", "out")


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """Two tables and a figure that share runs, reproduced once."""
    place = tmp_path_factory.mktemp("reproduced")
    made = dree("reproduce", "mt-cumulative", "llrbc-frequency", "tasks", *SMOKE, cwd=place)
    assert made.returncode == 0, made.stderr + made.stdout
    return place, made.stdout


def test_tables_figures_and_page_are_written_and_named(reproduced):
    place, said = reproduced
    names = {file.relative_to(place / "out").as_posix() for file in (place / "out").glob("[tf]*/*")}
    assert names == {
        *(f"tables/{name}.{kind}" for name in ("mt-cumulative", "llrbc-frequency") for kind in ("md", "tex", "csv")),
        "figures/tasks-tsp.png",
        "figures/tasks-tsp.pdf",
    }
    assert "3 tables and figures need 5 trainings" in said
    assert "report.html" in said
    assert "MT-cu" in said
    page = (place / "out/report.html").read_text()
    assert "Multi-task training from scratch" in page
    assert "MT-cu" in page


def test_a_table_has_what_its_runs_have_shown_beside_the_paper(reproduced):
    place, _ = reproduced
    with (place / "out/tables/mt-cumulative.csv").open() as file:
        rows = list(csv.DictReader(file))
    (found,) = [row for row in rows if row["method"] == "DREE" and row["column"] == "AP"]
    (path,) = [path for path in (place / "out/runs").iterdir() if path.name.startswith("tsp-drift-1-dree-T10")]
    _, matrix, _ = RunFolder(path).gaps()
    assert float(found["ours"]) == pytest.approx(matrix[-1].mean(), abs=1e-6)
    assert float(found["published"]) == 1.12


def test_what_was_run_is_not_run_again(reproduced):
    place, _ = reproduced
    before = {file: file.stat().st_mtime_ns for file in (place / "out/runs").rglob("*") if file.is_file()}
    again = warm_dree("reproduce", "mt-cumulative", *SMOKE, cwd=place)
    assert again.returncode == 0, again.stderr
    assert "2 of them done" in again.stdout
    assert {file: file.stat().st_mtime_ns for file in (place / "out/runs").rglob("*") if file.is_file()} == before


def test_finished_runs_are_shown_where_their_test_sets_are_not(reproduced, tmp_path, monkeypatch):
    place, _ = reproduced
    shutil.copytree(place / "out", tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dree.data.testsets.FILES", tmp_path / "nowhere")
    shown = invoke("reproduce", "mt-cumulative", "tasks", *SMOKE)
    assert "need 2 trainings, 2 of them done" in shown
    listed = invoke("reproduce", "list", *SMOKE)
    (lacking,) = re.findall(r"^(.*): needs 6 test sets", listed, re.MULTILINE)
    assert "table4" in lacking
    assert "mt-cumulative" not in lacking
    shutil.rmtree(next((tmp_path / "out/runs").glob("tsp-drift-1-mt-cumulative*")))
    with pytest.raises(DreeError, match=r"Nothing can be made.* mt-cumulative: needs 6 test sets\. Build them with"):
        invoke("reproduce", "mt-cumulative", *SMOKE)


def test_a_folder_that_is_no_run_keeps_only_its_own_row(reproduced, tmp_path):
    place, _ = reproduced
    shutil.copytree(place / "out", tmp_path / "out")
    (broken,) = (tmp_path / "out/runs").glob("tsp-drift-1-mt-cumulative*")
    (broken / "manifest.json").write_text("{")
    again = warm_dree("reproduce", "mt-cumulative", *SMOKE, cwd=tmp_path)
    assert again.returncode == 1
    assert broken.name in again.stdout + again.stderr
    assert "Traceback" not in again.stdout + again.stderr
    with (tmp_path / "out/tables/mt-cumulative.csv").open() as file:
        rows = {(row["method"], row["column"]): row for row in csv.DictReader(file)}
    assert rows["MT-cu", "AP"]["ours"] == ""
    assert rows["DREE", "AP"]["ours"] != ""
    assert (broken / "manifest.json").read_text() == "{"


@pytest.mark.parametrize(
    ("options", "folder"),
    [
        ((), "smoke"),
        (("--spec", "official"), "smoke-official"),
        (("--frame", "official"), "smoke"),
    ],
)
def test_other_laws_have_a_folder_of_their_own(options, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    invoke("reproduce", "tasks", "--scale", "smoke", "--problems", "tsp", *options)
    assert [path.name for path in (tmp_path / "runs/reproduction").iterdir()] == [folder]


def test_the_list_has_everything_and_what_it_needs():
    said = " ".join(invoke("reproduce", "list", "--scale", "smoke").split())
    for words in ("table1", "llrbc-frequency", "Together 119 trainings", "--lade", "--libraries"):
        assert words in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tabel1"], "Did you mean 'table1'"),
        (["table1", "--scale", "papper"], "Did you mean 'paper'"),
        (["table1", "--problems", "tsp,vrp"], "Unknown problem 'vrp'"),
        (["table1", "--problems", ","], "at least one problem"),
        (["table1", "--spec", "texts"], "Did you mean 'text'"),
        (["table2", "--frame", "fitt"], "Did you mean 'fit'"),
        (["table1", "--orders", "6"], "Unknown order '6'"),
        (["table1", "--seeds", "a"], "--seeds must be numbers"),
        (["table1", "--engine", "slurm"], "Choose from: local, ray"),
        (["table1", "--address", "auto"], "belong to --engine ray"),
        (["lade", "--lade", "nowhere"], "There is no nowhere"),
        (["lade", "--scale", "smoke"], "Nothing can be made, and nothing was written. lade: needs LaDe-D's files"),
        (["table1", "--engine", "ray", "--share", "0"], "--share must be at least 1"),
    ],
)
def test_bad_input_is_refused_in_words(arguments, message, tmp_path):
    refused = warm_dree("reproduce", *arguments, cwd=tmp_path)
    assert refused.returncode == 2
    assert message in " ".join(refused.stderr.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.jsonl", b"{}\n"),
        ("metrics.jsonl", b"[]\n"),
        ("metrics.jsonl", b"\xff\n"),
        ("timings.jsonl", b'{"epoch": 1}\n'),
        ("manifest.json", b'{"settings": null}'),
    ],
)
def test_a_damaged_folder_is_a_sentence_and_others_are_shown(reproduced, tmp_path, name, content):
    from dree.experiments.engines.work import found
    from dree.report.suite_page import Suite
    from dree.reproduce import Choice, experiment
    from dree.reproduce.plan import make_plan
    from dree.reproduce.report import run_groups, write_suite_page
    from dree.reproduce.scales import scale

    place, _ = reproduced
    shutil.copytree(place / "out", tmp_path / "out")
    plan = make_plan([experiment("mt-cumulative")], Choice(scale("smoke"), ("tsp",), everywhere={"device": "cpu"}))
    broken, sound = plan.jobs
    (tmp_path / "out/runs" / broken.name / name).write_bytes(content)
    outcomes = [found(job, tmp_path / "out", lambda _: None) for job in (broken, sound)]
    assert outcomes[1].run is not None
    if name != "timings.jsonl":
        assert outcomes[0].error
    page = write_suite_page(tmp_path / "page.html", Suite("x", groups=run_groups(outcomes, 0)))
    assert page.is_file()


def test_a_run_with_finer_tests_is_taken_for_one_without(reproduced, tmp_path):
    from dataclasses import replace

    from dree.experiments.naming import keyed_name
    from dree.reproduce import Choice, experiment
    from dree.reproduce.base import finer
    from dree.reproduce.plan import make_plan
    from dree.reproduce.scales import scale

    place, _ = reproduced
    choice = Choice(scale("smoke"), ("tsp",), everywhere={"device": "cpu"})
    (job,) = [job for job in make_plan([experiment("mt-cumulative")], choice).jobs if job.settings.method == "dree"]
    shutil.copytree(place / "out/runs" / job.name, tmp_path / "runs" / (name := keyed_name(finer(job.settings))))
    manifest = tmp_path / "runs" / name / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"tests": "principal"', '"tests": "finer"'))
    planned = {job.name for job in make_plan([experiment("mt-cumulative")], choice, tmp_path).jobs}
    assert name in planned
    assert job.name not in planned
    assert replace(job.settings, tests="finer") == finer(job.settings)


def test_without_plotly_there_are_tables_and_figures_but_no_page(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    said = invoke("reproduce", "tasks", "--scale", "smoke", "--problems", "tsp", "--out", tmp_path / "out")
    assert "No page" in said
    assert "dree[report]" in said
    assert (tmp_path / "out/figures/tasks-tsp.png").is_file()
    assert not (tmp_path / "out/report.html").exists()
