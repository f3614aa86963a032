"""`dree convert` as a user meets it: evaluate and solve take what it makes, and nothing is overwritten."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch

from command_line import dree, invoke, warm_dree
from dree.data import load_test
from dree.errors import DreeError
from dree.experiments.trained import load_trained
from original_pomo import Original, save_original
from small_runs import SMALL, as_options

STOPS = {"coordinates": [[0, 0], [3, 0], [3, 4], [0, 4], [1, 2]]}
TSP = "NAME : a\nTYPE : TSP\nDIMENSION : 3\nEDGE_WEIGHT_TYPE : EUC_2D\nNODE_COORD_SECTION\n1 0 0\n2 1.5 0\n3 0 2\n"
DEMANDS = {"demands": [0, 2, 3, 1, 2], "capacity": 5}


@pytest.fixture
def checkpoint(tmp_path, problem) -> Path:
    return save_original(tmp_path / "checkpoint-2.pt", Original(problem))


def test_evaluate_and_solve_take_what_was_converted(tmp_path, checkpoint, problem):
    out = tmp_path / "new/solver"
    shown = invoke("convert", checkpoint, out)
    assert f"POMO for {problem.upper()}: width 16, 2 encoder layers, feed-forward 24." in shown
    assert "Here there are 8 of 2." in shown
    assert "batch-no-track" in shown
    assert f"dree evaluate {out}" in shown
    assert [path.name for path in out.parent.iterdir()] == ["solver"]
    invoke("evaluate", out, "--limit", 2, "--device", "cpu", "--json", tmp_path / "x.json")
    result = json.loads((tmp_path / "x.json").read_text())
    assert (result["problem"], result["epoch"], result["method"]) == (problem, 2, None)
    assert len(result["rows"]) == 6
    assert "epoch 2" in invoke("evaluate", out / "checkpoint/000000002.safetensors", "--limit", 1, "--device", "cpu")
    (tmp_path / "stops.json").write_text(json.dumps(STOPS | (DEMANDS if problem == "cvrp" else {})))
    invoke("solve", tmp_path / "stops.json", "--run", out, "--json", tmp_path / "routes.json")
    routes = json.loads((tmp_path / "routes.json").read_text())["routes"]
    assert sorted(node for route in routes for node in route) == list(range(problem == "cvrp", 5))


@pytest.mark.parametrize(
    ("norm", "title", "said"),
    [
        ("instance", "POMO", "taken for instance norm"),
        ("batch-no-track", "Omni", "taken for batch norm without running statistics"),
    ],
)
def test_the_solver_on_the_disk_answers_like_the_original(tmp_path, problem, norm, title, said):
    reference = Original(problem, norm=norm)
    shown = invoke("convert", save_original(tmp_path / f"maml-{norm}.pt", reference), tmp_path / "out")
    assert f"{title} for {problem.upper()}" in shown
    assert said in shown
    instances = load_test(problem, "U", 20).instances[:2]
    actions, _ = reference.rollout(instances)
    ours = load_trained(tmp_path / "out").solver.solve(instances).actions
    assert torch.equal(ours, actions[..., 1:] if problem == "cvrp" else actions)


def test_the_manifest_says_where_the_solver_comes_from_and_a_run_it_is_not(tmp_path, checkpoint):
    out = tmp_path / "out"
    assert "batch-no-track" not in invoke("convert", checkpoint, out, "--norm", "instance", "--heads", 4)
    manifest = json.loads((out / "manifest.json").read_text())
    digest = hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    assert manifest["kind"] == "converted"
    assert manifest["converted"] == {"file": "checkpoint-2.pt", "sha256": digest, "norm": "instance"}
    assert manifest["settings"]["solver"]["heads"] == 4
    with pytest.raises(DreeError, match="is a solver that was converted, not a run"):
        invoke("run", "--resume", out)
    for command in (["metrics"], ["report"], ["results", "add", "--folder", tmp_path / "results"]):
        with pytest.raises(DreeError, match=r"is a solver alone, not a run\. Test it with: dree evaluate"):
            invoke(*command, out)


def test_a_solver_taken_out_of_a_run_is_no_run_either_and_it_is_said_what_to_do(tmp_path):
    invoke("run", "--preset", "demo", *as_options(SMALL), "--epochs", 5, "--out", tmp_path / "run")
    out = tmp_path / "out"
    invoke("convert", tmp_path / "run", out)
    with pytest.raises(DreeError, match=r"was taken out of a run\. Go on with that run, or begin a new one from it"):
        invoke("run", "--resume", out)
    with pytest.raises(DreeError, match=r"is a solver alone, not a run\. Test it with: dree evaluate"):
        invoke("metrics", out)
    with pytest.raises(DreeError, match=r"exists already\. It is a solver alone\. Choose another folder"):
        invoke("run", "--preset", "demo", "--out", out)


def test_what_was_converted_to_omni_is_evaluated_in_batches_that_are_said(tmp_path):
    checkpoint = save_original(tmp_path / "a.pt", Original("tsp", norm="batch-no-track"))
    assert "taken for" not in invoke("convert", checkpoint, tmp_path / "out", "--norm", "batch-no-track")
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert (manifest["settings"]["base"], manifest["converted"]["norm"]) == ("omni", "batch-no-track")
    options = ("--device", "cpu", "--json", tmp_path / "x.json")
    shown = invoke("evaluate", tmp_path / "out", "--limit", 2, *options)
    assert "encoded together: 100 consecutive instances of a test set" in shown
    assert json.loads((tmp_path / "x.json").read_text())["encoding_batch"] == 100
    (tmp_path / "a.tsp").write_text(TSP)
    assert "encoded together: an instance with its own symmetric copies alone" in invoke(
        "evaluate", tmp_path / "out", "--path", tmp_path / "a.tsp", *options
    )


def test_what_exists_is_never_overwritten(tmp_path):
    checkpoint = save_original(tmp_path / "a.pt", Original("tsp"))
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "folder", "link", "a.pt"):
        with pytest.raises(DreeError, match="exists already and was left alone"):
            invoke("convert", checkpoint, tmp_path / name)
    assert (tmp_path / "file").read_text() == "mine"
    assert not list((tmp_path / "folder").iterdir())
    assert not (tmp_path / "nowhere").exists()


def test_a_conversion_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    checkpoint = save_original(tmp_path / "a.pt", Original("tsp"))

    def full(*_: object) -> None:
        raise DreeError("Cannot write")

    monkeypatch.setattr("dree.experiments.converted.save_checkpoint", full)
    with pytest.raises(DreeError, match="Cannot write"):
        invoke("convert", checkpoint, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.pt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.pt", "out"], "There is no file none.pt"),
        (["text.pt", "out"], "text.pt is no file of torch.save, or is damaged"),
        (["a-batch.pt", "out"], "--norm instance"),
        (["a-batch.pt", "out", "--norm", "batch"], "Unknown norm 'batch'"),
        (["a-batch.pt", "out", "--norm", "instance", "--heads", "0"], "'heads' must be positive"),
        (["a-batch.pt", "out", "--norm", "instance", "--heads", "3"], "width 16 must be a multiple of its heads, 3"),
    ],
)
def test_bad_input_ends_in_a_message_and_writes_nothing(tmp_path, arguments, message):
    save_original(tmp_path / "a-batch.pt", Original("cvrp"))
    (tmp_path / "text.pt").write_text("hello")
    start = dree if "none.pt" in arguments else warm_dree
    result = start("convert", *arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"a-batch.pt", "text.pt"}
