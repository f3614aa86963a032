"""Which days of some files are to be learned, and which are refused: all are read before anything is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dree.bars import Say
from dree.data.orders import NO_COLUMNS, read_orders
from dree.errors import DreeError
from dree.service.demands import had_demands, says_demands, without_demands
from dree.service.records import Day, Settings
from dree.service.region import check_region
from dree.service.state import State
from dree.tasks.orders import LEAST_STOPS, Orders

LEAST_PLACES = 4  # different ones; with fewer, every tour is the best
LISTED = 4  # days that are named one by one in words
TAKEN = 100  # stops of a day that are kept to compare it with others
CORRECTED = (
    "If it was corrected, undo it and all that was learned after it, then learn these days again: dree history "
    "STATE_DIR --rollback N, with the version before it."
)
OTHERWISE = (  # what to do where a day comes with other stops
    "If a day's orders are in several files, join them; if they are another region's, learn them in a folder of their "
    "own; if files have no dates, give each day's file a name of its own; if dates come again every year, write them "
    "with the year."
)


@dataclass(frozen=True)
class Given:
    """What a person says about files of orders; a state directory that is there already knows it."""

    columns: Mapping[str, str] | None = None
    depot: tuple[float, float] | None = None  # latitude and longitude, or x and y
    capacity: Decimal | None = None


class Found(NamedTuple):
    """A day, and the file that it is in."""

    path: Path
    orders: Orders
    demands: bool = True  # whether the file says them, or says that there are none


@dataclass(frozen=True)
class Read:
    """What some files hold: days by date, all of one kind, and why others are refused, a sentence for each."""

    days: tuple[Found, ...]
    refused: tuple[str, ...]


@dataclass(frozen=True)
class Chosen:
    """The days that are to be learned, what there is to say of others, and why some are refused."""

    days: tuple[Orders, ...]
    notes: tuple[str, ...]
    refused: tuple[str, ...]


class UnlearnableError(DreeError):
    """A day that has too little to learn from."""


class RefusedError(DreeError):
    """Files or days that were not learned, each with the reason; all others were."""

    def __init__(self, reasons: Sequence[str], others: bool) -> None:
        """Say whether there were others that were learned."""
        super().__init__("\n".join(["Refused, while all else was learned:", *reasons] if others else reasons))


def read_days(files: Sequence[Path], given: Given, state: State | None, say: Say) -> Read:
    """All days of the files that fit the state. Without one they must fit each other, else nobody knows which is right.

    A file or a day that cannot be used is refused by itself.
    """
    if state is not None:
        given = _as_in_state(given, state.settings)
    found: list[Found] = []
    refused: list[str] = []
    for path in files:
        try:
            found += _read(path, given, say)
        except DreeError as error:
            refused.append(_named(path, error))
    found.sort(key=lambda each: each.orders.day)
    if state is None:
        for each in found:
            _check_kind(each.orders, settings_of(found[0].orders, given))
        return Read(tuple(found), tuple(refused))
    fitting = []
    for each in found:
        try:
            _check_kind(each.orders, state.settings)
            check_region(each.orders, state)
            fitting.append(each)
        except DreeError as error:
            refused.append(_named(each.path, error))
    return Read(tuple(fitting), tuple(refused))


def _read(path: Path, given: Given, say: Say) -> list[Found]:
    """The days of a file; what a person should know of it is said."""
    columns = given.columns or NO_COLUMNS
    file = read_orders(path, columns, depot=given.depot, capacity=given.capacity)
    days = file.days_to_route()
    for note in file.notes:
        say(f"{path}: {note}")
    if file.bad:
        say(f"{path}: rows that are left out: {len(file.bad)}. See why with: {file.command}")
    said = given.capacity is None or says_demands(file, columns)
    return [Found(path, day, said) for day in days]


def _named(path: Path, error: DreeError) -> str:
    """What is wrong with a file, which is named."""
    return str(error) if str(path) in str(error) else f"{path}: {error}"


def settings_of(day: Orders, given: Given) -> Settings:
    """What a first day fixes, as far as it is the day that does."""
    capacity = None if day.capacity is None else Decimal(day.capacity) / day.units
    return Settings(day.problem, day.geographic, dict(given.columns or {}), day.depot, capacity)


def new_days(read: Read, seen: Sequence[Day]) -> Chosen:
    """Those that were never seen; others are skipped, and a day that comes with other stops than before is refused.

    Where it comes so in two files, and was never learned, neither is: nobody knows which is right. A day that had too
    little to learn from may come again with more.
    """
    told = {day.key: (day.name, _told(day)) for day in seen}
    learned = {day.name: day for day in seen if day.version is not None}
    newest = max(learned, default="")
    unseen = {(each.orders.day, each.orders.key) for each in read.days if each.orders.key not in told}
    keys = Counter(name for name, _ in unseen)
    demanded = had_demands(seen) if seen else any(each.demands for each in read.days)
    fresh, notes, skipped, refused = [], [], [], list(read.refused)
    for path, day, demands in read.days:
        if day.day in learned and learned[day.day].key != day.key:
            known = _told(learned[day.day])
            refused.append(f"{path}: {day.day} {known}, with other stops. {CORRECTED} {OTHERWISE}")
        elif day.key in told:
            name, how = told[day.key]
            again = f"{day.day} {how}" if name == day.day else f"{day.day} has the very stops of {name}, which {how}"
            skipped.append(f"{again}. Skipped.")
        elif keys[day.day] > 1:
            twice = f"{day.day} is there twice in these files, with other stops"
            refused.append(f"{path}: {twice}. If one of them is wrong, leave it out. {OTHERWISE}")
        elif demanded and not demands:
            refused.append(f"{without_demands(path)} ({day.day})")
        else:
            if day.day < newest:
                older = f"{day.day} is older than {newest}, the newest day that was learned"
                notes.append(f"{older}. It is learned all the same.")
            told[day.key] = (day.day, "is in these files too")
            fresh.append(day)
    if len(skipped) > LISTED:
        skipped = [*skipped[:1], f"{len(skipped) - 2} more days were skipped too.", *skipped[-1:]]
    return Chosen(tuple(fresh), (*notes, *skipped), tuple(refused))


def unlearnable(day: Orders) -> str | None:
    """Why nothing can be learned from a day, if so."""
    if len(day.places) < LEAST_STOPS:
        return f"has {len(day.places)} of the {LEAST_STOPS} stops that learning needs"
    if len(np.unique(day.nodes, axis=0)) < LEAST_PLACES:
        return f"has stops at fewer than {LEAST_PLACES} places, so there is nothing to learn"
    return None


def check_learnable(day: Orders) -> None:
    """Refuse a day from which nothing can be learned."""
    reason = unlearnable(day)
    if reason:
        raise UnlearnableError(f"{day.day} {reason}.")


def with_day(days: Sequence[Day], day: Day) -> tuple[Day, ...]:
    """The days that came and one more, in place of what had too little to learn from."""
    return (*(each for each in days if each.name != day.name or each.version is not None), day)


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
    """What a state has fixed; something else is refused, but what is said of columns holds for these files."""
    known = given_of(settings)
    for name, said, fixed in (
        ("--depot", given.depot, known.depot),
        ("--capacity", given.capacity, known.capacity),
    ):
        if said is not None and said != fixed:
            was = f"it has {_words(fixed)}" if fixed else "it has none"
            raise DreeError(
                f"{name} says {_words(said)}, but the first day that this state learned fixed it: {was}. "
                "Leave it out, or learn in another folder."
            )
    return replace(known, columns={**settings.columns, **(given.columns or {})})


def _words(value: object) -> str:
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
                f"{day.day}: as {what} it has {_words(found)}, but the first day had {_words(fixed)}, and all days of "
                "a state are alike. Learn such days in another folder."
            )
