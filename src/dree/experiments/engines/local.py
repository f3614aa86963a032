"""Many jobs on this machine: worker processes side by side, each of which takes one job after another.

On a GPU a worker may have several at once, which take turns: GPUs serve processes one after the other, but what one
process has them do side by side.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from dree.errors import DreeError
from dree.experiments.engines.base import RUNS, Engine, Job, News, Outcome, Tell
from dree.experiments.engines.local_worker import work_through
from dree.experiments.engines.work import TRIES, found, settled, trace_of
from dree.experiments.processes import how_it_ended, not_interrupted, visible_devices

GRACE = 5.0  # seconds for a process that was told to end


@dataclass(frozen=True)
class Slot:
    """A place for one worker."""

    devices: tuple[str, ...] = ()  # as CUDA_VISIBLE_DEVICES names them; none: whatever there is
    threads: int | None = None  # for torch; None: its own choice
    runs: int = 1  # that its worker has at once


class LocalEngine(Engine):
    """Worker processes on this machine: one for each GPU or, without GPUs, for each core.

    `workers` is their number where there is no GPU, `devices` the GPUs to use, named as in CUDA_VISIBLE_DEVICES
    (default: all), `share` how many runs a GPU has at once. Where runs have several processes, a worker has as many
    GPUs or cores.
    """

    def __init__(self, workers: int | None = None, devices: Sequence[str] | None = None, share: int = 1) -> None:
        for name, value in {"workers": workers, "share": share}.items():
            if value is not None and value < 1:
                raise DreeError(f"The local engine needs {name} to be at least 1, not {value}.")
        self.workers, self.share = workers, share
        self.devices = visible_devices() if devices is None else list(devices)

    def slots(self, jobs: Sequence[Job]) -> list[Slot]:
        """The places there are; how many threads each has does not depend on how many jobs are left."""
        each = max((job.settings.processes for job in jobs), default=1)
        cores = _cores()
        if not self.devices or all(job.settings.device == "cpu" for job in jobs):
            number = self.workers or max(1, cores // each)
            several = number * each > 1
            return [Slot(threads=max(1, cores // (number * each)) if several else None)] * number
        if each > len(self.devices):
            raise DreeError(f"A run is to have {each} GPUs, but {len(self.devices)} are here.")
        if each > 1 and self.share > 1:
            raise DreeError(f"Runs of {each} GPUs each cannot share these. Leave out share, or have one GPU a run.")
        groups = [tuple(self.devices[at : at + each]) for at in range(0, len(self.devices) - each + 1, each)]
        threads = max(1, cores // (len(groups) * each))
        return [Slot(group, threads, self.share) for group in groups]

    def carry_out(self, jobs: Sequence[Job], out: Path, tell: Tell) -> list[Outcome]:
        """Finish the run of every job in `out/runs/<name>`; interrupted, all of them can go on later."""
        outcomes = {job.name: settled(outcome, tell) for job in jobs if (outcome := found(job, out, tell))}
        waiting, deaths = deque(job for job in jobs if job.name not in outcomes), Counter[str]()
        with ExitStack() as stack:
            workers = [stack.enter_context(_Worker(slot, out)) for slot in self.slots(jobs)[: len(waiting)]]
            while len(outcomes) < len(jobs):
                _deal(waiting, workers, deaths)
                busy = {worker.connection: worker for worker in workers if worker.jobs}
                for ready in wait(list(busy)):
                    worker = busy[ready]  # type: ignore[index]
                    heard = worker.hear()
                    if isinstance(heard, News):
                        tell(heard)
                    elif isinstance(heard, Outcome):
                        outcomes[heard.job.name] = settled(heard, tell)
                    else:
                        for job in reversed(heard):
                            deaths[job.name] += 1
                            if deaths[job.name] < TRIES:
                                waiting.appendleft(job)
                            else:
                                outcomes[job.name] = settled(_died(job, out, worker.exit_code), tell)
        return [outcomes[job.name] for job in jobs]


def _deal(waiting: deque[Job], workers: Sequence[_Worker], deaths: Mapping[str, int]) -> None:
    """Give jobs to workers as long as there is room, to those with few first.

    A job whose worker has died is alone with the next one, so that it takes no other job with it again and again; it
    waits for an empty one.
    """
    for job in list(waiting):
        suspect = deaths[job.name] > 0
        free = [worker for worker in workers if (not worker.jobs if suspect else worker.has_room)]
        if free:
            waiting.remove(job)
            min(free, key=lambda worker: len(worker.jobs)).take(job, alone=suspect)


def _died(job: Job, out: Path, code: int | None) -> Outcome:
    """Of a job that took its process with it again and again."""
    trace = trace_of(out / RUNS / job.name)
    more = f"The trace is in {trace}. " if trace.exists() else ""
    again = "Started again, it goes on from its last checkpoint."
    return Outcome(job, None, f"Its process died {TRIES} times; the last one {how_it_ended(code)}. {more}{again}")


def _cores() -> int:
    """The cores that this process may use, where the system says."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Worker:
    """A process that works through jobs; it starts when it is needed, again if it has died."""

    def __init__(self, slot: Slot, out: Path) -> None:
        """No process yet."""
        self.slot, self.out = slot, out
        self.jobs: dict[str, Job] = {}  # that it has, by name
        self.exit_code: int | None = None  # of the process that ended last
        self._alone = False  # whether the job that it has is to be its only one
        self._process: BaseProcess | None = None
        self.connection: Connection

    def __enter__(self) -> _Worker:
        """This worker, to be stopped at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the process: one that waits ends by itself, one that works is told to; its runs can go on later."""
        if self._process is not None and self.jobs:
            self._process.terminate()
        self._end()

    @property
    def has_room(self) -> bool:
        """For one more job."""
        return not self.jobs or (len(self.jobs) < self.slot.runs and not self._alone)

    def take(self, job: Job, *, alone: bool) -> None:
        """Have a job carried out."""
        if not self.jobs and (self._process is None or not self._process.is_alive()):
            self._end()
            self._start()
        self.jobs[job.name], self._alone = job, alone
        with suppress(OSError):  # it has died: that is heard next, with all the jobs that it had
            self.connection.send((job, self.out))

    def hear(self) -> News | Outcome | list[Job]:
        """What there is to say of a job, which it has no more after its end; or the jobs that died with the process."""
        try:
            heard: News | Outcome = self.connection.recv()
        except (EOFError, OSError):
            self._end()
            lost, self.jobs = list(self.jobs.values()), {}
            return lost
        if isinstance(heard, Outcome):
            del self.jobs[heard.job.name]
        return heard

    def _start(self) -> None:
        context, slot = get_context("spawn"), self.slot
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=work_through, args=(theirs, slot.devices, slot.threads, slot.runs))
        with not_interrupted():
            self._process.start()
        theirs.close()

    def _end(self) -> None:
        """Wait for the process to end, and see that it does."""
        process, self._process = self._process, None
        if process is None:
            return
        self.connection.close()
        process.join(GRACE)
        if process.exitcode is None:
            process.kill()
            process.join()
        self.exit_code = process.exitcode
