"""Streams of real days: one task for each day of a delivery region, its instances resampled from the day's packages.

Shapes: B instances, M packages of a day, n nodes of an instance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from functools import cached_property
from math import floor
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dree.errors import DreeError, unknown
from dree.problems import Instances
from dree.tasks.dice import Dice
from dree.tasks.mixture import Task
from dree.tasks.shapes import min_max
from dree.tasks.streams import Stream

LEAST_PACKAGES = 10  # a day with fewer is not used
LEAST_DAYS = 3  # so that two are left to learn and one for Gen
LEARN_PERCENT = 95
TEST_EVERY = 30  # days from one process test to the next
SMALLEST, LARGEST = 10, 100  # nodes of an instance
RATIOS = {"sh": 0.3, "hz": 0.2, "jl": 0.6, "yt": 0.9, "cq": 0.7}  # the paper's share of a day's nodes, by city


def resampled_size(packages: int, ratio: float) -> int:
    """The nodes of an instance: this share of a day's packages, rounded down exactly, within 10 and 100."""
    return min(max(floor(Fraction(str(ratio)) * packages), SMALLEST), LARGEST)


@dataclass(frozen=True)
class CountedDay:
    """How many packages a region had on one day: what a run records of it."""

    date: date
    packages: int

    @property
    def valid(self) -> bool:
        """Whether there were enough of them to make instances."""
        return self.packages >= LEAST_PACKAGES

    @property
    def label(self) -> str:
        """Month and day, such as `06-02`."""
        return f"{self.date:%m-%d}"


@dataclass(frozen=True, eq=False)
class Day(CountedDay):
    """The packages that a region had on one day."""

    packages: int = field(init=False)
    coords: NDArray[np.float64]  # [M, 2] longitude and latitude, or any other x and y

    def __post_init__(self) -> None:
        """Count them."""
        object.__setattr__(self, "packages", len(self.coords))

    def __eq__(self, other: object) -> bool:
        """Whether another day has the same packages in the same order."""
        return isinstance(other, Day) and self.date == other.date and np.array_equal(self.coords, other.coords)

    def __hash__(self) -> int:
        """A number that equal days have in common."""
        return hash((self.date, self.packages))


@dataclass(frozen=True)
class Source:
    """The files that deliveries come from."""

    files: tuple[str, ...]  # their names
    key: str  # the hash of their names and contents


@dataclass(frozen=True, eq=False)
class DayTask(Task):
    """TSPs over a random part of a day's packages, none of them twice, which keep the places they have in the day."""

    problem: str = field(default="tsp", init=False)
    region: str
    day: CountedDay
    ratio: float

    def __post_init__(self) -> None:
        """Refuse what no instance can be drawn from."""
        check_ratio(self.ratio)
        if not self.day.valid:
            raise DreeError(
                f"{self.region} had {self.day.packages} packages on {self.day.label}; a task needs {LEAST_PACKAGES}."
            )
        if isinstance(self.day, Day) and not np.isfinite(self.day.coords).all():
            raise DreeError(f"{self.region} has coordinates on {self.day.label} that are not finite. Remove them.")

    @property
    def name(self) -> str:
        """Region, day and size, such as `sh-1-06-02-n10`."""
        return f"{self.region}-{self.day.label}-n{self.size}"

    @property
    def size(self) -> int:
        """The nodes of each instance, the same for all of the day."""
        return resampled_size(self.day.packages, self.ratio)

    @cached_property
    def places(self) -> Tensor:
        """All packages of the day, either axis stretched to [0, 1]: [M, 2] float32."""
        if not isinstance(self.day, Day):
            raise DreeError(f"Of {self.region} on {self.day.label} only the number of packages is recorded here.")
        return min_max(torch.tensor(self.day.coords, dtype=torch.float64)[None])[0].float()

    def sample(self, batch: int, generator: torch.Generator) -> Instances:
        """The first n of the day's packages in an order that is drawn for each instance."""
        chosen_Bn = Dice(batch, generator).parts(self.day.packages, self.size)
        return Instances(self.places.to(generator.device)[chosen_Bn])


@dataclass(frozen=True)
class LadeStream(Stream):
    """The valid days of a region in order: the first 95 % are learned, one an epoch, the others are for Gen.

    Epoch 0, before anything is learned, has the task of the first day. Methods must keep what they need of earlier
    days, as an operator's would: those cannot be sampled again.
    """

    can_sample_past: ClassVar[bool] = False
    earliest: ClassVar[int] = 1

    problem: str = field(default="tsp", init=False)
    epochs: int = field(init=False)
    region: str  # such as `sh-2`
    days: tuple[CountedDay, ...]  # all of them, whether valid or not, in any order
    ratio: float
    source: Source | None = None

    def __post_init__(self) -> None:
        """Refuse what makes no stream."""
        check_ratio(self.ratio)
        object.__setattr__(self, "days", tuple(sorted(self.days, key=lambda day: day.date)))
        if len({day.label for day in self.days}) < len(self.days):
            raise DreeError(f"{self.region} has a day twice. Join what belongs to one day.")
        if len(self.valid) < LEAST_DAYS:
            raise DreeError(
                f"{self.region} has {len(self.valid)} valid days, with at least {LEAST_PACKAGES} packages each; a "
                f"stream needs {LEAST_DAYS}. Choose another region."
            )
        object.__setattr__(self, "epochs", learned_days(len(self.valid)))

    @cached_property
    def valid(self) -> tuple[CountedDay, ...]:
        """The days with enough packages."""
        return tuple(day for day in self.days if day.valid)

    def task(self, t: int) -> DayTask:
        """The t-th day that is learned."""
        self.check_epoch(t)
        return self._task(self.valid[max(t, 1) - 1])

    def tests(self) -> dict[str, DayTask]:
        """The process tests by their days: the first day and every 30th after it, as long as they are learned."""
        return {day.label: self._task(day) for day in self.valid[: self.epochs : TEST_EVERY]}

    def held_out(self) -> dict[str, DayTask]:
        """The tasks for Gen by their days, those after all that are learned."""
        return {day.label: self._task(day) for day in self.valid[self.epochs :]}

    def active(self, name: str) -> list[tuple[int, int]]:
        """The one epoch in which the day of a process test is learned; none for a day that is held out."""
        if name in self.held_out():
            return []
        if name not in self.tests():
            raise unknown("test day of this stream", name, [*self.tests(), *self.held_out()])
        epoch = 1 + [day.label for day in self.valid].index(name)
        return [(epoch, epoch)]

    def record(self) -> dict[str, Any]:
        """What is worth keeping of the stream where the packages are not, as plain values."""
        return {
            "files": list(self.source.files) if self.source else [],
            "key": self.source.key if self.source else "",
            "region": self.region,
            "ratio": self.ratio,
            "days": {day.date.isoformat(): day.packages for day in self.valid},
        }

    @staticmethod
    def recorded(record: Mapping[str, Any]) -> LadeStream:
        """The stream of a `record`: its tasks have names and sizes, but no instances."""
        days = tuple(CountedDay(date.fromisoformat(day), packages) for day, packages in record["days"].items())
        return LadeStream(record["region"], days, record["ratio"], Source(tuple(record["files"]), record["key"]))

    def _task(self, day: CountedDay) -> DayTask:
        return DayTask(self.region, day, self.ratio)


def learned_days(valid_days: int) -> int:
    """How many of a stream's valid days are learned, the first 95 %; the others are for Gen."""
    return valid_days * LEARN_PERCENT // 100


def check_ratio(ratio: float) -> None:
    """Refuse what is no share of a day's packages."""
    if not 0 < ratio <= 1:
        raise DreeError(f"The share of a day's packages must be above 0 and at most 1, not {ratio}.")
