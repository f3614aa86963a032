"""`dree pretrain` as a user meets it: evaluate, solve and run take what it makes."""

from __future__ import annotations

import json

import pytest

from command_line import invoke, warm_dree
from dree.errors import DreeError
from small_runs import PRETRAINING, as_options

QUICK = as_options(PRETRAINING)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    out = tmp_path_factory.mktemp("pretrained") / "omni"
    shown = invoke("pretrain", "omni", "--problem", "cvrp", "--preset", "small", *QUICK, "--out", out)
    return out, shown


def test_it_says_what_it_does_and_shows_gaps_before_and_after(pretrained):
    out, shown = pretrained
    assert "to the best tours found so far, not to a classical solver's" in shown
    assert "iteration 12 of 12, n = 10: gap of the distributions" in shown
    assert "before" in shown
    assert "GM30" in shown
    assert f"dree run --start {out}" in shown
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["kind"], manifest["settings"]["base"]) == ("pretrained", "omni")
    assert manifest["pretrained"]["iterations"] == 12
    assert manifest["pretrained"]["order"] == "second"


def test_evaluate_and_solve_take_its_solver(pretrained, tmp_path):
    out, _ = pretrained
    shown = invoke("evaluate", out, "--limit", 2, "--device", "cpu")
    assert "encoded together: 100 consecutive instances" in shown
    stops = {"coordinates": [[0, 0], [3, 0], [3, 4], [0, 4]], "demands": [0, 2, 3, 1], "capacity": 5}
    (tmp_path / "stops.json").write_text(json.dumps(stops))
    invoke("solve", tmp_path / "stops.json", "--run", out, "--json", tmp_path / "routes.json")
    routes = json.loads((tmp_path / "routes.json").read_text())["routes"]
    assert sorted(node for route in routes for node in route) == [1, 2, 3]


def test_a_run_starts_from_it_with_its_problem_its_solver_and_its_size(tmp_path):
    """None of which are the preset's."""
    out = tmp_path / "omni"
    invoke("pretrain", "--problem", "tsp", "--preset", "small", *QUICK, "--set", "iterations=1", "--out", out)
    run = as_options({"epochs": 5, "batches": 1, "batch_size": 4, "test_instances": 3})
    invoke("run", "--preset", "demo", "--start", out, *run, "--out", tmp_path / "run")
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    assert manifest["start"]["name"] == "omni"
    assert (manifest["settings"]["problem"], manifest["settings"]["base"]) == ("tsp", "omni")
    solver = manifest["settings"]["solver"]
    assert (solver["width"], solver["layers"], solver["feed_forward"]) == (16, 1, 16)


def test_a_run_that_is_given_another_problem_or_size_is_refused_in_words(pretrained, tmp_path):
    out, _ = pretrained
    with pytest.raises(DreeError, match="has problem cvrp, the run has tsp"):
        invoke("run", "--preset", "demo", "--start", out, "--problem", "tsp", "--out", tmp_path / "run")
    with pytest.raises(DreeError, match=r"another network than the run: its layers is 1, the run's 2\."):
        invoke("run", "--preset", "demo", "--start", out, "--set", "solver.layers=2", "--out", tmp_path / "run")
    with pytest.raises(DreeError, match="has base omni, the run has invit"):
        invoke("run", "--preset", "demo", "--start", out, "--solver", "invit", "--out", tmp_path / "run")


def test_a_run_is_not_resumed_as_a_pretraining_nor_the_other_way_round(pretrained, tmp_path):
    out, _ = pretrained
    with pytest.raises(DreeError, match=r"is a pretraining, not a run\. Go on with: dree pretrain --resume"):
        invoke("run", "--resume", out)
    assert "is at iteration 12 of 12" in invoke("pretrain", "--resume", out)
    with pytest.raises(
        DreeError, match=r"Continue it with dree pretrain --resume .*, or choose another folder with --out"
    ):
        invoke("pretrain", "omni", "--out", out)
    with pytest.raises(DreeError, match="give --resume and nothing else"):
        invoke("pretrain", "--resume", out, "--problem", "tsp")
    for command in (["metrics"], ["report"]):
        with pytest.raises(DreeError, match="has not been tested yet"):
            invoke(*command, out)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pomo"], "Unknown solver to pretrain 'pomo'"),
        (["omni", "--preset", "big"], "Unknown preset 'big'"),
        (["omni", "--problem", "vrp"], "Unknown problem 'vrp'"),
        (["omni", "--set", "order=third"], "Unknown order 'third'"),
        (["omni", "--set", "iterations=many"], "'iterations' must be a whole number, not 'many'"),
        (["--resume", "nowhere"], "nowhere is not a run"),
    ],
)
def test_bad_input_ends_in_a_message_and_writes_nothing(tmp_path, words, message):
    result = warm_dree("pretrain", *words, cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.iterdir())
