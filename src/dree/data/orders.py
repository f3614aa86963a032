"""A customer's file of orders: its days, every row that cannot be used with the reason, and how the file was read."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import numpy as np

from dree.data.orders_depot import HOW, Depots, Marked, Place, at_depot, check_distance, find_depots, marked_rows
from dree.data.orders_numbers import MARKS
from dree.data.orders_options import capacity_option, check_capacity, decimals
from dree.data.orders_rows import Rows
from dree.data.orders_table import BadRow, Table, read_table
from dree.errors import DreeError
from dree.problems.geography import Places
from dree.tasks.orders import Orders

NO_COLUMNS: Mapping[str, str] = {}
NAMED = 5  # orders at the depot, columns of numbers
UNKNOWN = Depots(None, {}, frozenset(), "not known")

__all__ = ["BadRow", "OrderFile", "WholeFileError", "read_orders"]


@dataclass(frozen=True, eq=False)
class OrderFile:
    """What a file of orders holds, and how it was read."""

    path: Path
    days: tuple[Orders, ...]  # sorted by date
    rows: int  # below the headings that have the cells for a stop, clean or not
    bad: tuple[BadRow, ...]  # sorted by line
    encoding: str
    delimiter: str
    decimal: str  # the decimal mark; empty where it is not clear
    columns: Mapping[str, str]  # meaning -> name of the column, such as date -> ds
    depot: str  # how it was found, in words
    guessed: bool  # whether it is that of the first row, which does not say that it is one
    notes: tuple[str, ...]  # sentences that a person should read: what was assumed, what is not used
    command: str  # that shows all this, and every bad row

    @property
    def headings_alone(self) -> bool:
        """Whether there is nothing below the headings."""
        return not (self.rows or self.bad)

    def days_to_route(self) -> tuple[Orders, ...]:
        """The days; an error where there are none."""
        if not self.days:
            alone = "It has headings and no rows: add one for each order."
            why = alone if self.headings_alone else f"See why with: {self.command}"
            raise DreeError(f"{self.path} has no stop that can be routed. {why}")
        return self.days


class WholeFileError(DreeError):
    """What is wrong with a file as a whole; `read` is what was understood of it and of its rows, all but its days."""

    def __init__(self, words: str, read: OrderFile) -> None:
        """Keep what was read beside the words."""
        super().__init__(words)
        self.read = read


def read_orders(
    path: Path,
    columns: Mapping[str, str] = NO_COLUMNS,
    *,
    depot: tuple[float, float] | None = None,
    capacity: Decimal | None = None,
) -> OrderFile:
    """The orders in a CSV file; `columns` and `depot`, latitude before longitude, are as a person gives them."""
    if capacity is not None:
        check_capacity(capacity)
    table = read_table(path, columns)
    command = _command(path, columns, depot, capacity)
    try:
        rows = Rows.of(table)
    except DreeError as error:
        raise WholeFileError(str(error), _read(table, None, UNKNOWN, (), command)) from None
    faults: list[str] = []
    with _noted(faults):
        rows.judge_places()
    days, depots, demands = _judged(rows, columns, depot, capacity, faults)
    stops = [index for index in range(len(days)) if index not in depots.rows]
    centre, there = None, []
    if not faults:
        rows.judge_repeated(days, stops)
        centre = rows.judge_far(stops)
        there = [] if capacity is None else at_depot(rows, depots, days, stops)
    by_day = _by_day(days, sorted({*stops} & {*rows.clean()} - {*there}))
    notes = (*_notes(table, rows, capacity, columns), *_handed_over(table, there))
    read = _read(table, rows, depots, notes, command)
    found: list[Orders] = []
    if not faults:
        with _noted(faults):
            check_distance(rows, depots, centre)
            found = [_day(rows, day, part, depots, demands, capacity) for day, part in sorted(by_day.items())]
    if faults:
        raise WholeFileError(" ".join(faults), read)
    waiting = {day: tuple(map(table.name, part)) for day, part in _by_day(days, there).items()}
    return replace(read, days=tuple(replace(day, at_depot=waiting.get(day.day, ())) for day in found))


def _judged(
    rows: Rows, columns: Mapping[str, str], given: Place | None, capacity: Decimal | None, faults: list[str]
) -> tuple[list[str], Depots, list[Decimal] | None]:
    """The days of rows, the depots and the demands, with reasons against stops; what is wrong with all is noted."""
    days = [""] * len(rows.reasons)
    demands, known = None, False
    with _noted(faults):
        days, known = rows.days(columns.get("dates")), True
    marked = Marked((), ()) if columns.get("depot") == "" else marked_rows(rows, days)
    depots = replace(UNKNOWN, rows=frozenset(marked.depots))
    with _noted(faults if known else []):  # without days several depots may be one for each
        depots = find_depots(rows, days, marked, given)
    stops = [index for index in range(len(days)) if index not in depots.rows]
    if known:
        rows.judge_days(days, stops)
    if capacity is not None:
        with _noted(faults):
            demands = rows.demands(stops, capacity)
    return days, depots, demands


@contextmanager
def _noted(faults: list[str]) -> Iterator[None]:
    """Note what is wrong with a file and go on, so that all of it can be said at once."""
    try:
        yield
    except DreeError as error:
        faults.append(str(error))


def _read(table: Table, rows: Rows | None, depots: Depots, notes: Sequence[str], command: str) -> OrderFile:
    """What was understood of a file, but for its days; without rows, not even how its numbers are written."""
    return OrderFile(
        table.path,
        (),
        len(table.rows),
        tuple(sorted([*table.bad, *(rows.bad() if rows else ())], key=lambda row: row.line)),
        table.encoding,
        table.delimiter,
        rows.mark if rows else "",
        {meaning: column.name for meaning, column in table.columns.items()},
        depots.how,
        depots.guessed,
        (*table.notes, *depots.notes, *notes),
        command,
    )


def _by_day(days: Sequence[str], chosen: Sequence[int]) -> dict[str, list[int]]:
    """Some of the rows, by their days."""
    found: dict[str, list[int]] = {}
    for index in chosen:
        found.setdefault(days[index], []).append(index)
    return found


def _command(
    path: Path, columns: Mapping[str, str], depot: tuple[float, float] | None, capacity: Decimal | None
) -> str:
    """The command that shows what is understood of a file that is read in this way."""
    options = [f"--map={','.join(f'{meaning}={name}' for meaning, name in columns.items())}"] if columns else []
    options += [] if depot is None else [f"--depot={depot[0]},{depot[1]}"]
    options += [] if capacity is None else [capacity_option(capacity)]
    return shlex.join(["dree", "orders", "check", str(path), *options])


def _day(
    rows: Rows,
    day: str,
    part: Sequence[int],
    depots: Depots,
    demands: Sequence[Decimal] | None,
    capacity: Decimal | None,
) -> Orders:
    """The stops of one day, demands in the largest units of ten that make them and the capacity whole."""
    table, place = rows.table, depots.of(day)
    ids, called = table.cells("id"), table.cells("name")
    names = tuple(map(table.name, part))
    people = tuple(called[index] if ids[index] else "" for index in part)
    recipients = people if any(people) else None
    if demands is None or capacity is None:
        return Orders(day, rows.places[part], names, table.geographic, place, recipients=recipients)
    if place is None:
        why = "".join(f" {note}" for note in depots.notes)
        raise DreeError(f"{table.path}: with a capacity, {day} needs a depot.{why} To say where: {HOW}.")
    chosen = [demands[index] for index in part]
    units = 10 ** max(map(decimals, {*chosen, capacity}))
    whole = np.array([int(demand * units) for demand in chosen], np.int64)
    limit = int(capacity * units)
    return Orders(day, rows.places[part], names, table.geographic, place, whole, limit, units, recipients)


def _handed_over(table: Table, there: Sequence[int]) -> list[str]:
    """What is said of orders at the depot."""
    if not there:
        return []
    names = ", ".join(map(table.name, there[:NAMED])) + (", ..." if len(there) > NAMED else "")
    return [f"Orders at the depot itself: {len(there)} ({names}). They are handed over there and are on no route."]


def _notes(table: Table, rows: Rows, capacity: Decimal | None, given: Mapping[str, str]) -> list[str]:
    """What a person should know of how the rows were read."""
    notes = []
    if capacity is None and "demand" in table.columns:
        notes.append(
            f"The demands ({table.columns['demand'].name}) are neither used nor checked: without --capacity there is "
            "one tour for all."
        )
    if capacity is not None and "demand" not in table.columns and table.rows:
        unused = [] if "demand" in given else rows.numbers_not_used()
        may_be = _may_be("demand", "numbers", unused)
        notes.append(f"There is no column for demands: every stop counts 1.{may_be}")
    if rows.demand_mark not in ("", rows.mark):
        name = table.columns["demand"].name
        notes.append(f"The demands ({name}) have a decimal {MARKS[rows.demand_mark]}, unlike the coordinates.")
    dates = [] if {"date"} & {*table.columns, *given} else rows.dates_not_used()
    if dates:
        notes.append(f"There is no column for dates: all stops are of one day.{_may_be('date', 'dates', dates)}")
    clean = rows.places[rows.clean()]
    if not table.geographic and len(clean) and (np.abs(clean) <= (180, 90)).all() and _fine(clean):
        x, y = table.columns["x"].name, table.columns["y"].name
        notes.append(f"If {x} and {y} are longitude and latitude, say it: --map lon={x},lat={y}.")
    return notes


def _may_be(meaning: str, what: str, columns: Sequence[str]) -> str:
    """How to say that one of these columns has a meaning."""
    if not columns:
        return ""
    names = ", ".join(columns[:NAMED]) + (", ..." if len(columns) > NAMED else "")
    name = columns[0] if len(columns) == 1 else "NAME"
    one = f"If one of them is the {meaning}, say it: --map {meaning}={name}."
    return f" Columns of {what} that are not used: {names}. {one}"


def _fine(places: Places) -> bool:
    """Whether most of the numbers have more than two decimals, as degrees have."""
    return bool((np.abs(places - places.round(2)) > 1e-9).mean() > 0.5)
