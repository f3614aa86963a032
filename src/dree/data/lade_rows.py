"""The rows of LaDe-D's files, every one either clean or left out for a stated reason.

What is kept of a row is its region, its day (`ds`, MMDD of the year 2022) and its place.

Shapes: N rows, L of them left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dree.data.lade_csv import COLUMNS, COMMA, FEWER, MORE, WRAPPING, Progress, arrow, batches

CODES = {"shanghai": "sh", "hangzhou": "hz", "chongqing": "cq", "jilin": "jl", "yantai": "yt"}
NEW_YEAR = date(2022, 1, 1)
UNITS = 10_000_000  # places are whole numbers of 1e-7 degrees, about a centimetre: exact for up to seven decimals
EMPTY = "an empty line"
NO_ORDER = "no order_id"
NO_CITY = "no city"
NO_REGION = "region_id is not a whole number"
NO_DATE = "ds is not a date (MMDD)"
NO_PLACE = "a coordinate is missing"
NO_NUMBER = "a coordinate is not a number"
NOWHERE = "impossible coordinates"
DUPLICATE = "order_id was there before"
REASONS = (  # the first that holds is a row's
    *(FEWER, MORE, COMMA, EMPTY),
    *(NO_ORDER, NO_CITY, NO_REGION, NO_DATE, NO_PLACE, NO_NUMBER, NOWHERE),
    DUPLICATE,
)
WHOLE = r"^[0-9]{1,9}(\.0*)?$"
MMDD = r"^[0-9]{3,4}(\.0*)?$"  # the leading zero may be missing
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"


class RegionId(NamedTuple):
    """A region: the code of its city, its number, and the city as the files spell it first."""

    code: str
    number: int
    city: str

    @property
    def name(self) -> str:
        """What the paper calls it, such as `sh-2`."""
        return f"{self.code}-{self.number}"


class LeftOut(NamedTuple):
    """Rows that are not used: which file, which line of it (the header is line 1), and why. Sorted."""

    files: NDArray[np.int64]  # [L]
    lines: NDArray[np.int64]  # [L]
    reasons: NDArray[np.int64]  # [L] into REASONS


class Rows(NamedTuple):
    """The clean rows of some files, in their order, and those left out."""

    names: list[RegionId]  # sorted
    regions: NDArray[np.int64]  # [N] into names
    days: NDArray[np.int16]  # [N] since NEW_YEAR
    places: NDArray[np.int32]  # [N, 2] longitude and latitude in 1 / UNITS degrees
    counts: list[int]  # rows of each file, the header not counted
    left_out: LeftOut


class _Cells(NamedTuple):
    """Cells as numbers, small ones: there are millions of rows. In a row with a reason they may mean nothing."""

    cities: NDArray[np.int16]
    numbers: NDArray[np.int32]
    days: NDArray[np.int16]
    places: NDArray[np.int32]
    reasons: NDArray[np.int8]  # -1: the row is clean


NO_CELLS = _Cells(
    *(np.empty(shape, kind) for shape, kind in ((0, "i2"), (0, "i4"), (0, "i2"), ((0, 2), "i4"), (0, "i1")))
)


class _Cities:
    """Cities by their codes, numbered as they appear."""

    def __init__(self) -> None:
        self.titles: dict[str, str] = {}  # code -> how it was spelled first

    def number(self, title: str) -> int:
        """The number of a city; -1 if it has no name."""
        if not title:
            return -1
        code = city_code(title)
        self.titles.setdefault(code, title)
        return list(self.titles).index(code)


def city_code(title: str) -> str:
    """The short name of a city: the paper's, or for others their name in small letters."""
    words = "".join(letter if letter.isalnum() else " " for letter in title.casefold()).split()
    return CODES.get(" ".join(words), "-".join(words) or "city")


def date_of(day: int) -> date:
    """The date so many days after NEW_YEAR."""
    return NEW_YEAR + timedelta(days=day)


def _days_by_mmdd() -> NDArray[np.int16]:
    """The days since NEW_YEAR for every number MMDD, -1 for those that are no date."""
    days = np.full(10_000, -1, np.int16)
    for day in range(365):
        days[int(f"{date_of(day):%m%d}")] = day
    return days


DAYS = _days_by_mmdd()


def read_rows(paths: Sequence[Path], progress: Progress = lambda _: None) -> Rows:
    """The rows of these files, one after the other; of several with one order_id the first clean one is kept."""
    pa, _ = arrow()
    cities = _Cities()
    parts, ids = [NO_CELLS], []
    sizes: list[int] = []  # of each file, the rows that are no malformed lines
    malformed: list[dict[int, str]] = []
    for path in paths:
        malformed.append({})
        sizes.append(0)
        for batch in batches(path, malformed[-1], progress):
            cells, orders = _cleaned(batch, cities)
            parts.append(cells)
            ids.append(orders)
            sizes[-1] += len(batch)
    rows = _Cells(*map(np.concatenate, zip(*parts, strict=True)))
    clean = np.flatnonzero(rows.reasons < 0)
    again = _seen_before(pa.chunked_array(ids, pa.string()).take(pa.array(clean)))
    rows.reasons[clean[again]] = REASONS.index(DUPLICATE)
    kept = clean[~again]
    names, regions = _regions(cities, rows.cities[kept], rows.numbers[kept])
    counts = [size + len(lines) for size, lines in zip(sizes, malformed, strict=True)]
    return Rows(names, regions, rows.days[kept], rows.places[kept], counts, _left_out(rows.reasons, sizes, malformed))


def _cleaned(batch: Any, cities: _Cities) -> tuple[_Cells, Any]:
    """The cells of rows as numbers, with what is wrong with them, and the order_ids."""
    _, pc = arrow()
    texts = {name: pc.utf8_trim(batch.column(name), characters=WRAPPING) for name in COLUMNS}
    absent = {name: _array(pc.equal(text, "")) for name, text in texts.items()}
    numbers, is_whole = _numbers(texts["region_id"], WHOLE)
    days = DAYS[_numbers(texts["ds"], MMDD)[0].astype(np.int64)]
    (lng, is_lng), (lat, is_lat) = (_numbers(texts[name], NUMBER) for name in ("lng", "lat"))
    possible = (np.abs(lng) <= 180) & (np.abs(lat) <= 90) & ((lng != 0) | (lat != 0))
    wrong = {
        EMPTY: np.logical_and.reduce(list(absent.values())),
        NO_ORDER: absent["order_id"],
        NO_CITY: absent["city"],
        NO_REGION: ~is_whole,
        NO_DATE: days < 0,
        NO_PLACE: absent["lng"] | absent["lat"],
        NO_NUMBER: ~(is_lng & is_lat),
        NOWHERE: ~possible,
    }
    reasons = np.full(len(batch), -1, np.int8)
    for reason, rows in reversed(wrong.items()):
        reasons[rows] = REASONS.index(reason)
    places = np.where(possible[:, None], np.stack((lng, lat), axis=1), 0)
    titles = texts["city"].dictionary_encode()
    known = np.array([cities.number(title) for title in titles.dictionary.to_pylist()], np.int16)
    cells = _Cells(
        known[_array(titles.indices)],
        numbers.astype(np.int32),
        days,
        np.rint(places * UNITS).astype(np.int32),
        reasons,
    )
    return cells, texts["order_id"]


def _array(column: Any) -> NDArray[Any]:
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _numbers(texts: Any, pattern: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The numbers these texts are, 0 for those that are not of the pattern, and which are."""
    pa, pc = arrow()
    fits = pc.match_substring_regex(texts, pattern)
    return _array(pc.if_else(fits, texts, "0").cast(pa.float64())), _array(fits)


def _seen_before(ids: Any) -> NDArray[np.bool_]:
    """Which ids have been before. Arrow numbers them as they first appear, so a new one is higher than all before."""
    numbers = _array(ids.combine_chunks().dictionary_encode().indices)
    return np.asarray(np.diff(np.maximum.accumulate(numbers), prepend=-1) == 0)


def _regions(
    cities: _Cities, city: NDArray[np.int16], number: NDArray[np.int32]
) -> tuple[list[RegionId], NDArray[np.int64]]:
    """The regions there are, sorted by the city's code and the number, and which is each row's."""
    codes = sorted(cities.titles)
    ranks = np.array([codes.index(code) for code in cities.titles], np.int64)
    pairs, regions = np.unique((ranks[city] << 32) + number, return_inverse=True)
    found = [(codes[pair >> 32], pair & 0xFFFFFFFF) for pair in pairs.tolist()]
    return [RegionId(code, number, cities.titles[code]) for code, number in found], regions


def _left_out(reasons: NDArray[np.int8], sizes: list[int], malformed: list[dict[int, str]]) -> LeftOut:
    """All rows that have a reason, and the malformed lines."""
    parts = [np.empty((0, 3), np.int64)]
    for file, (part, lines) in enumerate(zip(np.split(reasons, np.cumsum(sizes)[:-1]), malformed, strict=True)):
        others = np.array(sorted(lines), np.int64)
        index = np.flatnonzero(part >= 0)
        skipped = np.searchsorted(others - np.arange(len(others)), index + 2, side="right")
        found = [*zip((index + 2 + skipped).tolist(), part[index].tolist(), strict=True)]
        found += [(line, REASONS.index(reason)) for line, reason in lines.items()]
        parts.append(np.array([(file, *each) for each in sorted(found)], np.int64).reshape(-1, 3))
    return LeftOut(*np.concatenate(parts).T)
