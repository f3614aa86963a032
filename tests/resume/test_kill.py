"""A run killed with SIGKILL at any moment goes on and ends bit-identical to one that was never interrupted."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest

from dree.experiments import Run
from dree.lifelong.checkpoint import checkpoints
from lade_tables import days, write
from small_runs import finish_in_pieces
from warm_processes import WarmProcess

SETTINGS = [
    "--preset", "demo", "--set", "epochs=20", "--set", "batches=3", "--set", "batch_size=8",
    "--set", "test_instances=4", "--set", "test_every=1", "--set", "solver.width=16", "--set", "solver.layers=1",
    "--set", "checkpoint_seconds=0",
]  # fmt: skip
METHODS = {
    "fine-tuning": [],
    "dree": ["--set", "options.buffer=9"],
    "llr-bc": ["--set", "options.buffer=30", "--set", "options.sample=3"],
    "li": ["--set", "options.refresh_every=2"],
    "mt-ref": [],
    "mt-cumulative": [],
}
FILES = ("metrics.jsonl", "gaps.csv", "checkpoint/000000020.safetensors", "checkpoint/000000019.safetensors")


def finish(process: WarmProcess) -> None:
    ended = process.finish()
    assert ended.returncode == 0, ended.stderr


@pytest.fixture(scope="module", params=METHODS)
def whole(request, tmp_path_factory):
    """The arguments of a run, and its folder when nothing interrupted it."""
    arguments = [*SETTINGS, "--method", request.param, *METHODS[request.param]]
    path = tmp_path_factory.mktemp("whole") / "run"
    finish(WarmProcess("run", *arguments, "--out", path))
    return arguments, path


def newest(path):
    return max([int(file.stem) for file in checkpoints(path / "checkpoint")], default=-1)


def finish_killed(path, *arguments: str) -> None:
    """Start a run and kill it at random moments, three times if it lives that long, then let it end."""
    moments = random.Random(str(arguments))
    process = WarmProcess("run", *arguments, "--out", path)
    kills, reached = 0, -1
    while kills < 3:
        until = reached + moments.randint(1, 4)  # epochs, so that a slow machine is given its time
        while newest(path) < until and process.running():
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 0.1))
        if not process.running():
            break
        process.kill()
        kills, reached = kills + 1, newest(path)
        process = WarmProcess("run", "--resume", path)
    finish(process)
    assert kills >= 2, "the run ended before it could be killed: make it longer"
    assert reached > 0, "it was never killed in the middle of learning"


def test_killed_at_random_moments_it_ends_bit_identical(tmp_path, whole):
    arguments, uninterrupted = whole
    finish_killed(tmp_path / "run", *arguments)
    for name in FILES:
        assert (tmp_path / "run" / name).read_bytes() == (uninterrupted / name).read_bytes(), name


def test_on_real_days_too(tmp_path):
    pytest.importorskip("pyarrow")
    pytest.importorskip("hygese")
    data = write(tmp_path / "sh.csv", days({601 + day: 20 for day in range(22)}))  # of which 20 are learned
    real = ["--scenario", "lade", "--data", str(data), "--region", "sh-1", "--set", "epochs=null"]
    arguments = [*SETTINGS, "--method", "dree", *METHODS["dree"], *real]
    finish(WarmProcess("run", *arguments, "--out", tmp_path / "whole"))
    finish_killed(tmp_path / "run", *arguments)
    for name in FILES:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert b'"Gen"' in (tmp_path / "run/metrics.jsonl").read_bytes()


def test_stopped_at_every_epoch_it_ends_bit_identical(tmp_path, whole):
    """The same without processes, so that every boundary is surely met."""
    _, uninterrupted = whole
    settings = Run.resume(uninterrupted).settings
    finish_in_pieces(tmp_path / "run", settings, 20)
    for name in FILES:
        assert (tmp_path / "run" / name).read_bytes() == (uninterrupted / name).read_bytes(), name


def test_abandoned_long_after_its_newest_checkpoint_it_ends_bit_identical(tmp_path, whole):
    """What was learned, logged and tested since then is dropped and comes again."""
    _, uninterrupted = whole
    settings = replace(Run.resume(uninterrupted).settings, checkpoint_seconds=1e9)
    run = Run.start(tmp_path / "run", settings)
    run.test()
    for saved, abandoned in ((0, 3), (5, 11), (12, 19)):
        while run.epoch < saved:
            run.learn_epoch()
        run.checkpoint()
        while run.epoch < abandoned:
            run.learn_epoch()
        assert [row["epoch"] for row in run.folder.log("metrics.jsonl")] == list(range(1, abandoned + 1))
        assert run.folder.gaps()[0] == list(range(abandoned + 1))
        run = Run.resume(tmp_path / "run")
        assert run.epoch == saved
        run.folder.go_back_to(run.epoch)
    run.finish()
    assert [int(file.stem) for file in checkpoints(tmp_path / "run/checkpoint")] == [20, 12]
    for name in FILES[:3]:
        assert (tmp_path / "run" / name).read_bytes() == (uninterrupted / name).read_bytes(), name
