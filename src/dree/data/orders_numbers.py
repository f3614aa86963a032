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
THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")
SPELLING = str.maketrans({"\u00a0": " ", "\u2009": " ", "\u202f": " ", "’": "'", "−": "-", "°": " "})


def decimal_mark(cells: Sequence[str]) -> str | None:
    """The mark that most numbers have which have one mark; None where none has one."""
    counts = Counter(mark for cell in cells for mark in MARKS if cell.count(mark) == 1 and _other(mark) not in cell)
    counts.update(max(MARKS, key=cell.rfind) for cell in cells if all(mark in cell for mark in MARKS))
    return max(MARKS, key=lambda mark: counts[mark]) if counts else None


def check_thousands(cells: Sequence[str], column: str) -> None:
    """Refuse commas that may be decimal or may group thousands."""
    with_comma = [cell for cell in cells if "," in cell]
    if with_comma and all(THOUSANDS.fullmatch(cell) for cell in with_comma):
        first = with_comma[0]
        raise DreeError(
            f"The column '{column}' has {first}, which may be {first.replace(',', '')} or {first.replace(',', '.')}. "
            "Write numbers without commas between thousands, and with a decimal point."
        )


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
