"""What a person says about files of orders on the command line: columns, the depot, the vehicles' capacity."""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation

from dree.data.orders_numbers import either, may_group
from dree.errors import DreeError, unknown

MEANINGS = ("date", "lat", "lon", "x", "y", "demand", "id", "name", "depot", "dates")
SPELLINGS = {"lng": "lon", "long": "lon", "longitude": "lon", "latitude": "lat"}
LARGEST_CAPACITY = 10**9
DECIMALS = 6  # of a demand or a capacity, at most


def parse_columns(text: str) -> dict[str, str]:
    """What `--map date=ds,lat=lat` says: meaning -> name of the column; an empty name means that there is none."""
    columns: dict[str, str] = {}
    for part in filter(str.strip, text.split(",")):
        meaning, mark, name = part.partition("=")
        meaning = SPELLINGS.get(meaning.strip().lower(), meaning.strip().lower())
        if not mark:
            raise DreeError(f"--map {text}: '{part}' must be a meaning and a column, such as date=ds.")
        if meaning not in MEANINGS:
            raise unknown("meaning in --map", meaning, MEANINGS)
        if meaning in columns:
            raise DreeError(f"--map {text}: {meaning} is there twice.")
        columns[meaning] = name.strip()
    return columns


def parse_depot(text: str) -> tuple[float, float]:
    """What `--depot 48.1,11.5` says: latitude and longitude, or x and y."""
    parts = text.split(";") if ";" in text else text.split(",")
    try:
        first, second = (float(part.replace(",", ".")) for part in parts)
    except ValueError:
        first = second = math.nan
    if not (math.isfinite(first) and math.isfinite(second)):
        raise DreeError(
            f"--depot {text}: give latitude and longitude (or x and y) as two numbers, such as 48.14,11.58."
        )
    return first, second


def parse_capacity(text: str) -> Decimal:
    """What `--capacity 12.5` says, exactly; 1.300 and 1,300, which may be thousands, are refused."""
    if may_group(text.strip()):
        raise DreeError(f"The capacity is {text.strip()}, {either(text.strip())}")
    try:
        capacity = Decimal(text.strip().replace(",", "."))
    except InvalidOperation:
        raise DreeError(f"The capacity must be a number above 0, not '{text}'.") from None
    return check_capacity(capacity)


def check_capacity(capacity: Decimal) -> Decimal:
    """Refuse what no vehicle can have."""
    if not (capacity.is_finite() and 0 < capacity <= LARGEST_CAPACITY and decimals(capacity) <= DECIMALS):
        raise DreeError(
            f"The capacity must be a number above 0, up to {LARGEST_CAPACITY} and with at most {DECIMALS} decimals, "
            f"not {capacity}."
        )
    return capacity


def capacity_option(capacity: Decimal) -> str:
    """The option that says a capacity; three decimals, which may be thousands, become four."""
    return f"--capacity={capacity:f}{'0' if may_group(f'{capacity:f}') else ''}"


def decimals(number: Decimal) -> int:
    """The decimals that a finite number needs."""
    exponent = number.normalize().as_tuple().exponent
    return max(0, -int(exponent))
