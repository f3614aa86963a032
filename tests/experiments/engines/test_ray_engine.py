"""The same on a Ray cluster, a real one of two workers; and what is said where there is none."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dree.errors import DreeError
from dree.experiments.engines import ray_engine
from dree.experiments.engines.base import RUNS, Job, News
from dree.experiments.engines.ray_engine import RayEngine
from engine_jobs import EPOCHS, content, small, small_jobs, uninterrupted

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> dict[str, bytes]:
    return uninterrupted(tmp_path_factory.mktemp("whole"), small_jobs())


@pytest.fixture(scope="module")
def _cluster():
    """A cluster as the engine starts one where no address is given: as many workers as cores, here two."""
    with ray_engine._connected(ray, None):
        yield


def workers() -> list[int]:
    """The processes of tasks: Ray names them by what they do."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cmdline").read_bytes().startswith(b"ray::_carry_out"):
                found.append(int(process.name))
        except OSError:  # it has ended
            continue
    return found


@pytest.mark.usefixtures("_cluster")
def test_a_killed_worker_costs_no_more_than_the_time_since_its_checkpoint(tmp_path, whole, monkeypatch):
    """With its results on a store; the next time they are found, without any work."""
    monkeypatch.setattr(ray_engine, "LISTEN", 0.02)  # to be in time
    killed: list[int] = []
    news: list[News] = []

    def tell(each: News) -> None:
        news.append(each)
        if each.epoch >= 2 and not killed:
            killed.extend(workers())
            for process in killed:
                os.kill(process, signal.SIGKILL)

    engine = RayEngine(store=f"file://{tmp_path}/store")
    jobs = [*small_jobs(), Job("wrong", small())]
    (tmp_path / "out" / RUNS / "wrong").mkdir(parents=True)
    outcomes = engine.carry_out(jobs, tmp_path / "out", tell)
    assert killed
    assert [outcome.run for outcome in outcomes] == [tmp_path / "out/runs/first", tmp_path / "out/runs/second", None]
    assert "not a run" in str(outcomes[2].error)
    assert [each.job for each in news if each.error == outcomes[2].error] == ["wrong"]
    assert content(tmp_path / "out", small_jobs()) == whole
    news.clear()
    engine.carry_out(small_jobs(), tmp_path / "out", news.append)
    assert [each.epoch for each in news] == [EPOCHS, EPOCHS]


@pytest.mark.usefixtures("_cluster")
def test_on_a_shared_disk_it_needs_no_store(tmp_path, whole):
    """Nor does a run need a GPU, where the cluster has none."""
    jobs = [Job("second", replace(small_jobs()[1].settings, device="auto"))]
    (outcome,) = RayEngine().carry_out(jobs, tmp_path, lambda _: None)
    assert (outcome.run, outcome.error) == (tmp_path / RUNS / "second", None)
    assert content(tmp_path, jobs).items() <= whole.items()


@pytest.mark.usefixtures("_cluster")
def test_more_gpus_than_the_cluster_has_are_refused(tmp_path):
    with pytest.raises(DreeError, match=r"have 0\.5 GPUs, but the Ray cluster has 0"):
        RayEngine(gpus_per_run=0.5).carry_out([Job("job", small(device="cuda"))], tmp_path, lambda _: None)


@pytest.mark.parametrize("form", ["{}", "ray://{}", "auto"])
def test_an_address_where_nobody_answers_is_refused_soon(tmp_path, monkeypatch, form):
    """Also where a cluster that was killed has left its address behind."""
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address = form.format(f"127.0.0.1:{taken.getsockname()[1]}")
        if form == "auto":
            (tmp_path / "ray").mkdir()
            (tmp_path / "ray/ray_current_cluster").write_text(f"127.0.0.1:{taken.getsockname()[1]}")
        began = time.monotonic()
        with pytest.raises(DreeError, match=r"no Ray cluster at .*127\.0\.0\.1:") as refused:
            RayEngine(address).carry_out(small_jobs(), tmp_path, lambda _: None)
        assert time.monotonic() - began < 10
    assert "ray start --head" in str(refused.value)


def test_what_is_no_address_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(DreeError, match="no Ray cluster at somewhere"):
        RayEngine("somewhere").carry_out(small_jobs(), tmp_path, lambda _: None)


def test_without_ray_it_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DreeError, match=r"pip install 'dree\[ray\]'"):
        RayEngine().carry_out(small_jobs(), tmp_path, lambda _: None)


@pytest.mark.parametrize("gpus", [-1, 1.5, float("nan")])
def test_impossible_parts_of_gpus_are_refused(gpus):
    with pytest.raises(DreeError, match="several whole ones"):
        RayEngine(gpus_per_run=gpus)
