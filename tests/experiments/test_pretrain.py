"""Pretraining: it repeats, goes on bit by bit wherever it stops, and leaves a solver that runs take."""

from __future__ import annotations

import csv
import json
import time
from dataclasses import replace

import pytest
import torch

from command_line import dree
from dree.errors import DreeError
from dree.experiments import DEMO, Run
from dree.experiments.pretrain import Pretraining
from dree.experiments.pretrain_settings import SMALL, PretrainSettings, pretrain_preset
from dree.experiments.probe import Probe
from dree.experiments.trained import load_trained
from dree.lifelong import METHODS
from dree.lifelong.checkpoint import checkpoints
from dree.lifelong.meta import Schedule
from dree.settings import override
from dree.solvers import make_solver
from small_runs import PRETRAINING, as_options, interrupted_once
from small_runs import SMALL as RUN
from warm_processes import WarmProcess

FILES = ("metrics.jsonl", "tests.csv", "checkpoint/000000012.safetensors", "checkpoint/000000009.safetensors")


def tiny(**changes) -> PretrainSettings:
    return override(SMALL, {**PRETRAINING, **changes})


@pytest.fixture(params=["second", "second-then-first", "first"])
def settings(request) -> PretrainSettings:
    return tiny(order=request.param, second_order_iterations=5)


def same(one, other) -> None:
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def test_stopped_after_every_round_it_ends_bit_identical(tmp_path, settings):
    whole = Pretraining.start(tmp_path / "whole", settings)
    whole.finish()
    parts = Pretraining.start(tmp_path / "parts", settings)
    parts.test("before")
    parts.checkpoint()
    for _ in range(4):
        parts = Pretraining.resume(tmp_path / "parts")
        parts.folder.go_back_to(parts.iteration)
        parts.learn_round()
    Pretraining.resume(tmp_path / "parts").finish()
    same(tmp_path / "whole", tmp_path / "parts")
    rows = [json.loads(line) for line in (tmp_path / "whole/metrics.jsonl").read_text().splitlines()]
    assert [(row["epoch"], row["size"]) for row in rows] == [(3, 6), (6, 8), (9, 8), (12, 10)]
    assert all(len(row["gaps"]) == 11 for row in rows)


def test_abandoned_long_after_its_newest_checkpoint_it_ends_bit_identical(tmp_path):
    Pretraining.start(tmp_path / "whole", tiny()).finish()
    run = Pretraining.start(tmp_path / "run", tiny(checkpoint_seconds=1e9))
    run.test("before")
    run.checkpoint()
    for _ in range(3):
        run.learn_round()
    assert checkpoints(run.folder.checkpoints)[0].stem == "000000000"
    again = Pretraining.resume(tmp_path / "run")
    assert again.iteration == 0
    again.finish()
    for name in FILES[:3]:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize(
    ("seconds", "whose", "what", "when"),
    [
        (0, "learner", "_slope", 16),  # in the middle of an iteration, whose inner steps have changed the weights
        (1e9, "learner", "_slope", 16),  # the only checkpoint is that of iteration 0
        (1e9, "probe", "gaps", 1),  # the second look
    ],
)
def test_stopped_in_the_middle_of_a_round_it_ends_the_same_when_the_same_object_finishes_it(
    tmp_path, monkeypatch, seconds, whose, what, when
):
    Pretraining.start(tmp_path / "whole", tiny()).finish()
    stopped = Pretraining.start(tmp_path / "stopped", tiny(checkpoint_seconds=seconds))
    interrupted_once(monkeypatch, getattr(stopped, whose), what, when)
    with pytest.raises(KeyboardInterrupt):
        stopped.finish()
    assert 0 < stopped.iteration < 12
    stopped.finish()
    for name in FILES[:3]:
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_a_round_that_was_stopped_on_its_way_is_learned_again_from_its_checkpoint(tmp_path, monkeypatch):
    pretraining = Pretraining.start(tmp_path / "out", tiny(checkpoint_seconds=0))
    pretraining.learn_round()
    monkeypatch.setattr(pretraining.probe, "gaps", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pretraining.learn_round()
    assert pretraining.iteration == 5
    pretraining.learn_round()
    assert [row["epoch"] for row in pretraining.folder.log("metrics.jsonl")] == [3, 6]


def test_killed_it_ends_bit_identical(tmp_path):
    longer = as_options({**PRETRAINING, "iterations": 60, "curriculum": 60})
    words = ["pretrain", "omni", "--preset", "small", *longer]

    def finish(process: WarmProcess) -> None:
        ended = process.finish()
        assert ended.returncode == 0, ended.stderr

    assert dree(*words, "--out", str(tmp_path / "whole")).returncode == 0
    process = WarmProcess(*words, "--out", tmp_path / "run")
    reached = []
    for until in (3, 30):
        found = tmp_path / "run/checkpoint"
        while process.running() and max([int(file.stem) for file in checkpoints(found)], default=-1) < until:
            time.sleep(0.002)
        process.kill()
        reached.append(max(int(file.stem) for file in checkpoints(found)))
        process = WarmProcess("pretrain", "--resume", tmp_path / "run")
    finish(process)
    assert reached[0] < 60, "it ended before it could be killed: make it longer"
    for name in ("metrics.jsonl", "tests.csv", "checkpoint/000000060.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_its_folder_holds_an_omni_like_a_runs(tmp_path, problem):
    pretraining = Pretraining.start(tmp_path / "out", tiny(problem=problem))
    pretraining.finish()
    trained = load_trained(tmp_path / "out")
    assert (trained.settings.base, trained.settings.problem, trained.epoch) == ("omni", problem, 12)
    assert trained.method is None
    for ours, theirs in zip(trained.solver.parameters(), pretraining.learner.solver.parameters(), strict=True):
        assert ours.equal(theirs)
    first = make_solver(problem, "omni", trained.settings.solver, seed=0)
    assert not all(a.equal(b) for a, b in zip(first.parameters(), trained.solver.parameters(), strict=True))
    rows = list(csv.DictReader((tmp_path / "out/tests.csv").read_text().splitlines()))
    assert {row["task"] for row in rows} == {"U20", "R20", "E20", "G20", "C30", "GM30"}
    assert all(float(row["before"]) > 0 and float(row["after"]) > 0 for row in rows)


def test_a_finished_one_that_is_resumed_changes_nothing(tmp_path):
    Pretraining.start(tmp_path / "out", tiny()).finish()
    before = {name: (tmp_path / "out" / name).read_bytes() for name in FILES}
    Pretraining.resume(tmp_path / "out").finish()
    assert before == {name: (tmp_path / "out" / name).read_bytes() for name in FILES}


def test_what_cannot_go_on_says_why(tmp_path):
    pretraining = Pretraining.start(tmp_path / "out", tiny())
    pretraining.learn_round()
    for checkpoint in checkpoints(pretraining.folder.checkpoints):
        checkpoint.unlink()
    with pytest.raises(DreeError, match="has no checkpoint any more"):
        Pretraining.resume(tmp_path / "out")
    with pytest.raises(DreeError, match=r"exists already\. Choose another folder\.$"):
        Pretraining.start(tmp_path / "out", tiny())
    fresh = Pretraining.start(tmp_path / "fresh", tiny())
    with pytest.raises(DreeError, match=r"so Pretraining\.resume\(path\) begins it again from the start; or"):
        Pretraining.start(fresh.folder.path, tiny())
    with pytest.raises(DreeError, match="is not a run"):
        Pretraining.resume(tmp_path)


def test_hgs_that_is_not_installed_has_an_alternative(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(DreeError, match=r"pip install .* --set reference=own"):
        Pretraining.start(tmp_path / "out", tiny(reference="hgs"))
    assert not (tmp_path / "out").exists()


def test_what_is_solved_worst_is_learned_most_often(tmp_path):
    pretraining = Pretraining.start(tmp_path / "out", tiny(temperature=20.0))
    equal = pretraining.schedule.weights_at(3)
    pretraining.learn_round()
    (row,) = pretraining.folder.log("metrics.jsonl")
    likely = torch.tensor(row["gaps"]).double().div(20).softmax(0).tolist()
    assert pretraining.schedule.weights_at(3) == pytest.approx(likely)
    assert max(likely) > 1.2 * max(equal)


def test_a_loss_that_is_not_finite_stops_it(tmp_path):
    pretraining = Pretraining.start(tmp_path / "out", tiny())
    with torch.no_grad():
        pretraining.learner.solver.key.weight.fill_(float("nan"))
    with pytest.raises(DreeError, match="The loss is not finite between iterations 1 and 2"):
        pretraining.learn_round()


def probe_and_solver(problem, reference, say=print):
    chosen = tiny(problem=problem, reference=reference, pool=6, probe=3, reference_iterations=50)
    return Probe(chosen, say), make_solver(problem, "omni", chosen.solver), Schedule(problem, chosen).tasks_at(1)


def test_gaps_to_hgs_are_those_of_a_poor_solver(problem):
    pytest.importorskip("hygese")
    said: list[str] = []
    probe, solver, tasks = probe_and_solver(problem, "hgs", said.append)
    first = probe.gaps(solver, tasks, 3)
    assert first == probe.gaps(solver, tasks, 3)
    assert said == ["Finding reference tours of 66 instances of n = 6."]
    assert len(first) == 11
    assert min(first) > 0
    assert max(first) > 5
    assert first != probe.gaps(solver, tasks, 6)  # other instances of the pool


def test_own_references_are_the_best_tours_so_far_and_survive(problem):
    probe, solver, tasks = probe_and_solver(problem, "own")
    assert min(probe.gaps(solver, tasks, 3)) >= 0
    other = make_solver(problem, "omni", solver_settings(solver), seed=7)
    before = {name: costs.clone() for name, costs in probe.state_dict().items()}
    assert min(probe.gaps(other, tasks, 3)) >= 0
    assert all((costs <= before[name]).all() for name, costs in probe.state_dict().items())
    fresh, _, _ = probe_and_solver(problem, "own")
    fresh.load_state_dict(probe.state_dict())
    assert fresh.gaps(solver, tasks, 6) == probe.gaps(solver, tasks, 6)
    probe.gaps(solver, Schedule(problem, tiny()).tasks_at(10), 9)
    assert not set(probe.state_dict()) & set(before)  # a size that is done is forgotten


def solver_settings(solver):
    return {name: getattr(solver.settings, name) for name in ("width", "heads", "layers", "feed_forward")}


def test_presets_and_wrong_settings():
    assert pretrain_preset("paper").iterations == 250_000
    assert pretrain_preset("small").as_run().base == "omni"
    with pytest.raises(DreeError, match="Unknown preset 'large'"):
        pretrain_preset("large")
    for changes, message in (
        ({"reference": "lkh"}, "Unknown reference 'lkh'"),
        ({"problem": "vrp"}, "Unknown problem 'vrp'"),
        ({"reference_workers": 0}, "must be at least 1"),
        ({"solver.width": 7}, "must be a multiple of its heads"),
        ({"nonsense": 1}, "Unknown setting 'nonsense'"),
    ):
        with pytest.raises(DreeError, match=message):
            override(SMALL, changes)
    assert replace(SMALL, seed=3).as_run().seed == 3


@pytest.mark.parametrize("method", METHODS)
def test_every_method_goes_on_from_it(tmp_path, method):
    Pretraining.start(tmp_path / "first", tiny(iterations=1)).finish()
    network = {name: value for name, value in PRETRAINING.items() if name.startswith("solver.")}
    changes = {**RUN, **network, "epochs": 5, "problem": "tsp", "start": str(tmp_path / "first"), "method": method}
    run = Run.start(tmp_path / "run", override(DEMO, {"base": "omni", **changes}))
    before = [each.clone() for each in run.learner.solver.parameters()]
    first = load_trained(tmp_path / "first").solver
    assert all(ours.equal(theirs) for ours, theirs in zip(before, first.parameters(), strict=True))
    run.finish()
    assert not all(ours.equal(now) for ours, now in zip(before, run.learner.solver.parameters(), strict=True))
