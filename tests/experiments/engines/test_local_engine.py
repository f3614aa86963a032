"""Worker processes on this machine: real ones, which are killed."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from pathlib import Path

import pytest
import torch

import engine_jobs
from dree.errors import DreeError
from dree.experiments.engines.base import RUNS, Job, News
from dree.experiments.engines.local import LocalEngine, Slot, _deal
from dree.experiments.engines.work import carry_out_one
from dree.lifelong import FineTuning
from dree.lifelong.checkpoint import checkpoints
from engine_jobs import EPOCHS, content, small, small_jobs, uninterrupted


class Fatal(FineTuning):
    """A method that takes its process with it."""

    def begin(self, *_: object) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)


class Leaving(FineTuning):
    """A method that ends the program, as a user's own code may."""

    def begin(self, *_: object) -> None:
        sys.exit(3)


class Lost(FineTuning):
    """A method after which nothing can be done any more on a GPU, as PyTorch would tell."""

    def begin(self, *_: object) -> None:
        torch.cuda.is_initialized = lambda: True
        torch.cuda.synchronize = self.begin
        raise RuntimeError("CUDA error: device-side assert triggered")


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> dict[str, bytes]:
    return uninterrupted(tmp_path_factory.mktemp("whole"), small_jobs())


def test_a_killed_worker_costs_no_more_than_the_time_since_its_checkpoint(tmp_path, whole):
    killed: set[str] = set()
    news: list[News] = []

    def tell(each: News) -> None:
        news.append(each)
        if each.epoch >= 3 and not killed:
            killed.add(each.job)
            for process in multiprocessing.active_children():
                process.kill()

    outcomes = LocalEngine().carry_out(small_jobs(), tmp_path, tell)
    assert [(each.job.name, each.run, each.error) for each in outcomes] == [
        (name, tmp_path / RUNS / name, None) for name in ("first", "second")
    ]
    assert killed
    assert content(tmp_path, small_jobs()) == whole
    assert not multiprocessing.active_children()

    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    news.clear()
    LocalEngine().carry_out(small_jobs(), tmp_path, news.append)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == times, "finished runs are left alone"
    assert [each.epoch for each in news] == [EPOCHS, EPOCHS]


def test_a_killed_engine_goes_on_when_it_is_started_again(tmp_path, whole):
    """Killed outright, whereupon its workers end too; then interrupted at the terminal; then left in peace."""
    process, reached = started(tmp_path, 3)
    process.kill()
    process.communicate()  # which lasts until no worker has the pipe any more
    process, _ = started(tmp_path, reached + 2)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate()
    assert errors.count("Traceback") == 1, errors  # that of the engine, not of its workers
    (outcome,) = LocalEngine().carry_out(small_jobs()[:1], tmp_path, lambda _: None)
    assert outcome.error is None
    assert content(tmp_path, small_jobs()[:1]).items() <= whole.items()


def started(out: Path, epoch: int) -> tuple[subprocess.Popen[str], int]:
    """An engine in a process of its own, whose job has come to this checkpoint or a later one."""
    command = [sys.executable, str(Path(engine_jobs.__file__)), str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while True:
        reached = max((int(path.stem) for path in checkpoints(out / RUNS / "first" / "checkpoint")), default=-1)
        if reached >= epoch:
            assert reached < EPOCHS, "it ended before it could be killed: make it longer"
            return process, reached
        time.sleep(0.002)


def test_a_job_that_fails_does_not_keep_others(tmp_path):
    (tmp_path / RUNS / "wrong").mkdir(parents=True)
    lade = small(scenario="lade", problem="tsp", epochs=None, sizes={}, data=str(tmp_path / "no.csv"), region="sh-1")
    large = small(**{"solver.width": 128, "solver.layers": 3})
    fatal = small(method=f"{__name__}.Fatal", batches=2)
    settings = {"fatal": fatal, "wrong": small(), "no data": lade, "large": large, "good": small(seed=1)}
    jobs = [Job(name, each) for name, each in settings.items()]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))  # what the workers inherit is like a disk nearly full
    try:
        news: list[News] = []
        outcomes = LocalEngine().carry_out(jobs, tmp_path, news.append)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    errors = {outcome.job.name: str(outcome.error) for outcome in outcomes}
    assert list(errors) == list(settings)
    assert "SIGSEGV" in errors["fatal"]
    assert "died 3 times" in errors["fatal"]
    assert "wrong is not a run" in errors["wrong"]
    assert "no.csv" in errors["no data"]
    assert "Cannot write" in errors["large"]
    assert errors["good"] == "None"
    assert {each.job: each.error for each in news if each.error} == {
        name: error for name, error in errors.items() if name != "good"
    }
    assert outcomes[-1].run == tmp_path / RUNS / "good"
    assert carry_out_one(jobs[3], tmp_path, lambda _: None).error is None, "room was made"


def test_workers_are_for_gpus_where_there_are_some():
    job = Job("job", small(device="auto"))
    engine = LocalEngine(devices=["0", "3", "5"], share=2)
    assert [(slot.devices, slot.runs) for slot in engine.slots([job])] == [(("0",), 2), (("3",), 2), (("5",), 2)]
    assert {(slot.devices, slot.runs) for slot in engine.slots([Job("job", small(device="cpu"))])} == {((), 1)}
    pair = Job("pair", small(device="auto", processes=2))
    assert [slot.devices for slot in LocalEngine(devices=["0", "3", "5"]).slots([job, pair])] == [("0", "3")]
    with pytest.raises(DreeError, match="Runs of 2 GPUs each cannot share these"):
        engine.slots([job, pair])


def sharing(runs: int) -> LocalEngine:
    """One worker that has several runs at once, as on a GPU."""
    engine = LocalEngine()
    engine.slots = lambda jobs: [Slot(threads=1, runs=runs)]  # type: ignore[method-assign]
    return engine


def test_runs_that_take_turns_are_as_if_each_was_alone(tmp_path):
    jobs = [*small_jobs(), Job("third", small(method="llr-bc", problem="tsp"))]
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    sharing(1).carry_out(jobs, alone, lambda _: None)
    news: list[News] = []
    outcomes = sharing(2).carry_out(jobs, shared, news.append)
    assert [each.error for each in outcomes] == [None] * 3
    assert content(shared, jobs) == content(alone, jobs)
    order = [(each.job, each.epoch) for each in news]
    assert order.index(("second", 2)) < order.index(("first", EPOCHS)), "they do not go on together"
    assert order.index(("third", 0)) > min(order.index((name, EPOCHS)) for name in ("first", "second")), "three at once"
    manifests = [(shared / RUNS / job.name / "manifest.json").read_text() for job in jobs]
    assert all('"at_once": 2' in each for each in manifests)


def test_a_run_that_takes_the_worker_with_it_does_so_alone_the_next_time(tmp_path, whole):
    first, second = small_jobs()
    fatal, leaving, lost = (
        Job(kind.__name__, small(method=f"{__name__}.{kind.__name__}", batches=2)) for kind in (Fatal, Leaving, Lost)
    )
    outcomes = sharing(5).carry_out([first, fatal, leaving, lost, second], tmp_path, lambda _: None)
    errors = {each.job.name: each.error for each in outcomes}
    assert "SIGSEGV" in errors["Fatal"]
    assert "ended with exit code 1" in errors["Leaving"]
    assert f"The trace is in {tmp_path / RUNS / 'Lost.error.txt'}" in errors["Lost"]
    assert "device-side assert" in (tmp_path / RUNS / "Lost.error.txt").read_text()
    assert (errors["first"], errors["second"]) == (None, None)
    assert content(tmp_path, [first, second]) == whole


def test_no_job_is_lost_with_a_worker_that_dies_when_it_is_about_to_have_one_more(tmp_path, whole):
    first, second = small_jobs()
    lade = small(scenario="lade", problem="tsp", epochs=None, sizes={}, data=str(tmp_path / "no.csv"), region="sh-1")

    def tell(each: News) -> None:
        if each.job == "no data":  # now there is room for one more job
            for process in multiprocessing.active_children():
                process.kill()
                process.join()

    outcomes = sharing(2).carry_out([first, Job("no data", lade), second], tmp_path, tell)
    assert "no.csv" in str(outcomes[1].error)
    assert (outcomes[0].error, outcomes[2].error) == (None, None)
    assert content(tmp_path, [first, second]) == whole


class Hand:
    """Stands for a worker that has some jobs."""

    def __init__(self, runs: int, *jobs: str) -> None:
        self.jobs, self.runs, self.alone = list(jobs), runs, False

    @property
    def has_room(self) -> bool:
        return len(self.jobs) < self.runs and not self.alone

    def take(self, job: Job, *, alone: bool) -> None:
        self.jobs.append(job.name)
        self.alone = alone


@pytest.mark.parametrize(
    ("hands", "suspects", "dealt", "left"),
    [
        ([Hand(2), Hand(2)], "", [["a", "c"], ["b", "d"]], ""),
        ([Hand(1), Hand(1)], "", [["a"], ["b"]], "cd"),
        ([Hand(3, "x"), Hand(3)], "", [["x", "b", "d"], ["a", "c"]], ""),
        ([Hand(3, "x")], "ab", [["x", "c", "d"]], "ab"),
        ([Hand(3), Hand(3, "x")], "ab", [["a"], ["x", "c", "d"]], "b"),
        ([Hand(3)], "a", [["a"]], "bcd"),
    ],
)
def test_jobs_are_dealt_evenly_and_those_whose_worker_has_died_alone(hands, suspects, dealt, left):
    waiting = deque(Job(name, small()) for name in "abcd")
    _deal(waiting, hands, Counter(suspects))
    assert [hand.jobs for hand in hands] == dealt
    assert "".join(job.name for job in waiting) == left


def test_without_gpus_there_is_a_worker_for_each_core():
    job, cores = Job("job", small()), len(os.sched_getaffinity(0))
    assert len(LocalEngine(devices=[]).slots([job])) == cores
    assert LocalEngine(workers=1, devices=[]).slots([job]) == [Slot()]
    assert LocalEngine(workers=2 * cores, devices=[]).slots([job]) == [Slot(threads=1)] * 2 * cores


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"share": 0}])
def test_nonsense_is_refused(wrong):
    with pytest.raises(DreeError, match="at least 1"):
        LocalEngine(**wrong)


def test_more_gpus_than_there_are_are_refused():
    with pytest.raises(DreeError, match="have 4 GPUs, but 1 are here"):
        LocalEngine(devices=["0"]).slots([Job("job", small(device="auto", processes=4))])
