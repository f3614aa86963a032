"""The rows of a file of orders as places, days and demands, each clean or with the reason why it cannot be used.

Shapes: N rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from dree.data.orders_dates import day_names, day_of_file
from dree.data.orders_numbers import check_thousands, decimal_mark, exact, has_whole, plain_number
from dree.data.orders_options import DECIMALS, decimals
from dree.data.orders_table import BadRow, Table
from dree.errors import DreeError
from dree.problems.geography import Places, distances, middle

FARTHEST = 1000  # kilometres from the middle of all stops
LARGEST = 1e9  # of x and y
ORIGIN = "the place is (0, 0)"
SWAPPED = " (latitude and longitude swapped?)"
LATITUDE = "the latitude is outside -90 to 90"
LONGITUDE = "the longitude is outside -180 to 180"
TOO_LARGE = "x or y is too large"
FAR = f"more than {FARTHEST} km from the middle of all stops"
NO_DATE, NOT_A_DATE = "the date is missing", "the date is not a date"
NO_DEMAND, NOT_A_DEMAND = "the demand is missing", "the demand is not a number"
NEGATIVE, OVER = "the demand is negative", "the demand is over the capacity"
TOO_FINE = f"the demand has more than {DECIMALS} decimals"
SAME_ID = "the same id as in an earlier row of the day"
SAME_ROW = "the same name, place and demand as in an earlier row of the day"
WORDS = {"lat": "the latitude", "lon": "the longitude", "x": "x", "y": "y"}


@dataclass
class Rows:
    """What is known of each row; the first reason that is found against it counts."""

    table: Table
    mark: str  # the decimal mark
    places: Places  # [N, 2] longitude and latitude, or x and y; 0 where they are not known
    reasons: list[str] = field(default_factory=list)  # [N] empty for those that are clean

    @staticmethod
    def of(table: Table) -> Rows:
        """The rows of a table, with their places, of which as yet only those are judged that are no numbers."""
        mark = _mark(table)
        first, second = ("lon", "lat") if table.geographic else ("x", "y")
        columns = [[plain_number(cell, mark) for cell in table.cells(meaning)] for meaning in (first, second)]
        pairs = [[float(number or "0") for number in pair] for pair in zip(*columns, strict=True)]
        rows = Rows(table, mark, np.array(pairs, np.float64).reshape(-1, 2), [""] * len(table.rows))
        for meaning, numbers in ((second, columns[1]), (first, columns[0])):
            rows._judge_numbers(meaning, numbers)
        return rows

    def clean(self) -> list[int]:
        """The rows against which there is no reason."""
        return [index for index, reason in enumerate(self.reasons) if not reason]

    def bad(self) -> list[BadRow]:
        """The others."""
        pairs = zip(self.table.rows, self.reasons, strict=True)
        return [BadRow(row.line, reason, row.text) for row, reason in pairs if reason]

    def reject(self, index: int, reason: str) -> None:
        """Note a reason against a row, unless there is one."""
        self.reasons[index] = self.reasons[index] or reason

    def judge_places(self) -> None:
        """Reject impossible places; refuse the file where latitude and longitude are swapped."""
        if self.table.geographic:
            self._judge_degrees()
        else:
            self._reject(np.abs(self.places).max(1) > LARGEST, TOO_LARGE)

    def days(self, order: str | None) -> list[str]:
        """The day of every row, by its date or else by the name of the file."""
        if "date" not in self.table.columns:
            return [day_of_file(self.table.path)] * len(self.reasons)
        cells = self.table.cells("date")
        names = day_names(self.table.path, self.table.columns["date"].name, cells, order)
        return [names.get(cell, "") for cell in cells]

    def judge_days(self, days: Sequence[str], stops: Sequence[int]) -> None:
        """Reject stops without a day."""
        cells = self.table.cells("date")
        for index in stops:
            if not days[index]:
                self.reject(index, NOT_A_DATE if cells[index] else NO_DATE)

    def demands(self, stops: Sequence[int], capacity: Decimal) -> list[Decimal]:
        """What every row orders, 1 where there is no column for it; stops that order what cannot be are rejected."""
        cells = self.table.cells("demand") if "demand" in self.table.columns else ["1"] * len(self.reasons)
        if self.mark == "." and _points_may_group(self.table, cells):
            check_thousands(cells, self.table.columns["demand"].name, self.mark)
        found = {cell: exact(cell, self.mark) for cell in set(cells)}
        if stops and all(found[cells[index]] is None for index in stops):
            raise DreeError(
                f"No cell of the column '{self.table.columns['demand'].name}' in {self.table.path} is a number. Write "
                "plain numbers, or name another column with --map demand=NAME."
            )
        wrong = {cell: _wrong_demand(demand, cell, capacity) for cell, demand in found.items()}
        for index in stops:
            self.reject(index, wrong[cells[index]])
        return [found[cell] or Decimal(0) for cell in cells]

    def numbers_not_used(self) -> list[str]:
        """The names of columns without a meaning whose cells are mostly numbers, as those of demands would be."""
        used, found = {column.index for column in self.table.columns.values()}, []
        for index, name in enumerate(self.table.header):
            cells = [row.cells[index] for row in self.table.rows if index < len(row.cells) and row.cells[index]]
            numbers = sum(plain_number(cell, self.mark) is not None for cell in cells)
            if name and index not in used and 2 * numbers > len(cells):
                found.append(name)
        return found

    def judge_repeated(self, days: Sequence[str], stops: Sequence[int]) -> None:
        """Reject stops that are there before: with the same id, or with the same name, place and demand."""
        ids, names, demands = (self.table.cells(meaning) for meaning in ("id", "name", "demand"))
        seen: set[tuple[object, ...]] = set()
        for index in stops:
            if self.reasons[index] or not (ids[index] or names[index]):
                continue
            row = (names[index], *self.places[index].tolist(), demands[index])
            key = (days[index], *((ids[index],) if ids[index] else row))
            if key in seen:
                self.reject(index, SAME_ID if ids[index] else SAME_ROW)
            seen.add(key)

    def judge_far(self, stops: Sequence[int]) -> tuple[float, float] | None:
        """Reject stops far from the middle of all clean ones, which is the answer, on the earth."""
        clean = [index for index in stops if not self.reasons[index]]
        if not (clean and self.table.geographic):
            return None
        places = self.places[clean]
        lng = middle(places)[0]
        turned = lng + np.median((places[:, 0] - lng + 180) % 360 - 180)
        centre = float(turned), float(np.median(places[:, 1]))
        far = _away(places, centre) > FARTHEST
        near = (np.abs(places[:, 0]) <= 90) & (_away(places[:, ::-1], centre) <= FARTHEST)
        for index, is_far, would_be_near in zip(clean, far, near, strict=True):
            if is_far:
                self.reject(index, FAR + SWAPPED if would_be_near else FAR)
        return centre

    def _reject(self, which: NDArray[np.bool_], reason: str) -> None:
        for index in np.flatnonzero(which).tolist():
            self.reject(index, reason)

    def _judge_numbers(self, meaning: str, numbers: Sequence[str | None]) -> None:
        cells = self.table.cells(meaning)
        for index, number in enumerate(numbers):
            if number is None:
                self.reject(index, f"{WORDS[meaning]} is {'not a number' if cells[index] else 'missing'}")

    def _judge_degrees(self) -> None:
        """Reject impossible degrees; refuse the file where most of them are, and would not be the other way round."""
        lng, lat = self.places.T
        known = np.array([not reason for reason in self.reasons], bool)
        other_way = known & (np.abs(lat) > 90) & (np.abs(lat) <= 180) & (np.abs(lng) <= 90)
        if other_way.sum() > known.sum() / 2:
            names = {meaning: self.table.columns[meaning].name for meaning in ("lat", "lon")}
            raise DreeError(
                f"{self.table.path}: latitude and longitude are swapped, for {other_way.sum()} of {known.sum()} "
                f"latitudes are outside -90 to 90. Say it: --map lat={names['lon']},lon={names['lat']}."
            )
        self._reject(other_way, LATITUDE + SWAPPED)
        self._reject(np.abs(lat) > 90, LATITUDE)
        self._reject(np.abs(lng) > 180, LONGITUDE)
        self._reject((lat == 0) & (lng == 0), ORIGIN)


def _mark(table: Table) -> str:
    """The decimal mark of the coordinates, or of demands where coordinates are whole numbers."""
    pair = ("lat", "lon") if table.geographic else ("x", "y")
    seen: list[str] = []
    for meanings in (pair, ("demand",)):
        cells = [cell for meaning in meanings for cell in table.cells(meaning)]
        seen += cells
        mark = decimal_mark(cells)
        if mark is not None:
            if meanings != ("lat", "lon") and (mark == "," or _points_may_group(table, seen)):
                names = [table.columns[each].name for each in meanings if mark in "".join(table.cells(each))]
                check_thousands(cells, names[0], mark)
            return mark
    return "."


def _points_may_group(table: Table, cells: Sequence[str]) -> bool:
    """Whether points may be there for thousands: not in files with commas between cells, nor where all have points."""
    return table.delimiter != "," and has_whole(cells)


def _wrong_demand(demand: Decimal | None, cell: str, capacity: Decimal) -> str:
    """Why a demand cannot be; empty if it can."""
    if demand is None:
        return NOT_A_DEMAND if cell else NO_DEMAND
    if demand < 0:
        return NEGATIVE
    if demand > capacity:
        return OVER
    return TOO_FINE if decimals(demand) > DECIMALS else ""


def _away(places: Places, centre: tuple[float, float]) -> NDArray[np.float64]:
    """Kilometres of places on the earth from a centre."""
    return distances(places, np.broadcast_to(np.array(centre, np.float64), places.shape), True)
