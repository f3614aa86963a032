"""Runs that two processes learn together, on the CPU: interrupted by the death of either, they end the same."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from pathlib import Path

import pytest

from dree.errors import DreeError
from dree.experiments import Run
from dree.experiments.engines.base import Job, News
from dree.experiments.engines.local import LocalEngine
from dree.experiments.engines.work import carry_out_one
from engine_jobs import EPOCHS, content, small, uninterrupted

JOB = Job("job", small(method="dree", processes=2))


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("whole")
    uninterrupted(out, [JOB])
    return out


def killing(news: list[News]):
    """Kill all children of this process when a job has come to its third epoch, once."""

    def tell(each: News) -> None:
        news.append(each)
        if [each.epoch for each in news].count(3) == 1 and each.epoch == 3:
            for process in multiprocessing.active_children():
                process.kill()

    return tell


def test_when_the_other_process_is_killed_the_run_goes_on(tmp_path, whole):
    news: list[News] = []
    assert carry_out_one(JOB, tmp_path, killing(news)).error is None
    assert len(news) > EPOCHS + 1, "it was not interrupted"
    assert content(tmp_path, [JOB]) == content(whole, [JOB])
    assert not multiprocessing.active_children()


def test_when_the_first_process_is_killed_the_run_goes_on(tmp_path, whole):
    news: list[News] = []
    (outcome,) = LocalEngine().carry_out([JOB], tmp_path, killing(news))
    assert outcome.error is None
    assert len(news) > EPOCHS + 1, "it was not interrupted"
    assert content(tmp_path, [JOB]) == content(whole, [JOB])


def test_an_epoch_cannot_be_learned_by_one_of_them(tmp_path):
    with pytest.raises(DreeError, match="learned by 2 processes"):
        Run.start(tmp_path / "run", JOB.settings).learn_epoch()


def test_another_number_of_processes_is_refused(tmp_path, whole):
    shutil.copytree(whole / "runs/job", tmp_path / "run")
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    manifest["settings"]["processes"] = 1
    (tmp_path / "run/manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DreeError, match="is of 2 processes, and the run is to have 1"):
        Run.resume(tmp_path / "run")


def test_a_batch_that_cannot_be_shared_equally_is_refused():
    with pytest.raises(DreeError, match="3 processes cannot share batches of 4"):
        small(processes=3)
