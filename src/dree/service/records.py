"""What a state directory says about itself, as plain values: settings, versions, days, and the files they rest on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dree.problems.geography import Places
from dree.solvers import Solver, make_solver

Record = TypeVar("Record")


class File(NamedTuple):
    """A file of the state directory, as it must be."""

    name: str
    sha256: str
    bytes: int


class Gaps(NamedTuple):
    """Mean gaps to reference tours in per cent, of the version that was in use and of the new one."""

    before: float
    after: float


@dataclass(frozen=True)
class Settings:
    """What the first day fixes for all that follow."""

    problem: str  # tsp or cvrp
    geographic: bool  # longitude and latitude, or x and y
    columns: Mapping[str, str] = field(default_factory=dict)  # the map of columns that was given, if any
    depot: tuple[float, float] | None = None  # longitude and latitude, or x and y
    capacity: Decimal | None = None  # in the customer's unit
    base: str = "pomo"  # the solver's network
    network: Mapping[str, Any] = field(default_factory=dict)  # its settings
    start: str = ""  # what the solver was before it learned here
    method: str = "dree"
    options: Mapping[str, Any] = field(default_factory=dict)  # the method's
    learner: Mapping[str, Any] = field(default_factory=dict)  # how it learns, whatever the method
    batch_size: int = 32
    seed: int = 0

    def make_solver(self) -> Solver:
        """A solver of this network; its weights are still to be loaded."""
        return make_solver(self.problem, self.base, self.network, self.seed)

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"capacity": None if self.capacity is None else str(self.capacity)}

    @staticmethod
    def of(values: Mapping[str, Any]) -> Settings:
        """From JSON."""
        depot, capacity = values["depot"], values["capacity"]
        changed = {"depot": depot and (depot[0], depot[1]), "capacity": capacity and Decimal(capacity)}
        return _made(Settings, values, **changed)


@dataclass(frozen=True)
class Version:
    """A solver: that of the start, which is number 0, or as it was after a day."""

    number: int
    when: str  # in UTC
    promoted: bool  # whether it became the one in use
    solver: File | None  # None: no longer kept
    day: str | None = None  # that was learned
    stops: int = 0  # of that day
    batches: int = 0  # that were learned of it
    seconds: float = 0.0
    today: Gaps | None = None  # on a sample of that day
    past: Gaps | None = None  # on samples of earlier days, where there are any
    reason: str = ""  # why it was promoted, or not
    parent: int | None = None  # the version that it was learned from; None: it is the start

    @staticmethod
    def of(values: Mapping[str, Any]) -> Version:
        """From JSON; the first states did not name parents."""
        gaps = {name: values[name] and Gaps(*values[name]) for name in ("today", "past")}
        named = {"parent": None, **values}
        return _made(Version, named, solver=values["solver"] and File(*values["solver"]), **gaps)


@dataclass(frozen=True)
class Rollback:
    """That an earlier version was put to use again."""

    when: str
    left: int  # the version in use before
    to: int


@dataclass(frozen=True)
class Day:
    """A day that was seen."""

    name: str
    key: str  # of its content
    stops: int
    when: str  # it was learned, in UTC
    version: int | None  # that came of it; None: it had too few stops to learn from
    extent: float  # the longer side of the square around it: kilometres, or in the unit of x and y
    centre: tuple[float, float]  # the mean of its stops: longitude and latitude, or x and y
    demand: float | None  # all of it, in the customer's unit
    sample: tuple[tuple[float, float], ...]  # some of its stops, or all: longitude and latitude, or x and y

    @property
    def places(self) -> Places:
        """The sample as an array [M, 2]."""
        return np.array(self.sample, dtype=np.float64).reshape(-1, 2)

    @staticmethod
    def of(values: Mapping[str, Any]) -> Day:
        """From JSON."""
        sample = tuple((x, y) for x, y in values["sample"])
        return _made(Day, values, centre=(values["centre"][0], values["centre"][1]), sample=sample)


@dataclass(frozen=True)
class Past:
    """A day in the reservoir: its instances and reference costs in a file, and how well it has been solved since."""

    day: str
    version: int  # that came of it
    file: File
    gaps: tuple[tuple[int, float], ...]  # (version in use, mean gap in per cent), the newest last

    @property
    def first(self) -> float:
        """The gap when it had just been learned."""
        return self.gaps[0][1]

    @staticmethod
    def of(values: Mapping[str, Any], versions: Mapping[str, int | None]) -> Past:
        """From JSON; in the first states the version is that of the only day of this name."""
        version = values["version"] if "version" in values else versions[values["day"]]
        gaps = tuple((number, gap) for number, gap in values["gaps"])
        if not gaps:
            raise ValueError(f"of the past day {values['day']} no gap is known")
        return _made(Past, {**values, "version": version}, file=File(*values["file"]), gaps=gaps)


@dataclass(frozen=True)
class LearnerAt:
    """Where the learner is: the version whose weights it has, and the file of all else it needs to go on."""

    version: int
    file: File | None  # None: an optimiser and a method that remember nothing

    @staticmethod
    def of(values: Mapping[str, Any]) -> LearnerAt:
        """From JSON."""
        return LearnerAt(values["version"], values["file"] and File(*values["file"]))


def as_said(place: tuple[float, float], geographic: bool) -> tuple[float, float]:
    """A place as a person gives it: latitude before longitude, or x and y."""
    return (place[1], place[0]) if geographic else place


def said(place: tuple[float, float], geographic: bool) -> str:
    """The same as it is written after `--depot=`."""
    return ",".join(map(str, as_said(place, geographic)))


def name_order(name: str) -> tuple[list[tuple[str, int]], str]:
    """By this names of days are sorted: numbers in them count as numbers, so that day2 comes before day10."""
    return [(text, int(number or -1)) for text, number in re.findall("([^0-9]*)([0-9]*)", name)], name


def _made(kind: type[Record], values: Mapping[str, Any], **changed: Any) -> Record:
    """A record of all its fields; one that is missing is a KeyError."""
    return kind(**{each.name: changed.get(each.name, values[each.name]) for each in fields(kind)})  # type: ignore[arg-type]
