"""A run's folder after something went wrong in it."""

from __future__ import annotations

import errno
import os

import pytest

from dree import override
from dree.errors import DreeError
from dree.experiments import DEMO, Run, RunFolder
from dree.experiments import folder as folder_module
from dree.experiments.circumstances import circumstances
from dree.experiments.engines.work import check_folder
from dree.experiments.folder import TakenError
from dree.lifelong.checkpoint import checkpoints
from small_runs import SMALL


def test_a_damaged_checkpoint_is_set_aside_when_its_run_goes_on(tmp_path):
    """So it is neither taken for the newest one after another interruption, nor kept in place of a good one."""
    settings = override(DEMO, {**SMALL, "epochs": 5})
    run = Run.start(tmp_path / "run", settings)
    run.test()
    while run.epoch < 4:
        run.learn_epoch()
    newest, before = checkpoints(run.folder.checkpoints)
    newest.write_bytes(b"damaged")
    said: list[str] = []
    again = Run.resume(run.folder.path, said.append)
    assert again.epoch == 3
    assert any("Using the one before it" in words for words in said)
    again.folder.go_back_to(again.epoch)  # and there it is killed
    assert check_folder(run.folder.path, settings).log("metrics.jsonl")[-1]["epoch"] == 3
    assert checkpoints(run.folder.checkpoints) == [before]
    assert newest.with_name(f"{newest.name}.unusable").read_bytes() == b"damaged"
    Run.resume(run.folder.path).finish()
    assert [int(path.stem) for path in checkpoints(run.folder.checkpoints)] == [5, 4]


@pytest.mark.parametrize("line", ["{bad", "[1]", "{}", "", "\udcff"])
def test_a_damaged_log_is_reported_with_the_number_of_its_line(tmp_path, line):
    folder = RunFolder.create(tmp_path / "run", DEMO, {})
    for epoch in (1, 2):
        folder.append("metrics.jsonl", {"epoch": epoch})
    with (folder.path / "metrics.jsonl").open("a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"{line}\n")
    with pytest.raises(
        DreeError, match=r"metrics\.jsonl is damaged: line 3 is not what a run writes\. Remove that line\."
    ):
        folder.log("metrics.jsonl")


def test_of_two_runs_begun_in_one_place_at_once_the_later_is_told_that_it_is_taken(tmp_path, monkeypatch):
    taken = tmp_path / "run"

    def meanwhile(settings):
        """The other one, between a look at the place and the writing."""
        monkeypatch.setattr(folder_module, "circumstances", circumstances)
        RunFolder.create(taken, settings, {})
        return circumstances(settings)

    monkeypatch.setattr(folder_module, "circumstances", meanwhile)
    with pytest.raises(TakenError, match=rf"^{taken} exists already\. It has no checkpoint yet"):
        RunFolder.create(taken, DEMO, {})
    assert list(tmp_path.iterdir()) == [taken]


def test_a_drive_without_locks_is_not_called_busy(tmp_path, monkeypatch):
    run = Run.start(tmp_path / "run", override(DEMO, SMALL))

    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(DreeError, match="cannot be locked: No locks available"):
        run.finish()
