"""Many jobs on a Ray cluster: one task for each, taken up again elsewhere when its node is lost."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from dree.errors import DreeError
from dree.experiments.engines.base import RUNS, Engine, Job, News, Outcome, Tell
from dree.experiments.engines.store import Store
from dree.experiments.engines.work import carry_out_one, check_folder, found, settled

RETRIES = 5  # of a job whose process or node was lost: on a cluster that is nothing unusual
KNOCK = 5.0  # seconds for the cluster to answer at its address; Ray itself would try for minutes
LISTEN = 0.5  # seconds from one look at the news to the next


class RayEngine(Engine):
    """A Ray cluster: at an `address` (`auto`, `host:port`, `ray://host:port`), or one started here for the time.

    A run has `gpus_per_run` GPUs, a part of one too, unless its device is the CPU or the cluster has no GPUs. Runs are
    carried out in `out`, which all nodes must share, or on the nodes' own disks, copied to `store`, an fsspec URL, at
    every checkpoint, and from there to `out`.
    """

    def __init__(self, address: str | None = None, gpus_per_run: float = 1, store: str | None = None) -> None:
        if not 0 <= gpus_per_run < math.inf or (gpus_per_run > 1 and gpus_per_run != int(gpus_per_run)):
            raise DreeError(f"A run can have a part of a GPU or several whole ones, not {gpus_per_run}.")
        self.address, self.gpus_per_run, self.store = address, gpus_per_run, store

    def carry_out(self, jobs: Sequence[Job], out: Path, tell: Tell) -> list[Outcome]:
        """Finish the run of every job; interrupted, all of them can go on later."""
        out = out.resolve()
        outcomes = {job.name: settled(outcome, tell) for job in jobs if (outcome := found(job, out, tell))}
        if len(outcomes) < len(jobs):
            ray = _load_ray()
            with _connected(ray, self.address):
                waiting = [job for job in jobs if job.name not in outcomes]
                for outcome in self._finished(ray, waiting, out, tell):
                    outcomes[outcome.job.name] = settled(outcome, tell)
        return [outcomes[job.name] for job in jobs]

    def _finished(self, ray: Any, jobs: Sequence[Job], out: Path, tell: Tell) -> Iterator[Outcome]:
        """The outcomes of tasks, as they end."""
        tasks_of = {job.name: self._task(ray, job) for job in jobs}
        board = ray.remote(num_cpus=0, max_restarts=-1)(_Board).remote()
        tasks = {tasks_of[job.name].remote(job, out, self.store, board, sys.argv): job for job in jobs}
        try:
            while tasks:
                ended, _ = ray.wait(list(tasks), timeout=LISTEN)
                with suppress(ray.exceptions.RayError):  # the board's node was lost: it begins again elsewhere
                    for news in ray.get(board.take.remote()):
                        tell(news)
                for task in ended:
                    yield self._gathered(_outcome(ray, task, tasks.pop(task)), out)
        finally:
            for task in tasks:
                ray.cancel(task, force=True)

    def _task(self, ray: Any, job: Job) -> Any:
        """What carries out a job, with a core and a GPU for each process of its run; or a part of a GPU, or none.

        What the cluster could never give is refused: Ray would wait for it to grow.
        """
        processes, there = job.settings.processes, ray.cluster_resources().get("GPU", 0)
        gpus = max(self.gpus_per_run, processes) if processes > 1 else self.gpus_per_run
        if job.settings.device == "cpu" or (job.settings.device == "auto" and not there):
            gpus = 0
        if gpus > there:
            raise DreeError(
                f"A run is to have {gpus:g} GPUs, but the Ray cluster has {there:g}. Ask for fewer, or add nodes with "
                "GPUs first."
            )
        return ray.remote(num_cpus=processes, num_gpus=gpus, max_retries=RETRIES)(_carry_out)

    def _gathered(self, outcome: Outcome, out: Path) -> Outcome:
        """An outcome whose run is in `out`."""
        if outcome.run is None:
            return outcome
        job, path = outcome.job, out / RUNS / outcome.job.name
        try:
            if self.store is not None:
                Store(self.store).fetch(path, lambda copy: check_folder(copy, job.settings))
        except (DreeError, OSError) as error:
            return Outcome(job, None, str(error))
        if not path.exists():
            advice = "Choose a folder that all nodes share, or give a store."
            return Outcome(job, None, f"The run ended on another node, but is not in {path}. {advice}")
        return Outcome(job, path)


class _Board:
    """Where tasks put their news; an actor."""

    def __init__(self) -> None:
        self._news: list[News] = []

    def put(self, news: News) -> None:
        """Add some."""
        self._news.append(news)

    def take(self) -> list[News]:
        """All since the last time."""
        news, self._news = self._news, []
        return news


def _carry_out(job: Job, out: Path, store: str | None, board: Any, arguments: list[str]) -> Outcome:
    """Carry out a job on a node, in a folder of the node's own if there is a store."""
    sys.argv = arguments  # a run's manifest has the command that was given, not that of Ray's worker
    torch.set_num_threads(1)
    if store is None:
        return carry_out_one(job, out, board.put.remote)
    digest = hashlib.blake2b(f"{os.getuid()} {store}".encode(), digest_size=8).hexdigest()  # each user has one's own
    own = Path(tempfile.gettempdir()) / f"dree-{digest}"
    try:
        outcome = carry_out_one(job, own, board.put.remote, Store(store))
    except DreeError as error:
        return Outcome(job, None, str(error))
    if outcome.run is not None:
        shutil.rmtree(outcome.run)  # the store has it
    return outcome


def _outcome(ray: Any, task: Any, job: Job) -> Outcome:
    """What came of a task."""
    try:
        outcome: Outcome = ray.get(task)
        return outcome
    except ray.exceptions.RayTaskError as error:
        return Outcome(job, None, f"Ray could not carry it out: {error.cause}")
    except ray.exceptions.RayError as error:
        why = str(error).partition("\n")[0]
        again = "Started again, it goes on from its last checkpoint."
        return Outcome(job, None, f"Its process or node was lost {RETRIES + 1} times ({why}). {again}")


def _load_ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise DreeError("Ray is not installed: pip install 'dree[ray]'. Without it, use the local engine.") from None
    return ray


@contextmanager
def _connected(ray: Any, address: str | None) -> Iterator[None]:
    """A connection to a cluster, the one there is or a new one."""
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anyone unasked
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        options |= {"address": "local", "include_dashboard": False}
    else:
        _knock(_last_known() if address == "auto" else address)
        options["address"] = address
    try:
        ray.init(**options)
    except Exception as error:
        raise _refused(address, str(error).partition("\n")[0]) from None
    try:
        yield
    finally:
        ray.shutdown()


def _last_known() -> str | None:
    """Where Ray will look for a cluster if it is to find one: at an address that may be of one long gone."""
    noted = Path(os.environ.get("RAY_TMPDIR", "/tmp")) / "ray" / "ray_current_cluster"
    return os.environ.get("RAY_ADDRESS") or (noted.read_text().strip() if noted.exists() else None)


def _knock(address: str | None) -> None:
    """Refuse an address at which nobody answers."""
    if not address:
        return  # Ray looks for processes of a cluster on this machine, and says at once if there are none
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=KNOCK).close()
    except (OSError, ValueError) as error:
        raise _unreachable(address, str(error)) from None


def _unreachable(address: str, why: str) -> DreeError:
    return DreeError(
        f"There is no Ray cluster at {address} ({why}). Start one with: ray start --head, or give the address of one: "
        "auto (on one of its machines), HOST:6379, or ray://HOST:10001 from elsewhere."
    )


def _refused(address: str | None, why: str) -> DreeError:
    """Somebody answers, but Ray is not satisfied."""
    if address is None:
        return DreeError(f"Ray could not be started here ({why}).")
    if address == "auto":
        return _unreachable(address, why)
    return DreeError(
        f"What answers at {address} did not let Ray in ({why}). Ray and Python must have the same versions here and "
        "there; a cluster that wants a token wants RAY_AUTH_MODE=token here, and its token."
    )
