"""A customer's file as text, whatever its encoding, and the text as records of cells."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from dree.errors import DreeError

BINARY = {  # how a file begins, and what it then is
    b"PK\x03\x04": "a workbook (.xlsx, .ods) or another zip archive",
    b"\xd0\xcf\x11\xe0": "an old workbook (.xls)",
    b"%PDF": "a PDF document",
    b"\x1f\x8b": "compressed (gzip)",
    b"PAR1": "a Parquet file",
    b"SQLite format 3": "a database",
}
MARKS = {  # longer ones first: that of UTF-32 begins with that of UTF-16
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF8: "UTF-8-SIG",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
FALLBACKS = {"Windows-1252": "Western European", "GB18030": "Chinese"}  # of what is not UTF-8
LONGEST_CELL = 50  # lines that a quoted cell may have
OPEN_QUOTE = "a quote is opened and not closed"
SAVE_AS_CSV = "Open it where it was made and save it as CSV (UTF-8)."


class Record(NamedTuple):
    """One row of a file: its first line (counted from 1), its cells, and how it is written."""

    line: int
    cells: list[str]
    text: str
    reason: str = ""  # why it is no row, where it is none


def read_text(path: Path) -> tuple[str, str]:
    """The text of a file, and its encoding; what is no text is refused."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DreeError(f"There is no file {path}.") from None
    except OSError as error:
        raise DreeError(f"{path} cannot be read: {error.strerror}. Give a CSV file of orders.") from None
    for start, kind in BINARY.items():
        if content.startswith(start):
            raise DreeError(f"{path} is {kind}, not CSV. {SAVE_AS_CSV}")
    encoding = _encoding(content)
    try:
        text = content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError:
        if encoding != "UTF-8":
            raise DreeError(f"{path} is not complete {encoding} text. Was it cut off? {SAVE_AS_CSV}") from None
        encoding = _fallback(content)
        text = content.decode(encoding, errors="replace")
    if sum(letter < " " and letter not in "\t\r\n\f\v" for letter in text[:10_000]) > 10:
        raise DreeError(f"{path} is not a text file. {SAVE_AS_CSV}")
    if not text.strip():
        raise DreeError(f"{path} is empty.")
    if text.lstrip()[0] in "{[<":
        raise DreeError(f"{path} is JSON, HTML or XML, not CSV. {SAVE_AS_CSV}")
    return text, "UTF-8" if encoding == "UTF-8-SIG" else encoding


def _encoding(content: bytes) -> str:
    """By the byte order mark, or for UTF-16 without one by the zeros beside ASCII letters; else UTF-8."""
    for mark, encoding in MARKS.items():
        if content.startswith(mark):
            return encoding
    start = content[:1000]
    zeros = (start[::2].count(0), start[1::2].count(0))
    if max(zeros) > len(start) / 4:
        return "UTF-16-BE" if zeros[0] > zeros[1] else "UTF-16-LE"
    return "UTF-8"


def _fallback(content: bytes) -> str:
    """Chinese characters are two bytes beyond ASCII side by side; letters of European languages are beside others."""
    runs = re.findall(rb"([A-Za-z]?)([\x80-\xff]+)(?=([A-Za-z]?))", content)
    european = sum(len(run) % 2 == 1 or bool(before or after) for before, run, after in runs)
    try:
        content.decode("GB18030")
    except UnicodeDecodeError:
        return "Windows-1252"
    return "Windows-1252" if european > len(runs) / 4 else "GB18030"


def split_lines(text: str) -> list[str]:
    """The lines of a text, ended in any of the three usual ways."""
    return re.split("\r\n|\r|\n", text)


def records(lines: Sequence[str], delimiter: str, first: int, columns: int) -> Iterator[Record]:
    """The rows from line number `first` on (counted from 1) that are not blank.

    A quoted cell may go over several lines. Where a line in it has as many cells as a row, the quote has been left
    open by mistake, and costs its own line alone.
    """
    index = first - 1
    while index < len(lines):
        line = lines[index]
        if line.count('"') % 2:
            record, used = _quoted(lines, index, delimiter, columns)
        else:
            record, used = Record(index + 1, split_cells(line, delimiter), line), 1
        index += used
        if record.reason or any(record.cells):
            yield record


def split_cells(line: str, delimiter: str) -> list[str]:
    """The cells of a row, without spaces around them and without the `="..."` by which Excel is told to keep a text."""
    cells = _split(line, delimiter)
    if len(cells) == 1 and delimiter in cells[0]:  # the row as a whole is in quotes
        cells = _split(cells[0], delimiter)
    return [_stripped(cell) for cell in cells]


def _split(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:  # a cell of more than 128 KiB
        return line.split(delimiter)


def _stripped(cell: str) -> str:
    cell = cell.strip()
    return cell[2:-1].strip() if cell.startswith('="') and cell.endswith('"') and len(cell) > 2 else cell


def _quoted(lines: Sequence[str], index: int, delimiter: str, columns: int) -> tuple[Record, int]:
    """The row with an odd number of quotes in its first line, and the number of its lines."""
    line = lines[index]
    if not re.search(rf'(^|{re.escape(delimiter)})\s*"', line):  # a mark of inches inside a cell
        return Record(index + 1, split_cells(line, delimiter), line), 1
    for end in range(index + 1, min(index + LONGEST_CELL, len(lines))):
        closes = lines[end].count('"') % 2 == 1
        inside = lines[end].partition('"')[0] if closes else lines[end]
        if inside.count(delimiter) >= columns - 1:
            break
        if closes:
            part = [f"{each}\n" for each in lines[index : end + 1]]
            reader = csv.reader(part, delimiter=delimiter, skipinitialspace=True, strict=True)
            try:
                cells = [_stripped(cell) for cell in next(reader)]
            except csv.Error:
                break
            if reader.line_num < len(part):
                break
            return Record(index + 1, cells, "".join(part).strip()), len(part)
    return Record(index + 1, [], line, OPEN_QUOTE), 1
