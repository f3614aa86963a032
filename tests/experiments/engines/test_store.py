"""Runs' folders elsewhere: what is fetched is a run as of a checkpoint, whatever was cut short."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dree.errors import DreeError
from dree.experiments import Run
from dree.experiments.engines.base import Job
from dree.experiments.engines.store import Store
from dree.experiments.engines.work import carry_out_one, check_folder
from engine_jobs import EPOCHS, content, small, uninterrupted

pytest.importorskip("fsspec")
JOB = Job("job", small(method="dree"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> dict[str, bytes]:
    return uninterrupted(tmp_path_factory.mktemp("whole"), [JOB])


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(f"file://{tmp_path}/store")


def learn(out: Path, epochs: int, store: Store) -> Run:
    """A run that is abandoned after so many epochs, copied after each."""
    run = Run.start(out / "runs/job", JOB.settings)
    run.test()
    run.checkpoint()
    for _ in range(epochs):
        run.learn_epoch()
        store.push(run.folder)
    return run


def fine(copy: Path) -> object:
    return check_folder(copy, JOB.settings)


def test_another_machine_goes_on_where_the_first_was_lost(tmp_path, store, whole):
    learn(tmp_path / "one", 4, store)
    news = []
    assert carry_out_one(JOB, tmp_path / "two", news.append, store).error is None
    assert news[0].epoch == 4
    assert content(tmp_path / "two", [JOB]) == whole
    store.fetch(tmp_path / "three/runs/job", fine)
    assert content(tmp_path / "three", [JOB]) == whole
    assert sorted(path.name for path in (tmp_path / "store/job/checkpoint").iterdir()) == [
        f"{number:09d}.safetensors" for number in (EPOCHS - 1, EPOCHS)
    ]
    assert not list(tmp_path.rglob("*.part"))


def test_a_machine_that_is_behind_takes_what_the_store_has(tmp_path, store, whole):
    learn(tmp_path / "one", 2, store)
    assert carry_out_one(JOB, tmp_path / "two", lambda _: None, store).error is None
    news = []
    assert carry_out_one(JOB, tmp_path / "one", news.append, store).error is None
    assert [each.epoch for each in news] == [EPOCHS]
    assert content(tmp_path / "one", [JOB]) == whole
    assert [path.name for path in (tmp_path / "one/runs").iterdir()] == ["job"]


@pytest.mark.parametrize("files", range(7))
def test_a_copy_cut_short_anywhere_is_no_harm(tmp_path, store, whole, monkeypatch, files):
    """The machine is lost while the so-many-th file of a checkpoint is copied: half of it is there."""
    run = learn(tmp_path / "one", 3, store)
    put, copied = store._files.put_file, []

    def lost(path: str, target: str) -> None:
        if len(copied) == files:
            Path(target).write_bytes(Path(path).read_bytes()[:50])
            raise KeyboardInterrupt
        copied.append(target)
        put(path, target)

    run.learn_epoch()
    run.learn_epoch()
    monkeypatch.setattr(store._files, "put_file", lost)
    try:
        store.push(run.folder)
    except KeyboardInterrupt:
        assert files < 6
    monkeypatch.undo()
    store.fetch(tmp_path / "two/runs/job", fine)
    assert carry_out_one(JOB, tmp_path / "two", lambda _: None).error is None
    assert content(tmp_path / "two", [JOB]) == whole


def test_another_run_under_the_same_name_is_refused(tmp_path, store):
    learn(tmp_path / "one", 1, store)
    outcome = carry_out_one(Job("job", small(seed=5)), tmp_path / "two", lambda _: None, store)
    assert f"{store.url}/job holds a run with other settings" in str(outcome.error)
    assert not (tmp_path / "two/runs/job").exists()
    shutil.rmtree(tmp_path / "store")
    outcome = carry_out_one(Job("job", small(seed=5)), tmp_path / "one", lambda _: None, store)
    assert f"{tmp_path}/one/runs/job holds a run with other settings" in str(outcome.error)


def test_a_run_goes_on_while_its_store_is_out_of_reach_but_must_reach_it_at_its_end(tmp_path, store, whole):
    (tmp_path / "store").write_text("in the way")
    outcome = carry_out_one(JOB, tmp_path / "one", lambda _: None, store)
    assert "cannot be used" in str(outcome.error)
    assert content(tmp_path / "one", [JOB]) == whole
    assert "cannot be used" in (tmp_path / "one/runs/job.notes.txt").read_text()


@pytest.mark.parametrize("url", ["nonsense://x", "s4://bucket/x"])
def test_what_is_no_store_is_refused(url):
    with pytest.raises(DreeError, match="cannot be used"):
        Store(url)
