"""Runs and pretrainings so small that they take a moment: their settings, and a run that is stopped again and again."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from dree.experiments import Run, RunSettings

SMALL = {
    "batches": 2,
    "batch_size": 4,
    "test_instances": 3,
    "checkpoint_seconds": 0,
    "solver.width": 16,
    "solver.layers": 1,
}


PRETRAINING = {
    "iterations": 12,
    "batch_size": 4,
    "smallest": 6,
    "largest": 10,
    "size_step": 2,
    "curriculum": 10,
    "decay_at": 10,
    "refresh_every": 3,
    "pool": 4,
    "probe": 2,
    "test_instances": 3,
    "checkpoint_seconds": 0,
    "solver.width": 16,
    "solver.layers": 1,
    "solver.feed_forward": 16,
}


def as_options(settings: dict[str, object]) -> list[str]:
    """The words that give `dree` these settings."""
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def interrupted_once(monkeypatch: pytest.MonkeyPatch, owner: object, what: str, after: int) -> None:
    """Somebody presses Ctrl-C when something is called once more after so many times; later it works again."""
    real, calls = getattr(owner, what), count()

    def stopped_once(*given: object) -> object:
        if next(calls) == after:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(owner, what, stopped_once)


def finish_in_pieces(path: Path, settings: RunSettings, epochs: int) -> None:
    """Make a run of so many epochs that is stopped after each of them and goes on from its checkpoint."""
    run = Run.start(path, settings)
    run.test()
    run.checkpoint()
    for _ in range(epochs):
        run = Run.resume(path)
        run.folder.go_back_to(run.epoch)
        run.learn_epoch()
