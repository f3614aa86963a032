"""Work to be carried out, here or elsewhere: runs with the names of their folders, and what comes of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dree.experiments.configuration import RunSettings

RUNS = "runs"  # the folder, beside tables and figures, that holds a folder for each job


@dataclass(frozen=True)
class Job:
    """A run that is wanted."""

    name: str  # of its folder
    settings: RunSettings


@dataclass(frozen=True)
class News:
    """How far a job is."""

    job: str
    epoch: int
    epochs: int
    gap: float | None  # the mean over its test tasks when it was last tested
    error: str | None = None  # why it has failed, if it has


@dataclass(frozen=True)
class Outcome:
    """A job's end: its run, finished, or why there is none."""

    job: Job
    run: Path | None
    error: str | None = None


Tell = Callable[[News], object]


class Engine(ABC):
    """Something that carries jobs out."""

    @abstractmethod
    def carry_out(self, jobs: Sequence[Job], out: Path, tell: Tell) -> list[Outcome]:
        """Finish the run of every job in `out/runs/<name>`, and say what became of each, in the order of the jobs.

        Runs that are finished are left alone, interrupted ones go on, and a job that fails does not keep others.
        """
