"""A customer's file of orders: what was understood, its days, and every row that cannot be used, with the reason."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np

from dree.errors import DreeError
from dree.tasks.orders import Orders

NO_COLUMNS: Mapping[str, str] = {}


@dataclass(frozen=True)
class BadRow:
    """A row that is not routed: its line in the file (the first is 1), why, and what is there."""

    line: int
    reason: str
    text: str


@dataclass(frozen=True, eq=False)
class OrderFile:
    """What a file of orders holds, and how it was read."""

    path: Path
    days: tuple[Orders, ...]  # sorted by date
    bad: tuple[BadRow, ...]  # sorted by line
    encoding: str
    delimiter: str
    decimal: str  # the decimal mark
    columns: Mapping[str, str]  # meaning -> name of the column, such as date -> ds
    notes: tuple[str, ...]  # sentences that a person should read: what was assumed, what is not used

    def days_to_route(self) -> tuple[Orders, ...]:
        """The days; an error where there are none."""
        if not self.days:
            raise DreeError(f"{self.path} has no stop that can be routed. See why with: dree orders check {self.path}")
        return self.days


def read_orders(
    path: Path,
    columns: Mapping[str, str] = NO_COLUMNS,
    *,
    depot: tuple[float, float] | None = None,
    capacity: Decimal | None = None,
) -> OrderFile:
    """The orders in a CSV file; `columns` and `depot` (latitude and longitude, or x and y) are as a person gives them."""
    rows = [*csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines())]
    names = {name.lower(): name for name in rows[0]}
    lng, lat = (names[each] for each in ("lng", "lat"))
    days: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        days.setdefault(row[names["ds"]].zfill(4) if "ds" in names else path.stem, []).append(row)
    orders = []
    for day, part in sorted(days.items()):
        places = np.array([[float(row[lng]), float(row[lat])] for row in part])
        name = f"{day[:2]}-{day[2:]}" if "ds" in names else day
        stops = tuple(row[names["order_id"]] if "order_id" in names else str(i) for i, row in enumerate(part))
        demands = None if capacity is None else np.ones(len(places), np.int64)
        start = None if depot is None else (depot[1], depot[0])
        orders.append(Orders(name, places, stops, True, start, demands, None if capacity is None else int(capacity)))
    return OrderFile(path, tuple(orders), (), "UTF-8", ",", ".", {"lat": lat, "lon": lng}, ())
