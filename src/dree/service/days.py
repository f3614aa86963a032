"""Which days of some files are to be learned: everything is read and checked before anything is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np

from dree.bars import Say
from dree.data.orders import NO_COLUMNS, read_orders
from dree.errors import DreeError
from dree.service.records import Day, Settings
from dree.tasks.orders import LEAST_STOPS, Orders

LEAST_PLACES = 4  # different ones; with fewer, every tour is the best
LISTED = 4  # days that are skipped one by one in words
TAKEN = 100  # stops of a day that are kept to compare it with others


@dataclass(frozen=True)
class Given:
    """What a person says about files of orders; a state directory that is there already knows it."""

    columns: Mapping[str, str] | None = None
    depot: tuple[float, float] | None = None  # latitude and longitude, or x and y
    capacity: Decimal | None = None


def read_days(files: Sequence[Path], given: Given, settings: Settings | None, say: Say) -> tuple[Orders, ...]:
    """All days of the files by date, which are all of one kind, and of the state's where there is one."""
    if settings is not None:
        given = _as_in_state(given, settings)
    days: list[Orders] = []
    for path in files:
        file = read_orders(path, given.columns or NO_COLUMNS, depot=given.depot, capacity=given.capacity)
        for note in file.notes:
            say(f"{path}: {note}")
        if file.bad:
            say(f"{path}: rows that are left out: {len(file.bad)}. See why with: {file.command}")
        days += file.days_to_route()
    days.sort(key=lambda day: day.day)
    fixed = settings or settings_of(days[0], given)
    for day in days:
        _check_kind(day, fixed)
    return tuple(days)


def settings_of(day: Orders, given: Given) -> Settings:
    """What a first day fixes, as far as it is the day that does."""
    capacity = None if day.capacity is None else Decimal(day.capacity) / day.units
    return Settings(day.problem, day.geographic, dict(given.columns or {}), day.depot, capacity)


def new_days(days: Sequence[Orders], seen: Sequence[Day], say: Say) -> tuple[Orders, ...]:
    """Those that were never seen; others are skipped aloud, and a learned day that comes with other stops is refused.

    A day that had too little to learn from may come again with more.
    """
    by_key = {day.key: (day.name, _told(day)) for day in seen}
    known = {day.name: (day.key, _told(day)) for day in seen if day.version is not None}
    newest = max((day.name for day in seen if day.version is not None), default="")
    fresh, skipped = [], []
    for day in days:
        if day.day in known and known[day.day][0] != day.key:
            raise DreeError(
                f"{day.day} {known[day.day][1]}, with other stops, so nothing was learned now. Leave that day out. If "
                "a day's orders are in several files, join them first; if they are another region's, learn them in a "
                "folder of their own; if files have no dates, give each day's file a name of its own; if dates come "
                "again every year, write them with the year."
            )
        if day.key in by_key:
            name, told = by_key[day.key]
            again = f"{day.day} {told}" if name == day.day else f"{day.day} has the very stops of {name}, which {told}"
            skipped.append(f"{again}. Skipped.")
            continue
        if day.day < newest:
            say(f"{day.day} is older than {newest}, the newest day that was learned. It is learned all the same.")
        known[day.day] = (day.key, "is there twice in these files")
        by_key[day.key] = (day.day, "is in these files too")
        fresh.append(day)
    if len(skipped) > LISTED:
        skipped = [*skipped[:1], f"{len(skipped) - 2} more days were skipped too.", *skipped[-1:]]
    for words in skipped:
        say(words)
    return tuple(fresh)


def unlearnable(day: Orders) -> str | None:
    """Why nothing can be learned from a day, if so."""
    if len(day.places) < LEAST_STOPS:
        return f"has {len(day.places)} of the {LEAST_STOPS} stops that learning needs"
    if len(np.unique(day.nodes, axis=0)) < LEAST_PLACES:
        return f"has stops at fewer than {LEAST_PLACES} places, so there is nothing to learn"
    return None


def with_day(days: Sequence[Day], day: Day) -> tuple[Day, ...]:
    """The days that were seen and one more, in place of what was seen of it before."""
    return (*(each for each in days if each.name != day.name), day)


def record_of(day: Orders, when: str, version: int | None) -> Day:
    """What is kept of a day for good."""
    order = np.random.default_rng(int(day.key[:16], 16)).permutation(len(day.places))[:TAKEN]
    x, y = day.places.mean(0).tolist()
    demand = None if day.demands is None else float(day.demands.sum()) / day.units
    sample = tuple((float(east), float(north)) for east, north in day.places[np.sort(order)])
    return Day(day.day, day.key, len(day.places), when, version, day.frame().extent, (x, y), demand, sample)


def _told(day: Day) -> str:
    if day.version is None:
        return "was seen before, with too little to learn from"
    return f"was learned before as version {day.version}"


def given_of(settings: Settings) -> Given:
    """What a state has fixed, as a person would say it."""
    depot = settings.depot
    if depot is not None and settings.geographic:
        depot = (depot[1], depot[0])
    return Given(dict(settings.columns), depot, settings.capacity)


def _as_in_state(given: Given, settings: Settings) -> Given:
    """What a state has fixed; something else is refused."""
    known = given_of(settings)
    for name, said, fixed in (
        ("--map", given.columns, known.columns),
        ("--depot", given.depot, known.depot),
        ("--capacity", given.capacity, known.capacity),
    ):
        if said is not None and said != fixed:
            was = f"it has {_words(fixed)}" if fixed else "it has none"
            raise DreeError(
                f"{name} says {_words(said)}, but the first day that this state learned fixed it: {was}. "
                "Leave it out, or learn in another folder."
            )
    return known


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}={name}" for key, name in value.items())
    if isinstance(value, tuple):
        return ",".join(f"{each:.12g}" for each in value)
    return "none" if value is None else str(value)


def _check_kind(day: Orders, settings: Settings) -> None:
    """Refuse a day that is not of the kind that the first one fixed."""
    ours = settings_of(day, Given())
    kinds = {True: "longitude and latitude", False: "x and y"}
    for what, found, fixed in (
        ("coordinates", kinds[ours.geographic], kinds[settings.geographic]),
        ("problem", ours.problem, settings.problem),
        ("depot", ours.depot, settings.depot),
        ("capacity", ours.capacity, settings.capacity),
    ):
        if found != fixed:
            raise DreeError(
                f"{day.day}: its {what} is {_words(found)}, but the first day had {_words(fixed)}, and all days of a "
                "state are alike. Nothing was learned. Learn such days in another folder."
            )
