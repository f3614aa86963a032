"""The table in a file of orders: its delimiter, its header, its columns, and its rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dree.data.orders_columns import KINDS, Column, find_columns, is_depot_word, no_place, recognised, spellings
from dree.data.orders_text import FALLBACKS, Record, read_text, records, split_cells, split_lines
from dree.errors import DreeError

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
ABOVE = 30  # lines among which the header must be
MORE_CELLS = "more cells than the header (a decimal comma, or a delimiter in a text without quotes?)"
FEWER_CELLS = "fewer cells than the header"
HEADER_AGAIN = "the header again"


@dataclass(frozen=True)
class BadRow:
    """A row that is not routed: its line in the file (the first is 1), why, and what is there."""

    line: int
    reason: str
    text: str


@dataclass(frozen=True)
class Table:
    """Rows that have a cell for every column that counts, and the others."""

    path: Path
    encoding: str
    delimiter: str
    header: tuple[str, ...]
    columns: Mapping[str, Column]
    rows: tuple[Record, ...]
    bad: tuple[BadRow, ...]
    notes: tuple[str, ...]

    @property
    def geographic(self) -> bool:
        """Whether places are latitude and longitude."""
        return "lat" in self.columns

    def cells(self, meaning: str) -> list[str]:
        """The cells of a column, empty ones where there is no such column."""
        if meaning not in self.columns:
            return [""] * len(self.rows)
        index = self.columns[meaning].index
        return [row.cells[index] for row in self.rows]

    def name(self, index: int) -> str:
        """What the stop of a row is called: its id, else its name, else its line."""
        row = self.rows[index]
        cells = (row.cells[self.columns[meaning].index] for meaning in ("id", "name") if meaning in self.columns)
        return next(filter(None, cells), f"line {row.line}")


def read_table(path: Path, given: Mapping[str, str]) -> Table:
    """The table in a file; `given` are the names of columns that a person has said."""
    text, encoding = read_text(path)
    try:
        return _table(path, text, encoding, given)
    except DreeError as error:
        raise DreeError(" ".join([str(error), *_guessed(encoding)])) from None


def _table(path: Path, text: str, encoding: str, given: Mapping[str, str]) -> Table:
    """The table in a text."""
    lines = split_lines(text)
    delimiter, header_line = _find_header(path, lines, given)
    header = split_cells(lines[header_line - 1], delimiter)
    while header and not header[-1]:
        header.pop()
    rows, bad = _matched(records(lines, delimiter, header_line + 1, len(header)), header)
    cells = [row.cells for row in rows]
    filled = {index for index in range(len(header)) if any(index < len(row) and row[index] for row in cells)}
    kinds = {index for index in filled if KINDS & spellings(header[index])}
    marked = {i for i in kinds if any(map(is_depot_word, {row[i] for row in cells if i < len(row)}))}
    columns = find_columns(path, header, filled, marked, given)
    needed = 1 + max(column.index for column in columns.values())
    short = [row for row in rows if len(row.cells) < needed]
    bad += [BadRow(row.line, FEWER_CELLS, row.text) for row in short]
    notes = _notes(encoding, lines[: header_line - 1])
    whole = tuple(row for row in rows if len(row.cells) >= needed)
    return Table(path, encoding, delimiter, tuple(header), columns, whole, tuple(bad), notes)


def _find_header(path: Path, lines: Sequence[str], given: Mapping[str, str]) -> tuple[str, int]:
    """The delimiter, and the line of the header: the one with the most names that mean something."""
    declared = re.fullmatch(r'\s*"?sep=(.)"?\s*', lines[0], re.IGNORECASE)
    delimiters = [declared[1]] if declared else list(DELIMITERS)
    first = 2 if declared else 1
    best, most = ("", 0), 0
    for number, line in enumerate(lines[first - 1 : ABOVE], first):
        for delimiter in delimiters:
            found = recognised(split_cells(line, delimiter), given)
            if found > most:
                best, most = (delimiter, number), found
    if most:
        return best
    text = next((line for line in lines[first - 1 :] if line.strip()), "")
    header = max((split_cells(text, delimiter) for delimiter in delimiters), key=len)
    if sum(re.fullmatch(r"[-+0-9.,]+", cell) is not None for cell in header) >= 2:
        raise DreeError(
            f"{path} begins with a row of numbers, without a line that names the columns. Add one, such as: id,lat,lon"
        )
    raise no_place(path, header)


def _matched(found: Iterable[Record], header: Sequence[str]) -> tuple[list[Record], list[BadRow]]:
    """Rows with as many cells as the header has or fewer, and others; cells too many do not matter if empty."""
    rows, bad = [], []
    for record in found:
        cells = record.cells
        reason = record.reason
        if not reason and any(cells[len(header) :]):
            reason = MORE_CELLS
        if not reason and cells[: len(header)] == header:
            reason = HEADER_AGAIN
        if reason:
            bad.append(BadRow(record.line, reason, record.text))
        else:
            rows.append(record)
    return rows, bad


def _notes(encoding: str, above: Sequence[str]) -> tuple[str, ...]:
    """What a person should know of how the text was read."""
    notes = _guessed(encoding)
    passed = [line for line in above if line.strip() and not line.strip(' "').lower().startswith("sep=")]
    if passed:
        lines = "1 line above the header was" if len(passed) == 1 else f"{len(passed)} lines above the header were"
        notes.append(f"{lines} passed over.")
    return tuple(notes)


def _guessed(encoding: str) -> list[str]:
    """What is said of an encoding that was guessed."""
    if encoding not in FALLBACKS:
        return []
    kind = f"{encoding} ({FALLBACKS[encoding]})"
    return [f"The file is not UTF-8 and was read as {kind}; if names look wrong, save it as UTF-8."]
