"""One job in its folder: begun, gone on with, found finished, or refused without touching anything."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dree.experiments import Run
from dree.experiments.engines.base import Job, News
from dree.experiments.engines.work import carry_out_one
from dree.lifelong import FineTuning
from engine_jobs import EPOCHS, content, small, uninterrupted

JOB = Job("job", small())


class Broken(FineTuning):
    """A method with a mistake in it."""

    def begin(self, *_: object) -> None:
        raise ZeroDivisionError("so it goes")


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("whole")
    uninterrupted(out, [JOB])
    return out


@pytest.fixture
def copy(whole, tmp_path) -> Path:
    shutil.copytree(whole, tmp_path / "out")
    return tmp_path / "out"


def everything(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def refused(out: Path, job: Job = JOB) -> str:
    """Why a job is not carried out; nothing is touched."""
    before = everything(out)
    outcome = carry_out_one(job, out, lambda _: None)
    assert everything(out) == before
    assert outcome.run is None
    assert outcome.error is not None
    return outcome.error


def test_it_tells_of_every_epoch(tmp_path):
    news: list[News] = []
    outcome = carry_out_one(JOB, tmp_path, news.append)
    assert (outcome.run, outcome.error) == (tmp_path / "runs/job", None)
    assert [(each.job, each.epoch, each.epochs) for each in news] == [("job", t, EPOCHS) for t in range(EPOCHS + 1)]
    assert [each.gap is None for each in news] == [True] * 5 + [False] * 6
    assert len({each.gap for each in news[5:]}) == 2


def test_a_finished_run_is_left_alone(copy):
    before, news = everything(copy), []
    outcome = carry_out_one(JOB, copy, news.append)
    assert outcome.run == copy / "runs/job"
    assert everything(copy) == before
    (last,) = news
    assert (last.epoch, last.epochs) == (EPOCHS, EPOCHS)
    assert last.gap is not None


def test_an_interrupted_run_goes_on(tmp_path, whole):
    run = Run.start(tmp_path / "runs/job", JOB.settings)
    run.test()
    run.checkpoint()
    for _ in range(6):
        run.learn_epoch()
    news: list[News] = []
    carry_out_one(JOB, tmp_path, news.append)
    assert [each.epoch for each in news] == list(range(6, EPOCHS + 1))
    assert news[0].gap is not None
    assert content(tmp_path, [JOB]) == content(whole, [JOB])


def test_another_device_is_no_other_run(copy):
    assert carry_out_one(Job("job", small(device="auto", checkpoint_seconds=9)), copy, lambda _: None).error is None


def test_other_settings_are_refused(copy):
    error = refused(copy, Job("job", small(batch_size=5, seed=2)))
    assert str(copy / "runs/job") in error
    assert "(batch_size, seed)" in error
    assert "Move it away or delete it" in error


@pytest.mark.parametrize("text", ["{", '{"format": 1}', '{"format": 99}', None])
def test_a_damaged_manifest_is_refused(copy, text):
    manifest = copy / "runs/job/manifest.json"
    if text is None:
        manifest.unlink()
    else:
        manifest.write_text(text)
    error = refused(copy)
    assert str(copy / "runs/job") in error
    assert "Move it away or delete it" in error


def test_a_setting_of_another_version_is_refused(copy):
    manifest = copy / "runs/job/manifest.json"
    changed = json.loads(manifest.read_text())
    changed["settings"]["colour"] = "red"
    manifest.write_text(json.dumps(changed))
    assert "Move it away or delete it" in refused(copy)


def test_a_run_without_checkpoints_is_refused(copy):
    shutil.rmtree(copy / "runs/job/checkpoint")
    error = refused(copy)
    assert "no checkpoint any more" in error
    assert str(copy / "runs/job") in error


def test_a_run_that_has_lost_part_of_its_log_is_refused(copy):
    log = copy / "runs/job/metrics.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[1:]))
    assert "metrics.jsonl lacks epochs" in refused(copy)


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/job").write_text("")
    assert "not a run" in refused(tmp_path)


def test_a_run_whose_last_checkpoint_is_damaged_goes_on_from_the_one_before_and_notes_it(copy, whole):
    newest = copy / "runs/job/checkpoint" / f"{EPOCHS:09d}.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    assert carry_out_one(JOB, copy, lambda _: None).error is None
    assert content(copy, [JOB]) == content(whole, [JOB])
    assert "Using the one before it" in (copy / "runs/job.notes.txt").read_text()


def test_missing_data_are_said(tmp_path):
    pytest.importorskip("pyarrow")
    real = small(scenario="lade", problem="tsp", epochs=None, sizes={}, data=str(tmp_path / "no.csv"), region="sh-1")
    outcome = carry_out_one(Job("job", real), tmp_path, lambda _: None)
    assert str(tmp_path / "no.csv") in str(outcome.error)
    assert not (tmp_path / "runs/job").exists()


def test_the_trace_of_a_mistake_is_kept_beside_the_run(tmp_path):
    job = Job("job", small(method=f"{__name__}.Broken", batches=2))
    for _ in range(2):  # and the next try is not refused for it
        outcome = carry_out_one(job, tmp_path, lambda _: None)
        trace = tmp_path / "runs/job.error.txt"
        assert "ZeroDivisionError: so it goes" in str(outcome.error)
        assert str(trace) in str(outcome.error)
        assert "in begin" in trace.read_text()


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "runs").write_text("")  # no folder can be made there
    outcome = carry_out_one(JOB, tmp_path, lambda _: None)
    assert str(tmp_path / "runs") in str(outcome.error)
    assert "Traceback" not in str(outcome.error)
