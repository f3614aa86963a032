"""Dates in the usual spellings. What only the whole file can decide, day or month first, is decided over all of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from dree.errors import DreeError

ORDERS = ("dmy", "mdy")
YEARS = range(1990, 2101)
LEAP_YEAR = 2000  # where no year is given, every date of the calendar is one
STRAY = 0.05  # the share of dates that may have day and month the other way round, and are then no dates
TIME = r"(?:(?:T| +)[0-9]{1,2}:?[0-9]{2}.*)?"
YEAR_FIRST = re.compile(rf"(?P<y>[0-9]{{4}})([-/.])(?P<m>[0-9]{{1,2}})\2(?P<d>[0-9]{{1,2}}){TIME}")
COMPACT = re.compile(rf"(?P<y>(?:19|20)[0-9]{{2}})(?P<m>[0-9]{{2}})(?P<d>[0-9]{{2}})(?:\.0*)?{TIME}")
DOTTED = re.compile(rf"(?P<d>[0-9]{{1,2}})\. ?(?P<m>[0-9]{{1,2}})\.(?: ?(?P<y>[0-9]{{4}}|[0-9]{{2}}))?{TIME}")
CHINESE = re.compile(r"(?:(?P<y>[0-9]{4})年)?(?P<m>[0-9]{1,2})月(?P<d>[0-9]{1,2})[日号](?: *[0-9]{1,2}[:：时点].*)?")
MONTH_DAY = re.compile(
    rf"(?P<m>[0-9]{{1,2}})-(?P<d>[0-9]{{1,2}}){TIME}|(?P<mm>[0-9]{{1,2}})(?P<dd>[0-9]{{2}})(?:\.0*)?"
)
EITHER = re.compile(
    rf"(?P<a>[0-9]{{1,2}})(?:/(?P<b>[0-9]{{1,2}})(?:/(?P<y>[0-9]{{4}}|[0-9]{{2}}))?"
    rf"|-(?P<bb>[0-9]{{1,2}})-(?P<yy>[0-9]{{4}})){TIME}"
)
IN_NAME = (
    re.compile(r"(?<![0-9])(?P<y>20[0-9]{2})([-_.]?)(?P<m>[0-9]{2})\2(?P<d>[0-9]{2})(?![0-9])"),
    re.compile(r"(?<![0-9.])(?P<d>[0-9]{1,2})\.(?P<m>[0-9]{1,2})\.(?P<y>20[0-9]{2})(?![0-9])"),
)


class _Either(NamedTuple):
    """A date of which only the file knows whether the day or the month comes first."""

    first: int
    second: int
    year: int | None

    def day(self, order: str) -> str | None:
        """The day's name, if it is a date in this order."""
        day, month = (self.first, self.second) if order == "dmy" else (self.second, self.first)
        return _name(self.year, month, day)


def day_names(path: Path, column: str, cells: Sequence[str], order: str | None) -> dict[str, str]:
    """Cell -> its day, 2022-06-04 or, without a year, 06-04; cells that are no dates are missing."""
    counts = Counter(cell for cell in cells if cell)
    if order not in (None, *ORDERS):
        raise DreeError(f"--map dates={order}: say dmy where the day comes first, mdy where the month does.")
    read = {cell: _read(cell) for cell in counts}
    either = {cell: value for cell, value in read.items() if isinstance(value, _Either)}
    order = order or _decided(path, column, either, counts)
    names = {cell: value.day(order) if isinstance(value, _Either) else value for cell, value in read.items()}
    found = {cell: name for cell, name in names.items() if name is not None}
    if counts and not found:
        raise DreeError(
            f"No cell of the column '{column}' in {path} could be read as a date: the first is '{next(iter(counts))}'. "
            "Write dates as 2022-06-04, name another column, --map date=NAME, or say that there is none: --map date="
        )
    return found


def is_clear_date(cell: str) -> bool:
    """Whether a cell is a date and nothing else: with a year, or with a month that is written as one."""
    read = None if MONTH_DAY.fullmatch(cell) else _read(cell)
    if isinstance(read, _Either):
        return read.year is not None and any(read.day(order) for order in ORDERS)
    return read is not None


def spelled_day(text: str, days: Collection[str]) -> str | None:
    """Which of some days a person means by a date in one of the usual spellings; None where that is not clear."""
    read = _read(text.strip())
    meant = {read.day(order) for order in ORDERS} if isinstance(read, _Either) else {read}
    found = meant & set(days)
    return found.pop() if len(found) == 1 else None


def day_of_file(path: Path) -> str:
    """The date in a file's name if there is one, else the name without its ending."""
    found = [match for pattern in IN_NAME for match in pattern.finditer(path.stem)]
    dates = {_name(int(match["y"]), int(match["m"]), int(match["d"])) for match in found} - {None}
    return str(dates.pop()) if len(dates) == 1 else path.stem


def _name(year: int | None, month: int, day: int) -> str | None:
    """A day's name, or None if there is no such day."""
    if year is not None and year < 100:
        year += 2000
    if year is not None and year not in YEARS:
        return None
    try:
        found = date(year or LEAP_YEAR, month, day)
    except ValueError:
        return None
    return found.isoformat() if year is not None else f"{found:%m-%d}"


def _read(cell: str) -> str | _Either | None:
    """A day, or what may be two, or nothing."""
    for pattern in (YEAR_FIRST, COMPACT, DOTTED, CHINESE):
        if found := pattern.fullmatch(cell):
            return _name(None if found["y"] is None else int(found["y"]), int(found["m"]), int(found["d"]))
    if found := MONTH_DAY.fullmatch(cell):
        return _name(None, int(found["m"] or found["mm"]), int(found["d"] or found["dd"]))
    if found := EITHER.fullmatch(cell):
        year = found["y"] or found["yy"]
        return _Either(int(found["a"]), int(found["b"] or found["bb"]), None if year is None else int(year))
    return None


def _decided(path: Path, column: str, either: Mapping[str, _Either], counts: Mapping[str, int]) -> str:
    """Whether the day comes first or the month, by the dates that are one in one order only."""
    votes, open_cell = dict.fromkeys(ORDERS, 0), None
    for cell, value in either.items():
        days = {order: value.day(order) for order in ORDERS}
        possible = [order for order in ORDERS if days[order] is not None]
        if len(possible) == 1:
            votes[possible[0]] += counts[cell]
        elif len(possible) == 2 and days["dmy"] != days["mdy"]:
            open_cell = open_cell or cell
    chosen = max(votes, key=lambda order: votes[order])
    strays = min(votes.values())
    if strays > STRAY * sum(votes.values()):
        raise DreeError(
            f"In {path} the column '{column}' has dates with the day first and dates with the month first. Write them "
            "as 2022-06-04, or say which they are: --map dates=dmy or --map dates=mdy."
        )
    if open_cell is not None and not votes[chosen]:
        raise DreeError(
            f"In {path} the column '{column}' has {open_cell}, and no date tells whether the day or the month comes "
            "first. Say it: --map dates=dmy or --map dates=mdy. Or write dates as 2022-06-04."
        )
    return chosen
