"""Where vehicles start: said on the command line, marked in the file, or a first row without a demand."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dree.data.orders_columns import is_depot_word, marks_depot
from dree.data.orders_numbers import MARKS, exact
from dree.data.orders_rows import FARTHEST, Rows
from dree.errors import DreeError
from dree.problems.geography import distances

NAMED = 5  # rows
ROUNDED = 0.01  # kilometres that two spellings of one depot may be apart
ROUNDED_SHARE = 1e-4  # the same in a plane, of the extent of the stops
Place = tuple[float, float]  # longitude and latitude, or x and y
HOW = (
    "give --depot LAT,LON (or X,Y), mark a row without a demand with 'depot' in a column 'type', or begin with one "
    "without id and demand"
)


@dataclass(frozen=True)
class Depots:
    """The depot of every day, the rows that are no stops for it, and how it was found."""

    every_day: Place | None
    by_day: Mapping[str, Place]
    rows: frozenset[int]
    how: str
    notes: tuple[str, ...] = ()
    guessed: bool = False  # from the first row, which does not say that it is one

    def of(self, day: str) -> Place | None:
        """The depot of a day."""
        return self.by_day.get(day, self.every_day)


class Marked(NamedTuple):
    """The rows that say they are a depot: those that may be, and those that are orders all the same."""

    depots: Sequence[int]
    orders: Sequence[int]


def marked_rows(rows: Rows, days: Sequence[str]) -> Marked:
    """A customer may be called a warehouse. What has a demand is an order.

    Where there is no column for demands, rows of one day with ids of their own are orders, if they are at several
    places: a start and an end are not.
    """
    found, table = _with_mark(rows), rows.table
    ids, demands = table.cells("id"), table.cells("demand")
    own: defaultdict[str, dict[int, Place]] = defaultdict(dict)
    for index in found if "demand" not in table.columns else ():
        if ids[index].strip("0") and not is_depot_word(ids[index]) and not rows.reasons[index]:
            own[days[index]][index] = _place(rows, index)
    several = {
        index
        for alike in own.values()
        if len(set(alike.values())) > 1 and len({ids[index] for index in alike}) > 1
        for index in alike
    }
    orders = {index for index in found if re.search("[1-9]", demands[index]) or index in several}
    return Marked([index for index in found if index not in orders], sorted(orders))


def find_depots(rows: Rows, days: Sequence[str], marked: Marked, given: Place | None) -> Depots:
    """The depots; `given` is as a person gives it, latitude first."""
    found = _in_file(rows, days, marked.depots) if given is None else _said(rows, given, marked.depots)
    notes = _of_orders(rows, marked.orders, found.how == "none") if marked.orders else ()
    return replace(found, notes=(*found.notes, *notes))


def _said(rows: Rows, given: Place, marked: Sequence[int]) -> Depots:
    """The depot that a person says, and the rows that are no stops for it."""
    place = (given[1], given[0]) if rows.table.geographic else given
    if rows.table.geographic and not (abs(place[1]) <= 90 and abs(place[0]) <= 180):
        raise DreeError(f"--depot {given[0]:g},{given[1]:g} is not on the earth. Give the latitude first.")
    ids, near = rows.table.cells("id"), _spelled_otherwise(rows, place)
    nameless = [index for index in _without_demand(rows, near) if not ids[index]]
    there = {*nameless, *({*marked} & {*near})}
    elsewhere = [index for index in marked if index not in there]
    notes = _taken(rows, sorted(there))
    if elsewhere:
        depots = "depot in line {} is" if len(elsewhere) == 1 else "depots in lines {} are"
        lines = depots.format(_lines(rows, elsewhere, len(elsewhere)))
        order = "it is an order" if len(elsewhere) == 1 else "they are orders"
        notes += (f"The {lines} not used, for another one is given. If {order}: --map depot=",)
    return Depots(place, {}, frozenset([*marked, *nameless]), "--depot", notes)


def _in_file(rows: Rows, days: Sequence[str], marked: Sequence[int]) -> Depots:
    """The depots that the file tells."""
    usable = [index for index in marked if not rows.reasons[index]]
    if usable:
        return _of_marked(rows, days, usable, frozenset(marked))
    first = _place(rows, 0) if rows.reasons and not rows.reasons[0] else None
    like_it = [] if first is None else _without_demand(rows, _at(rows, first))
    if first is not None and 0 in like_it:
        return _of_first(rows, first, like_it)
    return Depots(None, {}, frozenset(marked), "none")


def at_depot(rows: Rows, depots: Depots, days: Sequence[str], stops: Sequence[int]) -> list[int]:
    """The clean stops at the very place of their day's depot, to which no vehicle has to drive."""
    return [index for index in stops if not rows.reasons[index] and _place(rows, index) == depots.of(days[index])]


def check_distance(rows: Rows, depots: Depots, centre: Place | None) -> None:
    """Refuse a depot on another continent than the stops."""
    for place in {depots.every_day, *depots.by_day.values()} - {None} if centre is not None else ():
        ways = [np.array([place]), np.array([place])[:, ::-1]]
        away, swapped = (float(distances(way, np.array([centre]), True)[0]) for way in ways)
        if away > FARTHEST:
            hint = f" With latitude and longitude swapped it would be {swapped:.0f} km." if swapped <= FARTHEST else ""
            raise DreeError(
                f"{rows.table.path}: the depot ({depots.how}) is {away:.0f} km from the middle of the stops.{hint} "
                "Correct the depot, or the columns of the stops with --map lat=NAME,lon=NAME."
            )


def _with_mark(rows: Rows) -> list[int]:
    """The rows that say they are a depot."""
    table = rows.table
    found = {
        index
        for meaning in ("id", "name")
        for index, cell in enumerate(table.cells(meaning))
        if cell and is_depot_word(cell)
    }
    if "depot" in table.columns:
        column = table.columns["depot"]
        found |= {index for index, cell in enumerate(table.cells("depot")) if cell and marks_depot(cell, column)}
    return sorted(found)


def _of_marked(rows: Rows, days: Sequence[str], usable: Sequence[int], marked: frozenset[int]) -> Depots:
    """One depot for all days, or one for each."""
    lines = _lines(rows, usable)
    how = f"marked in line {lines}"
    places = {_place(rows, index) for index in usable}
    if len(places) == 1:
        return Depots(places.pop(), {}, marked, how, _taken(rows, usable))
    by_day = {days[index]: _place(rows, index) for index in usable}
    if any(not days[index] or by_day[days[index]] != _place(rows, index) for index in usable):
        raise DreeError(
            f"{rows.table.path} has several depots (lines {lines}); all routes of a day begin at one. Keep one, or "
            "give it with --depot. If none of them is a depot: --map depot="
        )
    return Depots(None, by_day, marked, how, _taken(rows, usable))


def _taken(rows: Rows, used: Sequence[int]) -> tuple[str, ...]:
    """What is said of rows that are the depot."""
    if not used:
        return ()
    if len(used) > 1:
        return (f"Lines {_lines(rows, used)} are taken for the depot, not for stops.",)
    return (f"{_line(rows, used[0])} is taken for the depot, not for a stop.",)


def _of_orders(rows: Rows, orders: Sequence[int], missing: bool) -> tuple[str, ...]:
    """What is said of orders that are called a depot; where the depot is missing, also how to say that one is it."""
    why = "a demand" if "demand" in rows.table.columns else "an id of its own, as others of the day have"
    if len(orders) > 1:
        names = ", ".join(map(rows.table.name, orders[:NAMED])) + ", ..." * (len(orders) > NAMED)
        each = f"Lines {_lines(rows, orders)} ({names}) are called depots, but each has {why}"
        return (f"{each}, so they are orders.",)
    (order,) = orders
    hint = f" {_if_depot(rows, _place(rows, order))}." if missing and not rows.reasons[order] else ""
    return (f"{_line(rows, order)} is called a depot but has {why}, so it is an order and not the depot.{hint}",)


def _if_depot(rows: Rows, place: Place) -> str:
    """How to say that a place is the depot."""
    first, second = reversed(place) if rows.table.geographic else place
    return f"If it is the depot: --depot={first},{second}"


def _line(rows: Rows, index: int) -> str:
    """A row by its line and by what it is called, if anything."""
    called = rows.table.cells("id")[index] or rows.table.cells("name")[index]
    return f"Line {rows.table.rows[index].line}{f' ({called})' if called else ''}"


def _lines(rows: Rows, chosen: Sequence[int], most: int = NAMED) -> str:
    """The lines of rows, the first ones where there are many."""
    return ", ".join(str(rows.table.rows[index].line) for index in chosen[:most]) + ", ..." * (len(chosen) > most)


def _of_first(rows: Rows, place: Place, like_it: Sequence[int]) -> Depots:
    """The first row, which has no demand, as the depot; with an id it is an order like the others, and no depot."""
    which = f"{_line(rows, 0)}, the first, has no demand"
    if rows.table.cells("id")[0]:
        note = f"{which} but an id, so it is an order and not the depot. {_if_depot(rows, place)}."
        return Depots(None, {}, frozenset(), "none", (note,))
    others = [index for index in like_it if index]
    at_it = f"others without demand at that place are no stops (lines: {_lines(rows, others)})"
    more = f"; so {at_it}" if others else ", not for a stop"
    note = f"{which} and is taken for the depot{more}. If the depot is elsewhere, give it with --depot."
    how = f"line {rows.table.rows[0].line}, the first, has no demand"
    return Depots(place, {}, frozenset(like_it), how, (note,), guessed=True)


def _without_demand(rows: Rows, there: Sequence[int]) -> list[int]:
    """Those among rows that have a cell for a demand, and none in it."""
    if "demand" not in rows.table.columns:
        return []
    cells = rows.table.cells("demand")
    nothing = {cell for cell in set(cells) if any(exact(cell or "0", mark) == 0 for mark in MARKS)}
    return [index for index in there if not rows.reasons[index] and cells[index] in nothing]


def _at(rows: Rows, place: Place) -> list[int]:
    """The rows at the very place."""
    found: list[int] = np.flatnonzero((rows.places == place).all(1)).tolist()
    return found


def _spelled_otherwise(rows: Rows, place: Place) -> list[int]:
    """The rows at a place, perhaps rounded."""
    clean = rows.clean()
    if not clean:
        return []
    places = rows.places[clean]
    away = distances(places, np.broadcast_to(np.array(place), places.shape), rows.table.geographic)
    most = ROUNDED if rows.table.geographic else ROUNDED_SHARE * float(np.ptp(places, axis=0).max())
    return [index for index, far in zip(clean, away.tolist(), strict=True) if far <= most]


def _place(rows: Rows, index: int) -> Place:
    first, second = rows.places[index].tolist()
    return first, second
