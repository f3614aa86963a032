"""Where vehicles start: said on the command line, marked in the file, or a first row without a demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dree.data.orders_columns import is_depot_word, marks_depot
from dree.data.orders_numbers import exact
from dree.data.orders_rows import FARTHEST, Rows
from dree.errors import DreeError
from dree.problems.geography import distances

Place = tuple[float, float]  # longitude and latitude, or x and y
HOW = (
    "give --depot LAT,LON (or X,Y), mark a row with 'depot' in a column 'type', or begin with one without id and demand"
)


@dataclass(frozen=True)
class Depots:
    """The depot of every day, the rows that are no stops for it, and how it was found."""

    every_day: Place | None
    by_day: Mapping[str, Place]
    rows: frozenset[int]
    how: str
    notes: tuple[str, ...] = ()

    def of(self, day: str) -> Place | None:
        """The depot of a day."""
        return self.by_day.get(day, self.every_day)


def find_depots(rows: Rows, days: Sequence[str], given: Place | None) -> Depots:
    """The depots; `given` is as a person gives it, latitude first."""
    marked = marked_rows(rows)
    if given is not None:
        place = (given[1], given[0]) if rows.table.geographic else given
        if rows.table.geographic and not (abs(place[1]) <= 90 and abs(place[0]) <= 180):
            raise DreeError(f"--depot {given[0]:g},{given[1]:g} is not on the earth. Give the latitude first.")
        elsewhere = [rows.table.rows[index].line for index in marked if _place(rows, index) != place]
        note = f"The depot in line {elsewhere[0]} is not used, for another one is given." if elsewhere else ""
        used = frozenset([*marked, *_without_demand(rows, place)])
        return Depots(place, {}, used, "--depot", (note,) if note else ())
    usable = [index for index in marked if not rows.reasons[index]]
    if usable:
        return _of_marked(rows, days, usable, frozenset(marked))
    first = _place(rows, 0) if rows.reasons and not rows.reasons[0] else None
    like_it = [] if first is None else _without_demand(rows, first)
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


def marked_rows(rows: Rows) -> list[int]:
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
    lines = ", ".join(str(rows.table.rows[index].line) for index in usable[:5]) + (", ..." if len(usable) > 5 else "")
    how = f"marked in line {lines}"
    places = {_place(rows, index) for index in usable}
    if len(places) == 1:
        return Depots(places.pop(), {}, marked, how)
    by_day = {days[index]: _place(rows, index) for index in usable}
    if any(not days[index] or by_day[days[index]] != _place(rows, index) for index in usable):
        raise DreeError(
            f"{rows.table.path} has several depots (lines {lines}); all routes of a day begin at one. Keep one, or "
            "give it with --depot."
        )
    return Depots(None, by_day, marked, how)


def _of_first(rows: Rows, place: Place, like_it: Sequence[int]) -> Depots:
    """The first row, which has no demand, as the depot; with an id it is an order like the others, and no depot."""
    table = rows.table
    line, called = table.rows[0].line, table.cells("id")[0] or table.cells("name")[0]
    which = f"Line {line}{f' ({called})' if called else ''}, the first, has no demand"
    if table.cells("id")[0]:
        first, second = reversed(place) if table.geographic else place
        note = f"{which} but an id, so it is an order and not the depot. If it is the depot: --depot={first},{second}"
        return Depots(None, {}, frozenset(), "none", (f"{note}.",))
    lines = [table.rows[index].line for index in like_it if index]
    others = f" (lines: {', '.join(map(str, lines[:5]))}{', ...' if len(lines) > 5 else ''})"
    more = f"; so others without demand at that place are no stops{others}" if lines else ", not for a stop"
    note = f"{which} and is taken for the depot{more}. If the depot is elsewhere, give it with --depot."
    return Depots(place, {}, frozenset(like_it), f"line {line}, the first, has no demand", (note,))


def _without_demand(rows: Rows, place: Place) -> list[int]:
    """The rows at a place that have a cell for a demand, and none in it."""
    if "demand" not in rows.table.columns:
        return []
    there = np.flatnonzero((rows.places == place).all(1)).tolist()
    cells = rows.table.cells("demand")
    return [index for index in there if not rows.reasons[index] and exact(cells[index] or "0", rows.mark) == 0]


def _place(rows: Rows, index: int) -> Place:
    first, second = rows.places[index].tolist()
    return first, second
