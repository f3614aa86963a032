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
from dree.data.orders import NO_COLUMNS, OrderFile, read_orders
from dree.errors import DreeError
from dree.service.demands import had_demands, says_demands, without_demands
from dree.service.records import Day, LearnerAt, Settings, Version, as_said, name_order, said
from dree.service.region import check_fits, depot_named
from dree.service.state import State
from dree.tasks.orders import LEAST_STOPS, Orders

LEAST_PLACES = 4  # different ones; with fewer, every tour is the best
LISTED = 4  # days that are named one by one in words
UNCLEAR = (
    "Half of these days or more do not fit the first of them, and nobody knows which are right. So nothing was "
    "learned: leave out those that are wrong or, if it is the depot that is not the same, say with --depot where it is."
)
TAKEN = 100  # stops of a day that are kept to compare it with others
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
    demands: bool  # whether the file says them, or says that there are none


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


def read_days(folder: Path, files: Sequence[Path], given: Given, state: State | None, say: Say) -> Read:
    """All days of the files that fit the state or, where the folder has none yet, the first of these days.

    A file or a day that cannot be used is refused by itself. But where half of them or more do not fit the first,
    nothing is used, for nobody knows which are right.
    """
    known = given if state is None else _as_in_state(given, state)
    as_said = replace(known, depot=given.depot, capacity=None)  # so that a file's own depot is seen
    own: list[OrderFile] = []
    refused: list[str] = []
    for path in files:
        try:
            with depot_named(state):
                own.append(_orders(path, as_said))
        except DreeError as error:
            refused.append(_named(path, error))
    like = _begun(folder, own, given, say) if state is None else state
    if like is not None:
        known = replace(known, depot=given_of(like.settings).depot)
    found: list[Found] = []
    unfit: list[str] = []
    for file in own:
        wrong = {} if like is None else _unfit(file, like)
        unfit += wrong.values()
        try:
            if len(wrong) < len(file.days):
                days = _read(file if known == as_said else _orders(file.path, known), known, say)
                found += [each for each in days if each.orders.day not in wrong]
        except DreeError as error:
            refused.append(_named(file.path, error))
    if state is None and unfit and 2 * len(unfit) >= sum(len(file.days) for file in own):
        return Read((), (*refused, *unfit, UNCLEAR))
    found.sort(key=lambda each: name_order(each.orders.day))
    return Read(tuple(found), (*refused, *unfit))


def _orders(path: Path, given: Given) -> OrderFile:
    """A file that has days to learn, read as is said."""
    file = read_orders(path, given.columns or NO_COLUMNS, depot=given.depot, capacity=given.capacity)
    file.days_to_route()
    return file


def _begun(folder: Path, files: Sequence[OrderFile], given: Given, say: Say) -> State | None:
    """What a new state is once it has seen its first day; None where no day says where vehicles would start."""
    days = [(file, day) for file in files for day in file.days if day.depot or given.capacity is None]
    if not days:
        return None
    file, first = min(days, key=lambda each: name_order(each[1].day))
    if first.depot and not given.depot:
        place = said(first.depot, first.geographic)
        say(f"{file.path}: all days of {folder} start at {place} ({file.depot}). For another place give --depot.")
    start, seen = Version(0, "", promoted=True, solver=None), record_of(first, "", None)
    return State(folder, settings_of(first, given), (start,), 0, LearnerAt(0, None), (seen,))


def _unfit(file: OrderFile, state: State) -> dict[str, str]:
    """The days of a file, as it has them itself, that do not fit a state, each with the reason."""
    found = {}
    for day in file.days:
        try:
            check_fits(day, state, file.guessed)
            if day.depot and not state.settings.depot:
                raise DreeError(
                    f"{day.day} has a depot, at {said(day.depot, day.geographic)}, but the first day of {state.path} "
                    "had none, and all its days are alike. Take it out of the file, or learn in another folder."
                )
        except DreeError as error:
            found[day.day] = _named(file.path, error)
    return found


def _read(file: OrderFile, given: Given, say: Say) -> list[Found]:
    """The days of a file; what a person should know of it is said."""
    for note in file.notes:
        say(f"{file.path}: {note}")
    if file.bad:
        say(f"{file.path}: rows that are left out: {len(file.bad)}. See why with: {file.command}")
    demands = given.capacity is None or says_demands(file, given.columns or NO_COLUMNS)
    return [Found(file.path, day, demands) for day in file.days]


def _named(path: Path, error: DreeError) -> str:
    """What is wrong with a file, which is named."""
    return str(error) if str(path) in str(error) else f"{path}: {error}"


def settings_of(day: Orders, given: Given) -> Settings:
    """What a first day fixes, as far as it is the day that does."""
    capacity = None if day.capacity is None else Decimal(day.capacity) / day.units
    return Settings(day.problem, day.geographic, dict(given.columns or {}), day.depot, capacity)


def new_days(read: Read, state: State | None) -> Chosen:
    """Those that were never seen; others are skipped, and a day that comes with other stops than before is refused.

    Where it comes so in two files, and was never learned, neither is: nobody knows which is right. A day that had too
    little to learn from may come again with more.
    """
    seen = () if state is None else state.seen
    told = {day.key: (day.name, _told(day)) for day in seen}
    learned = {day.name: day for day in seen if day.version is not None}
    newest = max(learned, key=name_order, default="")
    unseen = {(each.orders.day, each.orders.key) for each in read.days if each.orders.key not in told}
    keys = Counter(name for name, _ in unseen)
    demanded = had_demands(seen) if seen else any(each.demands for each in read.days)
    fresh, notes, skipped, refused = [], [], [], list(read.refused)
    for path, day, demands in read.days:
        before = learned.get(day.day)
        if state is not None and before is not None and before.key != day.key:
            correct = _correcting(state, before)
            refused.append(f"{path}: {day.day} {_told(before)}, with other stops. {correct} {OTHERWISE}")
        elif day.key in told:
            name, how = told[day.key]
            again = f"{day.day} {how}" if name == day.day else f"{day.day} has the very stops of {name}, which {how}"
            skipped.append(f"{again}. Skipped.")
        elif keys[day.day] > 1:
            twice = f"{day.day} is there twice in these files, with other stops"
            refused.append(f"{path}: {twice}. If one of them is wrong, leave it out. {OTHERWISE}")
        elif demanded and not demands:
            refused.append(without_demands(f"{path} ({day.day})"))
        else:
            if newest and name_order(day.day) < name_order(newest):
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


def _correcting(state: State, day: Day) -> str:
    """What to do where a day was learned with wrong stops."""
    before = None if day.version is None else state.versions[day.version].parent
    if before is None or state.versions[before].solver is None:
        return "It cannot be undone any more. If it was corrected, learn all days again in another folder."
    return (
        "If it was corrected, undo it and all that was learned after it, then learn these days again "
        f"({state.going_back(before)})."
    )


def given_of(settings: Settings) -> Given:
    """What a state has fixed, as a person would say it."""
    depot = None if settings.depot is None else as_said(settings.depot, settings.geographic)
    return Given(dict(settings.columns), depot, settings.capacity)


def _as_in_state(given: Given, state: State) -> Given:
    """What a state has fixed; something else is refused, but what is said of columns holds for these files."""
    known = given_of(state.settings)
    first = f"the first day that came to this state{f', {state.days[0].name},' if state.days else ''}"
    nothing = (
        ""
        if len(state.versions) > 1
        else f" As nothing was learned yet, you may also remove {state.path} and begin again."
    )
    for name, value, fixed in (
        ("--depot", given.depot, known.depot),
        ("--capacity", given.capacity, known.capacity),
    ):
        if value is not None and value != fixed:
            was = f"it has {_words(fixed)}" if fixed else "it has none"
            raise DreeError(
                f"{name} says {_words(value)}, but {first} fixed it: {was}. Leave it out, or learn in another folder."
                f"{nothing}"
            )
    return replace(known, columns={**state.settings.columns, **(given.columns or {})})


def _words(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(f"{each:.12g}" for each in value)
    return "none" if value is None else str(value)
