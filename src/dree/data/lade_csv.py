"""LaDe-D's CSV files as columns of text, read with Arrow a few megabytes at a time.

No cell of LaDe holds a comma or a line break, so quotes may wrap a cell and mean nothing else: a stray one harms no row
but its own, and every row is a line.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from dree.errors import DreeError

COLUMNS = ("order_id", "region_id", "city", "lng", "lat", "ds")  # those that are used
DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars"}
WRAPPING = '" \t\r\n'  # what may be around a cell
BLOCK = 1 << 22  # bytes read at once; no line is longer
FEWER = "fewer cells than columns"
MORE = "more cells than columns (decimal commas?)"
COMMA = "a comma inside a cell (a decimal comma?)"

Progress = Callable[[int], None]  # hears how many bytes were read since the last call


def arrow() -> tuple[Any, Any]:
    """Arrow, and its functions on arrays."""
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError:
        raise DreeError("Reading LaDe's files needs the package pyarrow: pip install 'dree[lade]'.") from None
    return pyarrow, pyarrow.compute


def check_header(path: Path) -> None:
    """Refuse a file that is not LaDe's, by name."""
    with path.open("rb") as file:
        _header(path, file)


def batches(path: Path, malformed: dict[int, str], progress: Progress) -> Iterator[Any]:
    """The file's columns as record batches of text; lines that are no rows go to `malformed`, with the reason.

    Lines are counted from 1, the header's. Those that are in no batch are exactly those in `malformed`.
    """
    pa, _ = arrow()
    from pyarrow import csv as arrow_csv

    with path.open("rb") as file:
        names = _header(path, file)
        if not file.peek(1):
            return

        def note(row: Any) -> str:
            malformed[row.number + 1] = _malformation(row.text, row.actual_columns, len(names))
            return "skip"

        try:
            yield from arrow_csv.open_csv(
                pa.PythonFile(_Text(file, progress), mode="r"),
                arrow_csv.ReadOptions(use_threads=False, block_size=BLOCK, column_names=names),  # threads lose count
                arrow_csv.ParseOptions(quote_char=False, ignore_empty_lines=False, invalid_row_handler=note),
                arrow_csv.ConvertOptions(
                    include_columns=list(COLUMNS), column_types=dict.fromkeys(COLUMNS, pa.string())
                ),
            )
        except pa.ArrowInvalid as error:
            raise DreeError(f"{path} cannot be read as CSV ({error}). Was it damaged or converted?") from None


class _Text(io.RawIOBase):
    """A file in which every byte that is not UTF-8 reads as a question mark, so that it spoils its own row only."""

    def __init__(self, file: BinaryIO, progress: Progress) -> None:
        super().__init__()
        self._file, self._progress = file, progress
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, but for the bytes that a letter cut in two may have left in the decoder."""
        text = b""
        while not text:
            chunk = self._file.read(len(buffer) - 3)
            self._progress(len(chunk))
            if chunk.isascii() and not self._decoder.getstate()[0]:
                text = chunk
            else:
                text = self._decoder.decode(chunk, final=not chunk).encode("utf-8", "replace")
            if not chunk:
                break
        buffer[: len(text)] = text
        return len(text)


def _header(path: Path, file: BinaryIO) -> list[str]:
    """The names of the columns, from the first line."""
    line = file.readline(BLOCK).decode("utf-8-sig", errors="replace")
    names = _names(line, ",")
    missing = [name for name in COLUMNS if name not in names]
    for delimiter, words in DELIMITERS.items():
        if missing and set(COLUMNS) <= set(_names(line, delimiter)):
            raise DreeError(
                f"{path} separates its cells by {words}, LaDe's files by commas. Save it with commas between cells and "
                "points in numbers."
            )
    if missing:
        raise DreeError(
            f"{path} is not a file of LaDe-D: its first line does not name {', '.join(missing)}. It must name "
            f"{', '.join(COLUMNS)}, and may name more."
        )
    if len(set(names)) < len(names):
        raise DreeError(f"{path} names a column twice: {', '.join(names)}.")
    return names


def _names(line: str, delimiter: str) -> list[str]:
    return [name.strip(WRAPPING).lower() for name in line.split(delimiter)]


def _malformation(line: str, cells: int, columns: int) -> str:
    """Why a line is no row."""
    try:
        if cells > columns == len(next(csv.reader([line]), [])):
            return COMMA
    except csv.Error:  # not even the quotes make sense of it
        return MORE
    return MORE if cells > columns else FEWER
