"""The rows of a file of orders as places, days and demands, each clean or with the reason why it cannot be used.

Shapes: N rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from dree.data.orders_dates import day_names, day_of_file, is_clear_date
from dree.data.orders_numbers import check_thousands, decimal_mark, exact, has_whole, own_mark, plain_number
from dree.data.orders_options import DECIMALS, decimals
from dree.data.orders_table import BadRow, Table
from dree.errors import DreeError
from dree.problems.geography import Places, distances, median_place

FARTHEST = 1000  # kilometres from the middle of all stops
LARGEST = 1e9  # of x and y
ENOUGH = 1000  # cells of a column, to see what it holds
FULL_CIRCLE = 360  # degrees; larger numbers are metres, or degrees that have lost their decimal mark
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
ROUNDED_ID = f"{SAME_ID} (rounded by a spreadsheet? save ids as text)"
SAME_ROW = "the same name, place and demand as in an earlier row of the day"
ROUNDED = re.compile(r"[0-9]([.,][0-9]+)?E\+[0-9]+", re.IGNORECASE)  # 1.23457E+12
DIRECTED = re.compile(r"""(?=.*[0-9])(?=.*[NSEWO°º'"′″])[NSEWO]?[-+0-9.,°º'"′″’ ]+[NSEWO]?""", re.IGNORECASE)  # 47.99N
AS_DEGREES = " (write degrees such as 47.9919; south and west have a minus)"
WORDS = {"lat": "the latitude", "lon": "the longitude", "x": "x", "y": "y"}


@dataclass
class Rows:
    """What is known of each row; the first reason that is found against it counts."""

    table: Table
    mark: str  # the decimal mark of coordinates
    places: Places  # [N, 2] longitude and latitude, or x and y; 0 where they are not known
    reasons: list[str] = field(default_factory=list)  # [N] empty for those that are clean
    demand_mark: str = ""  # the decimal mark of demands, once they are judged

    @staticmethod
    def of(table: Table) -> Rows:
        """The rows of a table, with their places, of which as yet only those are judged that are no numbers."""
        mark = _mark(table)
        first, second = _pair(table)
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
        self.demand_mark = mark = self._mark_of_demands(cells)
        found = {cell: exact(cell, mark) for cell in set(cells)}
        if stops and all(found[cells[index]] is None for index in stops):
            raise DreeError(
                f"No cell of the column '{self.table.columns['demand'].name}' in {self.table.path} is a number. Write "
                "plain numbers, or name another column with --map demand=NAME."
            )
        wrong = {cell: _wrong_demand(demand, cell, capacity) for cell, demand in found.items()}
        for index in stops:
            self.reject(index, wrong[cells[index]])
        return [found[cell] or Decimal(0) for cell in cells]

    def _mark_of_demands(self, cells: Sequence[str]) -> str:
        """The decimal mark of demands, which may be another than that of coordinates."""
        if "demand" not in self.table.columns:
            return self.mark
        places = _coordinates(self.table)
        known = decimal_mark(places)
        points = known != "," and not _points_may_group(self.table, cells if known else [*places, *cells])
        return own_mark(cells, self.table.columns["demand"].name, self.mark, points)

    def numbers_not_used(self) -> list[str]:
        """The columns that may be demands."""
        return self._not_used(lambda cells: sum(plain_number(cell, self.mark) is not None for cell in cells))

    def dates_not_used(self) -> list[str]:
        """The columns that may be dates. Whole numbers, one for each row, are none: bar codes such as 20240101."""

        def dates(cells: Sequence[str]) -> int:
            codes = len(cells) == len(set(cells)) > 1 and all(map(str.isdigit, cells))
            return 0 if codes else sum(map(is_clear_date, cells))

        return self._not_used(dates)

    def _not_used(self, fitting: Callable[[Sequence[str]], int]) -> list[str]:
        """The names of columns without a meaning of which most of the first cells are fitting."""
        used, found = {column.index for column in self.table.columns.values()}, []
        for index, name in enumerate(self.table.header):
            filled = (row.cells[index] for row in self.table.rows if index < len(row.cells) and row.cells[index])
            cells = list(islice(filled, ENOUGH))
            if name and index not in used and 2 * fitting(cells) > len(cells):
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
                same_id = ROUNDED_ID if ROUNDED.fullmatch(ids[index]) else SAME_ID
                self.reject(index, same_id if ids[index] else SAME_ROW)
            seen.add(key)

    def judge_far(self, stops: Sequence[int]) -> tuple[float, float] | None:
        """Reject stops far from the middle of all clean ones, which is the answer, on the earth."""
        clean = [index for index in stops if not self.reasons[index]]
        if not (clean and self.table.geographic):
            return None
        places = self.places[clean]
        centre = median_place(places)
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
                hint = AS_DEGREES if self.table.geographic and DIRECTED.fullmatch(cells[index]) else ""
                self.reject(index, f"{WORDS[meaning]} is {'not a number' if cells[index] else 'missing'}{hint}")

    def _judge_degrees(self) -> None:
        """Reject impossible degrees; refuse the file where most of them are, and would not be the other way round."""
        lng, lat = self.places.T
        known = np.array([not reason for reason in self.reasons], bool)
        names = {meaning: self.table.columns[meaning].name for meaning in ("lat", "lon")}
        beyond = np.flatnonzero(known & (np.abs(self.places).max(1) > FULL_CIRCLE)).tolist()
        if len(beyond) > known.sum() / 2:
            pair = ", ".join(self.table.cells(meaning)[beyond[0]] for meaning in ("lat", "lon"))
            raise DreeError(
                f"{self.table.path}: {names['lat']} and {names['lon']} are no degrees in {len(beyond)} of "
                f"{known.sum()} rows, such as line {self.table.rows[beyond[0]].line}: {pair}. If they are metres or "
                f"the like, say it: --map x={names['lon']},y={names['lat']}. If they are degrees that have lost their "
                "decimal mark, write them with it, such as 47.99193."
            )
        other_way = known & (np.abs(lat) > 90) & (np.abs(lat) <= 180) & (np.abs(lng) <= 90)
        if other_way.sum() > known.sum() / 2:
            raise DreeError(
                f"{self.table.path}: latitude and longitude are swapped, for {other_way.sum()} of {known.sum()} "
                f"latitudes are outside -90 to 90. Say it: --map lat={names['lon']},lon={names['lat']}."
            )
        self._reject(other_way, LATITUDE + SWAPPED)
        self._reject(np.abs(lat) > 90, LATITUDE)
        self._reject(np.abs(lng) > 180, LONGITUDE)
        self._reject((lat == 0) & (lng == 0), ORIGIN)


def _coordinates(table: Table) -> list[str]:
    """The cells of both columns of places."""
    return [cell for meaning in _pair(table) for cell in table.cells(meaning)]


def _pair(table: Table) -> tuple[str, str]:
    """The meanings that are the place, east before north."""
    return ("lon", "lat") if table.geographic else ("x", "y")


def _mark(table: Table) -> str:
    """The decimal mark of the coordinates, or of most demands where coordinates are whole numbers."""
    cells = _coordinates(table)
    mark = decimal_mark(cells)
    if mark is None:
        return decimal_mark(table.cells("demand")) or "."
    if not table.geographic and (mark == "," or _points_may_group(table, cells)):
        names = [table.columns[each].name for each in _pair(table) if mark in "".join(table.cells(each))]
        check_thousands(cells, names[0], mark)
    return mark


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
