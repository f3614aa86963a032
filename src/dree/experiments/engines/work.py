"""One job, carried out in its folder: its run is begun, goes on, or is found finished.

Whatever goes wrong with it becomes a sentence in its outcome, so that other jobs are not kept by it.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch

from dree.errors import DreeError
from dree.experiments.companions import CompanionError
from dree.experiments.configuration import RunSettings
from dree.experiments.engines.base import RUNS, Job, News, Outcome, Tell
from dree.experiments.engines.store import Store
from dree.experiments.folder import RunFolder
from dree.experiments.material import changed_since
from dree.experiments.naming import ELSEWHERE, NO_MATTER
from dree.experiments.run import Run, Tested
from dree.files import BusyError, write_text
from dree.lifelong.checkpoint import checkpoints, is_complete
from dree.settings import differences

TRIES = 3  # how often a job is taken up when its processes die, the first time included
PATIENCE = 10.0  # seconds for a process that is about to end to let go of a run's folder
REMEDY = "Move it away or delete it, then start again; nothing in it was touched."
GOES_ON = "Put that right and start again: the run goes on from its last checkpoint."


def found(job: Job, out: Path, tell: Tell) -> Outcome | None:
    """What is there of a job without any work: its finished run, or a folder in the way; None: it is to be done.

    Like every outcome, one that is a failure is to be told by the engine, when it is `settled`.
    """
    path = out / RUNS / job.name
    try:
        if not path.exists() or not is_finished(folder := check_folder(path, job.settings)):
            return None
        epochs, matrix, _ = folder.gaps()
    except (DreeError, OSError) as error:
        return Outcome(job, None, str(error))
    except Exception as error:  # whatever a damaged file can lead to must not keep other jobs
        return Outcome(job, None, f"{path} cannot be read ({type(error).__name__}: {error}). {REMEDY}")
    tell(News(job.name, epochs[-1], epochs[-1], float(matrix[-1].mean())))
    return Outcome(job, path)


def settled(outcome: Outcome, tell: Tell) -> Outcome:
    """An outcome, once it is told if it is a failure."""
    if outcome.error is not None:
        tell(News(outcome.job.name, 0, 0, None, outcome.error))
    return outcome


def carry_out_one(job: Job, out: Path, tell: Tell, store: Store | None = None) -> Outcome:
    """Finish the run of a job, and say what became of it; an error is never raised.

    With a store, the run comes from there if that has it further, and is copied there after every checkpoint. The
    trace of an unexpected error is in `<name>.error.txt` beside the run, and what a run has to say, such as that a
    checkpoint was damaged, in `<name>.notes.txt`.
    """
    path = out / RUNS / job.name
    try:
        if store is not None:
            _once_free(lambda: store.fetch(path, lambda copy: check_folder(copy, job.settings)))
        outcome = found(job, out, tell)
        if outcome is None:
            _finish_after_all(job, path, tell, store)
        elif outcome.run is None:
            return outcome
        if store is not None:
            store.push(RunFolder(path))
    except DreeError as error:
        return Outcome(job, None, str(error))
    except torch.OutOfMemoryError:
        advice = "Let fewer runs share a GPU. The run goes on from its last checkpoint."
        return Outcome(job, None, f"The GPU's memory is full, so {path} could not go on. {advice}")
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return Outcome(job, None, f"The run in {path} stopped: {error.strerror or error}{where}. {GOES_ON}")
    except Exception as error:
        said = f"The run in {path} stopped unexpectedly, by {type(error).__name__}: {error}."
        return Outcome(job, None, f"{said} {kept_trace(trace_of(path))}")
    return Outcome(job, path)


def _finish_after_all(job: Job, path: Path, tell: Tell, store: Store | None) -> None:
    """Do what is left of a run, again if one of its processes dies on the way."""
    for _ in range(TRIES - 1):
        with suppress(CompanionError):
            return _finish(job, path, tell, store)
    return _finish(job, path, tell, store)


def _finish(job: Job, path: Path, tell: Tell, store: Store | None) -> None:
    """Do what is left of a run."""
    notes = _notes_of(path)
    run = Run.resume(path, notes) if path.exists() else Run.start(path, job.settings, notes)
    epochs, stored = run.stream.epochs, run.saved
    gap = float(np.mean(run.matrix[-1])) if run.matrix else None

    def watch(tested: Tested) -> None:
        nonlocal gap, stored
        if tested.gaps is not None:
            gap = float(np.mean(list(tested.gaps.values())))
        tell(News(job.name, tested.epoch, epochs, gap))
        if store is not None and run.saved > stored:
            try:
                store.push(run.folder)
                stored = run.saved
            except DreeError as error:  # the next checkpoint may have more luck; the last one must
                notes(str(error))

    tell(News(job.name, run.epoch, epochs, gap))
    _once_free(lambda: run.finish(watch))
    trace_of(path).unlink(missing_ok=True)  # of an earlier try


def check_folder(path: Path, settings: RunSettings) -> RunFolder:
    """The folder of a run, if it is one with these settings and its log has every epoch of its checkpoint."""
    try:
        folder = RunFolder.open(path)
        found = folder.settings()
    except DreeError as error:
        raise DreeError(f"{error} {REMEDY}") from None
    ours, theirs = settings.spelled_out(), found.spelled_out()
    other = differences(theirs, ours) | differences(ours, theirs)
    names = sorted(name for name in other if name not in NO_MATTER | ELSEWHERE)
    if names:
        raise DreeError(f"{path} holds a run with other settings ({', '.join(names)}). {REMEDY}")
    stale = changed_since(folder, settings)
    if stale:
        raise DreeError(f"{path} holds a run with {stale} that have changed since. {REMEDY}")
    newest = checkpoints(folder.checkpoints)
    reached = int(newest[0].stem) if newest else 0
    logged = [row["epoch"] for row in folder.log("metrics.jsonl") if row["epoch"] <= reached]
    if logged != list(range(1, reached + 1)):
        raise DreeError(f"{path} is damaged: its metrics.jsonl lacks epochs before its checkpoint. {REMEDY}")
    return folder


def is_finished(folder: RunFolder) -> bool:
    """Whether a run's last epoch is in a checkpoint and in its gap matrix; the checkpoint, which may be large, is not
    loaded for it.
    """
    epochs = folder.stream().epochs
    newest = checkpoints(folder.checkpoints)[:1]
    tested, *_ = folder.gaps()
    return tested[-1:] == [epochs] and any(int(path.stem) == epochs and is_complete(path) for path in newest)


def _once_free(work: Callable[[], None]) -> None:
    """Do some work on a folder; where a process of an earlier try is about to end, as soon as that has let go."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return work()
        except BusyError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.1)


def _notes_of(path: Path) -> Callable[[str], None]:
    """What a run has to say is written to a file beside its folder."""

    def say(words: str) -> None:
        with suppress(OSError), path.with_name(f"{path.name}.notes.txt").open("a", encoding="utf-8") as file:
            file.write(words + "\n")

    return say


def trace_of(path: Path) -> Path:
    """Beside the folder: inside, it would make a run of one that could not even begin."""
    return path.with_name(f"{path.name}.error.txt")


def kept_trace(file: Path) -> str:
    """Keep the trace of the current exception in a file, and say where."""
    try:
        return f"The trace is in {write_text(file, traceback.format_exc())}."
    except DreeError as error:
        return f"The trace could not be kept: {error}"
