"""Many jobs on this machine: worker processes side by side, each of which takes one job after another."""

from __future__ import annotations

import os
import signal
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from dree.errors import DreeError
from dree.experiments.engines.base import Engine, Job, News, Outcome, Tell
from dree.experiments.engines.local_worker import work_through
from dree.experiments.engines.work import found

TRIES = 3  # how often a job whose process died is taken up again, the first time included
GRACE = 5.0  # seconds for a process that was told to end


@dataclass(frozen=True)
class Slot:
    """A place for one worker."""

    devices: tuple[str, ...] = ()  # as CUDA_VISIBLE_DEVICES names them; none: whatever there is
    threads: int | None = None  # for torch; None: its own choice


class LocalEngine(Engine):
    """Worker processes on this machine: `share` for each GPU or, without GPUs, one for each core.

    `workers` is their number where there is no GPU, `devices` the GPUs to use, named as in CUDA_VISIBLE_DEVICES
    (default: all), `gpus` how many of them each run has.
    """

    def __init__(
        self, workers: int | None = None, devices: Sequence[str] | None = None, share: int = 1, gpus: int = 1
    ) -> None:
        for name, value in {"workers": workers, "share": share, "gpus": gpus}.items():
            if value is not None and value < 1:
                raise DreeError(f"The local engine needs {name} to be at least 1, not {value}.")
        self.workers, self.share, self.gpus = workers, share, gpus
        self.devices = visible_devices() if devices is None else list(devices)

    def slots(self, jobs: Sequence[Job]) -> list[Slot]:
        """The places there are; how many threads each has does not depend on how many jobs are left."""
        cores = _cores()
        if not self.devices or all(job.settings.device == "cpu" for job in jobs):
            number = self.workers or cores
            return [Slot(threads=max(1, cores // number) if number > 1 else None)] * number
        if self.gpus > len(self.devices):
            raise DreeError(f"{self.gpus} GPUs are wanted for each run, but {len(self.devices)} are here.")
        groups = [
            tuple(self.devices[first : first + self.gpus])
            for first in range(0, len(self.devices) - self.gpus + 1, self.gpus)
        ]
        threads = max(1, cores // (len(groups) * self.share))
        return [Slot(group, threads) for _ in range(self.share) for group in groups]

    def carry_out(self, jobs: Sequence[Job], out: Path, tell: Tell) -> list[Outcome]:
        """Finish the run of every job in `out/runs/<name>`; interrupted, all of them can go on later."""
        outcomes = {job.name: outcome for job in jobs if (outcome := found(job, out, tell))}
        waiting, deaths = deque(job for job in jobs if job.name not in outcomes), Counter[str]()
        with ExitStack() as stack:
            workers = [stack.enter_context(_Worker(slot, out)) for slot in self.slots(jobs)[: len(waiting)]]
            while len(outcomes) < len(jobs):
                for worker in workers:
                    if worker.job is None and waiting:
                        worker.take(waiting.popleft())
                busy = {worker.connection: worker for worker in workers if worker.job is not None}
                for ready in wait(list(busy)):
                    worker = busy[ready]  # type: ignore[index]
                    job, heard = worker.hear()
                    if isinstance(heard, News):
                        tell(heard)
                    elif isinstance(heard, Outcome):
                        outcomes[job.name] = heard
                    else:
                        deaths[job.name] += 1
                        if deaths[job.name] < TRIES:
                            waiting.appendleft(job)
                        else:
                            outcomes[job.name] = Outcome(job, None, _obituary(worker.exit_code))
        return [outcomes[job.name] for job in jobs]


def visible_devices() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",")[:count] if named else [str(number) for number in range(count)]


def _cores() -> int:
    """The cores that this process may use, where the system says."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Worker:
    """A process that works through jobs; it starts when it is needed, again if it has died."""

    def __init__(self, slot: Slot, out: Path) -> None:
        """No process yet."""
        self.slot, self.out = slot, out
        self.job: Job | None = None
        self.exit_code: int | None = None  # of the process that ended last
        self._process: BaseProcess | None = None
        self.connection: Connection

    def __enter__(self) -> _Worker:
        """This worker, to be stopped at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the process: one that waits ends by itself, one that works is told to; its run can go on later."""
        if self._process is not None and self.job is not None:
            self._process.terminate()
        self._end()

    def take(self, job: Job) -> None:
        """Have a job carried out."""
        if self._process is None or not self._process.is_alive():
            self._end()
            self._start()
        self.job = job
        self.connection.send((job, self.out))

    def hear(self) -> tuple[Job, News | Outcome | None]:
        """The job and what there is to say of it; None: its process has died. After its end there is no job."""
        job = self.job
        assert job is not None
        try:
            heard: News | Outcome | None = self.connection.recv()
        except (EOFError, OSError):
            heard = None
            self._end()
        if not isinstance(heard, News):
            self.job = None
        return job, heard

    def _start(self) -> None:
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=work_through, args=(theirs, self.slot.devices, self.slot.threads))
        with _not_interrupted():
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


@contextmanager
def _not_interrupted() -> Iterator[None]:
    """Processes started here never hear of Ctrl-C, which a terminal sends to all: their parent stops them."""
    resource_tracker.ensure_running()  # it would lift the block again when the first process starts it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _obituary(code: int | None) -> str:
    """Why there is no run, of a job that took its process with it."""
    how = f"ended with exit code {code}"
    if code is not None and code < 0:
        how = f"was killed by {signal.Signals(-code).name}"
        if -code == signal.SIGKILL:
            how += ", as the system does when memory runs out"
    return f"Its process died {TRIES} times; the last one {how}. Started again, it goes on from its last checkpoint."
