"""Many runs under way, for a person at a terminal: a table that follows them; into a file or pipe, a line at times."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dree.experiments.configuration import PAPER_EPOCHS
from dree.experiments.engines.base import Job, News, Tell
from dree.report.tables import NOTHING, write_seconds

WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"
STYLES = {WAITING: "dim", RUNNING: "", DONE: "green", FAILED: "red"}
LINE_EVERY = 60.0  # seconds, where there is no screen to draw on
FRAME = 8  # lines of the screen that are not rows of the table
Clock = Callable[[], float]


@dataclass
class Progress:
    """How far one job is, as its news tell."""

    name: str
    epochs: int | None  # None: not known before it starts
    epoch: int = 0
    gap: float | None = None
    error: str | None = None
    began: float | None = None  # when its first news came, and what epoch it was at then
    began_at: int = 0
    heard: float = 0.0  # when its last news came

    @property
    def state(self) -> str:
        """Waiting, running, done or failed."""
        if self.error is not None:
            return FAILED
        if self.began is None:
            return WAITING
        return DONE if self.epoch == self.epochs else RUNNING

    @property
    def pace(self) -> float | None:
        """Seconds an epoch; None where none was seen to pass."""
        passed = self.epoch - self.began_at
        return (self.heard - self.began) / passed if self.began is not None and passed > 0 else None

    def hear(self, news: News, now: float) -> None:
        """Take over what there is to say."""
        if self.began is None or news.epoch < self.epoch:  # the first, or it goes on from an earlier checkpoint
            self.began, self.began_at = now, news.epoch
        self.error = news.error
        if news.error is None:
            self.epoch, self.epochs, self.gap, self.heard = news.epoch, news.epochs, news.gap, now

    def left(self, pace: float | None, now: float) -> float | None:
        """Seconds until it ends, at its own pace or else at this one."""
        own = self.pace if self.pace is not None else pace
        if own is None or self.epochs is None:
            return None
        since = now - self.heard if self.state == RUNNING else 0.0
        return max(0.0, own * (self.epochs - self.epoch) - since)


class Plan:
    """How far all jobs are."""

    def __init__(self, jobs: Sequence[Job], clock: Clock = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._jobs = {job.name: Progress(job.name, _length(job)) for job in jobs}

    def hear(self, news: News) -> Progress:
        """Take over what there is to say of a job."""
        with self._lock:
            progress = self._jobs.setdefault(news.job, Progress(news.job, None))
            progress.hear(news, self._clock())
            return progress

    def table(self, height: int) -> Group:
        """What a screen of this many lines shows: what runs or has failed, what ended last, what comes next."""
        with self._lock:
            shown, hidden = self._chosen(max(4, height - FRAME))
            table = Table(header_style="bold", expand=False)
            table.add_column("run", no_wrap=True, overflow="ellipsis", ratio=1)
            table.add_column("state", no_wrap=True)
            for name in ("epoch", "gap %", "left"):
                table.add_column(name, justify="right", no_wrap=True)
            pace, now = self._pace(), self._clock()
            for job in shown:
                left = job.left(pace, now) if job.state in (WAITING, RUNNING) else None
                gap = NOTHING if job.gap is None else f"{job.gap:z.2f}"
                cells = (job.state, _epoch(job), gap, write_seconds(left))
                table.add_row(Text(job.name), *cells, style=STYLES[job.state])
            more = [Text(f"and {hidden} more", style="dim")] if hidden else []
            return Group(table, *more, Text(self._summary()))

    def summary(self) -> str:
        """All in a line: `3 of 12 done, 2 running, 7 waiting, about 1 h 05 min left`."""
        with self._lock:
            return self._summary()

    def running(self) -> list[Progress]:
        """The jobs that are under way."""
        with self._lock:
            return self._in(RUNNING)

    def _summary(self) -> str:
        parts = [f"{len(self._in(DONE))} of {len(self._jobs)} done"]
        parts += [f"{len(same)} {state}" for state in (RUNNING, WAITING, FAILED) if (same := self._in(state))]
        left = self._left()
        return ", ".join([*parts, *([f"about {write_seconds(left)} left"] if left else [])])

    def _in(self, state: str) -> list[Progress]:
        return [job for job in self._jobs.values() if job.state == state]

    def _pace(self) -> float | None:
        """Of all jobs, where one has none of its own."""
        known = [job.pace for job in self._jobs.values() if job.pace is not None]
        return sum(known) / len(known) if known else None

    def _left(self) -> float | None:
        """Seconds for the plan, if as many go on side by side as now; never less than for the slowest of them."""
        pace, now, running = self._pace(), self._clock(), self._in(RUNNING)
        each = [job.left(pace, now) for job in (*running, *self._in(WAITING))]
        known = [seconds for seconds in each if seconds is not None]
        if not known:
            return None
        usual = sum(known) / len(known)  # also of those whose length is not known yet
        total = sum(usual if seconds is None else seconds for seconds in each)
        return max([total / max(1, len(running)), *(seconds or 0.0 for seconds in each[: len(running)])])

    def _chosen(self, room: int) -> tuple[list[Progress], int]:
        """The jobs that fit, in this order, and how many do not."""
        ended = sorted(self._in(DONE), key=lambda job: job.heard)
        first = [*self._in(FAILED), *self._in(RUNNING)][:room]
        waiting = self._in(WAITING)[: max(0, room - len(first))]
        if len(ended) and len(waiting) > 2:  # room for both
            waiting = waiting[: max(2, len(waiting) - len(ended))]
        last = ended[-max(0, room - len(first) - len(waiting)) :] if room > len(first) + len(waiting) else []
        shown = [*last, *first, *waiting]
        return shown, len(self._jobs) - len(shown)


@contextmanager
def live_view(jobs: Sequence[Job], console: Console, clock: Clock = time.monotonic) -> Iterator[Tell]:
    """Something to tell news to, for as long as jobs are carried out."""
    plan = Plan(jobs, clock)
    if not console.is_terminal or console.is_dumb_terminal:
        yield _Lines(plan, console, clock)
        console.print(plan.summary(), highlight=False, markup=False)
        return
    with Live(get_renderable=lambda: plan.table(console.height), console=console, refresh_per_second=2) as live:

        def tell(news: News) -> None:
            plan.hear(news)
            if news.error is not None:
                live.console.print(f"{news.job} has failed: {news.error}", style="red", highlight=False, markup=False)

        yield tell


class _Lines:
    """Plain lines: when a job starts, ends or fails, and how far all are, not more often than once a minute."""

    def __init__(self, plan: Plan, console: Console, clock: Clock) -> None:
        self._plan, self._console, self._clock = plan, console, clock
        self._states: dict[str, str] = {}
        self._last = clock()
        self._lock = threading.Lock()

    def __call__(self, news: News) -> None:
        """Hear news, and print what is worth a line."""
        with self._lock:
            progress = self._plan.hear(news)
            before, state = self._states.get(news.job, WAITING), progress.state
            self._states[news.job] = state
            if state == FAILED and before != FAILED:
                self._say(f"failed   {news.job}: {news.error}")
            elif state == RUNNING and before != RUNNING:
                self._say(f"started  {news.job} at epoch {progress.epoch} of {progress.epochs}")
            elif state == DONE and before == RUNNING:  # not what was found finished
                gap = "" if progress.gap is None else f", gap {progress.gap:z.2f} %"
                self._say(f"done     {news.job}{gap}; {self._plan.summary()}")
            elif self._clock() - self._last >= LINE_EVERY:
                far = ", ".join(f"{job.name} {_epoch(job)}" for job in self._plan.running()[:3])
                self._say(f"{self._plan.summary()}; {far}")

    def _say(self, words: str) -> None:
        self._last = self._clock()
        self._console.print(words, highlight=False, markup=False, soft_wrap=True)


def tell_all(*tells: Tell) -> Tell:
    """One to tell news to, who tells all of these."""

    def tell(news: News) -> None:
        for each in tells:
            each(news)

    return tell


def _epoch(job: Progress) -> str:
    return f"{job.epoch} of {job.epochs}" if job.epochs is not None else NOTHING


def _length(job: Job) -> int | None:
    """How many epochs a job has; real days tell only once they are read."""
    return job.settings.epochs or PAPER_EPOCHS.get(job.settings.scenario)
