"""A run killed with SIGKILL at any moment goes on and ends bit-identical to one that was never interrupted."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from dree.experiments import Run
from dree.lifelong.checkpoint import checkpoints

SETTINGS = [
    "--preset", "demo", "--set", "epochs=10", "--set", "batches=6", "--set", "batch_size=8",
    "--set", "test_instances=4", "--set", "test_every=1", "--set", "solver.width=16", "--set", "solver.layers=1",
]  # fmt: skip
FILES = ("metrics.jsonl", "gaps.csv", "checkpoint/000000010.safetensors", "checkpoint/000000009.safetensors")


def start(*arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "dree", "run", *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def finish(*arguments: str) -> None:
    process = start(*arguments)
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run"
    finish(*SETTINGS, "--out", str(path))
    return path


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_moments_it_ends_bit_identical(tmp_path, uninterrupted, seed):
    path, moments = tmp_path / "run", random.Random(seed)
    process = start(*SETTINGS, "--out", str(path))
    kills, reached = 0, []
    while kills < 4:
        while not (path / ".lock").exists():  # the lock is taken when work begins
            assert process.poll() is None, process.communicate()[1].decode()
            time.sleep(0.005)
        time.sleep(moments.uniform(0, 0.6))
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        reached += [int(file.stem) for file in checkpoints(path / "checkpoint")[:1]]
        (path / ".lock").unlink()
        process = start("--resume", str(path))
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    assert kills >= 2, "the run ended before it could be killed: make it longer"
    assert max(reached) > 0, "it was never killed in the middle of learning"
    for name in FILES:
        assert (path / name).read_bytes() == (uninterrupted / name).read_bytes(), name


def test_stopped_at_every_epoch_it_ends_bit_identical(tmp_path, uninterrupted):
    """The same without processes, so that every boundary is surely met."""
    settings = Run.resume(uninterrupted).settings
    run = Run.start(tmp_path / "run", settings)
    run.test()
    run.checkpoint()
    for _ in range(10):
        run = Run.resume(tmp_path / "run")
        run.folder.truncate_logs(run.epoch)
        run.learn_epoch()
    for name in FILES:
        assert (tmp_path / "run" / name).read_bytes() == (uninterrupted / name).read_bytes(), name
