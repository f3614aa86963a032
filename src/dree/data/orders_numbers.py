"""Numbers as people and spreadsheets write them: with a decimal point or comma, in groups of thousands, with spaces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

from dree.errors import DreeError

MARKS = {".": "point", ",": "comma"}
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?")
WITH_COMMA = re.compile(r"[+-]?[0-9]+(?:,[0-9]*)?")
GROUPED = {
    ".": re.compile(r"[+-]?[1-9][0-9]{0,2}(?:([ ',])[0-9]{3})(?:\1[0-9]{3})*(?:\.[0-9]*)?"),
    ",": re.compile(r"[+-]?[1-9][0-9]{0,2}(?:([ '.])[0-9]{3})(?:\1[0-9]{3})*(?:,[0-9]*)?"),
}
THOUSANDS = {mark: re.compile(rf"[+-]?[1-9][0-9]{{0,2}}{re.escape(mark)}[0-9]{{3}}") for mark in MARKS}
SPELLING = str.maketrans({"\u00a0": " ", "\u2009": " ", "\u202f": " ", "’": "'", "−": "-", "°": " "})


def decimal_mark(cells: Sequence[str]) -> str | None:
    """The mark that most numbers have which have one mark; None where none has one."""
    counts = Counter(mark for cell in cells for mark in MARKS if cell.count(mark) == 1 and _other(mark) not in cell)
    counts.update(max(MARKS, key=cell.rfind) for cell in cells if all(mark in cell for mark in MARKS))
    return max(MARKS, key=lambda mark: counts[mark]) if counts else None


def check_thousands(cells: Sequence[str], column: str, mark: str) -> None:
    """Refuse marks that may be decimal or may group thousands: none of the numbers that have one tells."""
    marked = [cell for cell in cells if mark in cell]
    if marked and all(THOUSANDS[mark].fullmatch(cell) for cell in marked):
        raise DreeError(f"The column '{column}' has {marked[0]}, {either(marked[0])}")


def own_mark(cells: Sequence[str], column: str, usual: str, points: bool) -> str:
    """The decimal mark of a column by its own numbers; the usual one where none of them has a mark.

    Numbers that may be in thousands are refused, unless all others that have a mark tell of the same one, or they have
    points and `points` says that these are decimal.
    """
    counts = Counter(cell for cell in cells if any(mark in cell for mark in MARKS))
    read = {cell: [mark for mark in MARKS if plain_number(cell, mark) is not None] for cell in counts}
    told: Counter[str] = Counter()
    for cell, marks in read.items():
        told.update({mark: counts[cell] for mark in marks if len(marks) == 1})
    unclear = [cell for cell, marks in read.items() if len(marks) > 1]
    if unclear and len(told) != 1 and (told or not points or any("," in cell for cell in unclear)):
        raise DreeError(f"The column '{column}' has {unclear[0]}, {either(unclear[0])}")
    if told:
        return max(told, key=lambda mark: (told[mark], mark == usual))
    return "." if unclear else usual


def has_whole(cells: Sequence[str]) -> bool:
    """Whether some are whole numbers above 0 without a mark, as there are none where all have the same decimals."""
    return any(cell.lstrip("+-").isdecimal() and cell.strip("+-0") for cell in cells)


def either(number: str) -> str:
    """What a number with thousands or decimals may be, and how to write which it is: for those that `may_group`."""
    whole, decimal = re.sub("[.,]", "", number), number.replace(",", ".").rstrip("0").rstrip(".")
    clear = f"{decimal}0" if may_group(decimal) else decimal
    return f"which may be {whole} or {decimal}. Write {whole} or {clear}, without marks between thousands."


def may_group(number: str) -> bool:
    """Whether the mark in a number may be decimal or group thousands: 1.300 and 1,300 may, 0.300 and 1.30 do not."""
    return any(pattern.fullmatch(number) for pattern in THOUSANDS.values())


def plain_number(cell: str, mark: str) -> str | None:
    """A number as Python writes it, or None if it is none."""
    if mark == "." and NUMBER.fullmatch(cell):
        return cell
    if mark == "," and WITH_COMMA.fullmatch(cell):
        return cell.replace(",", ".")
    cell = cell.translate(SPELLING).strip().replace("- ", "-", 1)
    if GROUPED[mark].fullmatch(cell):
        cell = re.sub(f"[ '{_other(mark)}]", "", cell)
    if mark == "," and "." not in cell:
        cell = cell.replace(",", ".", 1)
    elif mark == ",":
        return None
    return cell if NUMBER.fullmatch(cell) else None


def exact(cell: str, mark: str) -> Decimal | None:
    """A number exactly, or None if it is none."""
    number = plain_number(cell, mark)
    return None if number is None else Decimal(number)


def _other(mark: str) -> str:
    return "," if mark == "." else "."
