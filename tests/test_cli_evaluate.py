"""`dree evaluate`, `dree metrics` and `dree plot curves` as a user meets them, bad input included."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from command_line import invoke
from dree.data import load_test
from dree.errors import DreeError
from dree.evaluation.evaluate import average_gap
from dree.experiments import RunFolder
from dree.experiments.trained import load_trained
from run_folders import demo_run, run_with_gaps, write_all_gaps

SIZES = {"E": 20, "C": 30, "G": 20, "U": 10, "R": 10, "GM": 30}
TSP = "NAME : {name}\nTYPE : TSP\nDIMENSION : 3\nEDGE_WEIGHT_TYPE : EUC_2D\nNODE_COORD_SECTION\n1 0 0\n2 1.5 0\n3 0 2\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Two runs, `tsp` and `cvrp`, and a folder with three files that are said to be of TSPLIB."""
    folder = tmp_path_factory.mktemp("place")
    for problem in ("tsp", "cvrp"):
        demo_run(folder / problem, problem, (40, 50))
    (folder / "files").mkdir()
    for name in ("kroA100", "a280", "strange"):
        (folder / f"files/{name}.tsp").write_text(TSP.format(name=name))
    return folder


def test_the_six_principal_tasks_are_evaluated_as_table_json_and_csv(place, tmp_path, problem):
    options = ("--limit", 5, "--device", "cpu", "--json", tmp_path / "x.json", "--csv", tmp_path / "x.csv")
    shown = invoke("evaluate", place / problem, *options)
    result = json.loads((tmp_path / "x.json").read_text())
    assert (result["problem"], result["epoch"], result["augment"], result["device"]) == (problem, 50, 1, "cpu")
    solver = load_trained(place / problem).solver
    assert [row["task"] for row in result["rows"]] == [f"{law}{size}" for law, size in SIZES.items()]
    for row, (law, size) in zip(result["rows"], SIZES.items(), strict=True):
        test = load_test(problem, law, size)
        five = type(test)(test.name, test.task, test.instances[:5], test.references[:5])
        assert row["mean_gap"] == pytest.approx(average_gap(solver, five), rel=1e-4)
        assert row["instances"] == 5
        assert f"{row['mean_gap']:.2f}" in shown
    assert result["mean_gap"] == pytest.approx(sum(row["mean_gap"] for row in result["rows"]) / 6)
    rows = list(csv.DictReader((tmp_path / "x.csv").read_text().splitlines()))
    assert [float(row["mean_gap"]) for row in rows] == [row["mean_gap"] for row in result["rows"]]


def test_augmentation_and_an_older_checkpoint_give_other_gaps(place, tmp_path):
    def gap(target, *options):
        invoke("evaluate", target, "--limit", 5, "--device", "cpu", "--json", tmp_path / "x.json", *options)
        return json.loads((tmp_path / "x.json").read_text())["mean_gap"]

    newest = gap(place / "tsp")
    assert gap(place / "tsp", "--augment", 8) < newest
    assert gap(place / "tsp/checkpoint/000000040.safetensors") != newest
    assert gap(place / "tsp/checkpoint/000000050.safetensors") == newest


@pytest.mark.usefixtures("taken_by_name")
def test_a_library_is_evaluated_beside_the_papers_columns(place, tmp_path):
    output = ("--json", tmp_path / "x.json", "--csv", tmp_path / "x.csv")
    shown = invoke(
        "evaluate", place / "tsp", "--library", "tsplib", "--path", place / "files", "--device", "cpu", *output
    )
    result = json.loads((tmp_path / "x.json").read_text())
    by_name = {row["instance"]: row for row in result["rows"]}
    assert set(by_name) == {"kroA100", "a280"}
    row = by_name["a280"]  # the sides of the triangle are 1.5, 2 and 2.5; rounded 2, 2 and 3
    assert (row["distance_unrounded"], row["distance_rounded"], row["best_known"]) == pytest.approx((6.0, 7, 2579))
    assert row["gap_unrounded"] == pytest.approx((6 / 2579 - 1) * 100)
    assert (row["published_DREE_distance"], row["published_Li_gap"]) == (2944.83, 30.31)
    gaps = [each["gap_rounded"] for each in by_name.values()]
    mean, std = result["mean_and_std"]["gap_rounded"]
    assert (mean, std) == pytest.approx((sum(gaps) / 2, abs(gaps[0] - gaps[1]) / 2))
    assert "Not in" in shown
    assert "pr1002" in shown
    assert "a280: 7 is shorter than the best known length, 2579" in shown  # a record is reported, not hidden
    assert {row["instance"] for row in csv.DictReader((tmp_path / "x.csv").read_text().splitlines())} == {
        "kroA100",
        "a280",
    }


def test_test_sets_by_other_laws_than_the_runs_may_be_asked_for(place, tmp_path):
    options = ("--spec", "official", "--device", "cpu", "--json", tmp_path / "x.json")
    missing = (
        r"6 of the 6 test sets needed are missing.*dree data build --problem tsp --spec official --task E20 --task"
    )
    with pytest.raises(DreeError, match=missing):
        invoke("evaluate", place / "tsp", *options)
    tasks = [word for law, size in SIZES.items() for word in ("--task", f"{law}{size}")]
    small = ("--count", 2, "--iterations", 50, "--workers", 1)
    invoke("data", "build", "--problem", "tsp", "--spec", "official", *tasks, *small)
    shown = invoke("evaluate", place / "tsp", *options)
    result = json.loads((tmp_path / "x.json").read_text())
    assert "official laws" in shown
    assert result["spec"] == "official"
    assert [row["test_set"] for row in result["rows"]] == [f"tsp-{law}{size}-official" for law, size in SIZES.items()]


@pytest.mark.usefixtures("taken_by_name")
def test_what_a_runs_solver_does_on_a_library_is_kept_with_the_run(place, tmp_path):
    demo_run(tmp_path / "run", "tsp")
    tasks = [f"{law}{size}" for law, size in SIZES.items()]
    write_all_gaps(RunFolder(tmp_path / "run"), [[9.0] * 6, [5.0] * 6], [0, 50], tasks)
    file = tmp_path / "run/tsplib.json"
    invoke("evaluate", tmp_path / "run", "--library", "tsplib", "--path", place / "files", "--json", file)
    invoke("results", "add", tmp_path / "run", "--folder", tmp_path / "results")
    invoke("results", "write", "--folder", tmp_path / "results", "--out", tmp_path / "results.md")
    mean, std = json.loads(file.read_text())["mean_and_std"]["gap_unrounded"]
    assert f"| TSPLIB | fit | 2 | {mean:.2f} ± {std:.2f} |" in (tmp_path / "results.md").read_text(encoding="utf-8")


def test_a_solver_that_comes_with_dree_is_called_by_its_name(place, tmp_path):
    file = place / "files/strange.tsp"
    invoke("evaluate", "--solver", "tsp-drift", "--path", file, "--device", "cpu", "--json", tmp_path / "x.json")
    result = json.loads((tmp_path / "x.json").read_text())
    assert (result["run"], result["method"], result["epoch"]) == ("tsp-drift", "dree", 1000)


def test_any_other_file_has_no_gap_rather_than_an_invented_one(place, tmp_path):
    shown = invoke("evaluate", place / "tsp", "--path", place / "files/strange.tsp", "--json", tmp_path / "x.json")
    (row,) = json.loads((tmp_path / "x.json").read_text())["rows"]
    assert (row["best_known"], row["gap_unrounded"], row["gap_rounded"]) == (None, None, None)
    assert shown.count("unknown") == 3 + 4  # best known and gaps of the instance, then mean and std of gaps
    shown = invoke("evaluate", place / "tsp", "--path", place / "files/kroA100.tsp")
    assert shown.count("unknown") == 3 + 4
    assert "kroA100: its nodes, demands, capacity or EDGE_WEIGHT_TYPE are not those of the library's" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "is not a run"),
        (["tsp", "--augment", "4"], "--augment must be 1 or 8, not 4"),
        (["tsp", "--solver", "tsp-drift"], "Evaluate either tsp or, with --solver, tsp-drift"),
        ([], "Name what to evaluate"),
        (["tsp", "--limit", "0"], "--limit must be at least 1, not 0"),
        (["tsp", "--limit", "10000000"], "--limit is 10000000, but the test set"),
        (["tsp", "--device", "gpu"], "Unknown device 'gpu'"),
        (["tsp", "--library", "tsplib"], "Say with --path where"),
        (["tsp", "--library", "tsplip"], "Did you mean 'tsplib'"),
        (["tsp", "--library", "tsplip", "--path", "files"], "Did you mean 'tsplib'"),
        (["tsp", "--frame", "fitt", "--path", "files"], "Did you mean 'fit'"),
        (["tsp", "--path", "files", "--limit", "3"], "does not go with --path"),
        (["tsp", "--library", "tsplib", "--path", "files/strange.tsp"], "holds strange, which is none of the 23"),
        (["tsp", "--path", "files", "--spec", "official"], "--spec .* does not go with --path"),
        (["tsp", "--spec", "offical"], "Did you mean 'official'"),
        (["cvrp", "--library", "tsplib", "--path", "files"], "tsplib has TSP instances, this solver is for CVRP"),
        (["cvrp", "--path", "files/strange.tsp"], "strange.tsp is a TSP, this solver is for CVRP"),
        (["cvrp", "--path", "files/none.vrp"], "There is no file"),
    ],
)
def test_bad_input_is_refused_in_words(place, monkeypatch, arguments, message):
    monkeypatch.chdir(place)
    with pytest.raises(DreeError, match=message):
        invoke("evaluate", *arguments)


def test_metrics_and_curves_of_runs_are_shown_and_written(tmp_path):
    laws = ["E", "C", "G", "U", "R", "GM"]
    runs = [
        run_with_gaps(
            tmp_path / f"seed{seed}", [[9.0] * 6, [1.0 + seed] * 6], [0, 1000], laws, problem="tsp", seed=seed
        )
        for seed in (1, 2)
    ]
    shown = invoke("metrics", *runs, "--json", tmp_path / "x.json", "--csv", tmp_path / "x.csv")
    assert "mean of 2 runs" in shown
    assert "2.50 ± 0.50" in shown
    assert shown.count("published") == 3
    assert [row["AP"] for row in json.loads((tmp_path / "x.json").read_text())] == [2.0, 3.0, 2.5]
    assert [row["AP_std"] for row in csv.DictReader((tmp_path / "x.csv").read_text().splitlines())] == ["", "", "0.5"]
    for name, start in (("c.png", b"\x89PNG"), ("c.pdf", b"%PDF"), ("c.svg", b"<?xml")):
        invoke("plot", "curves", *runs, "--out", tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
