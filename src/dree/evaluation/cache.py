"""What took long to compute, kept on disk: work that is interrupted goes on, and nothing is done twice."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from dree.errors import DreeError


class _Table:
    """A table of values by key in one SQLite file that several processes may share."""

    what: ClassVar[str]  # is kept, in words
    columns: ClassVar[str]  # the table's name and its columns

    def __init__(self, path: Path) -> None:
        """Open the file, or make it."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._file = sqlite3.connect(path, timeout=60, isolation_level=None)
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        self._run(f"CREATE TABLE IF NOT EXISTS {self.columns}")

    def __enter__(self) -> Self:
        """This cache, to be closed at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()

    def _run(self, statement: str, *values: bytes | str) -> list[Any]:
        try:
            return self._file.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            self._file.close()
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> DreeError:
        return DreeError(
            f"The cache of {self.what}, {self.path}, cannot be used ({error}). Delete it; what it kept is then "
            "computed again."
        )


class Cache(_Table):
    """Tours by instance and by how they were found."""

    what = "solved instances"
    columns = "tours (key BLOB PRIMARY KEY, actions TEXT)"

    def get(self, key: bytes) -> list[int] | None:
        """The tour kept under this key, if any."""
        rows = self._run("SELECT actions FROM tours WHERE key = ?", key)
        try:
            return [int(action) for action in json.loads(rows[0][0])] if rows else None
        except (TypeError, ValueError) as error:
            raise self._unusable(error) from None

    def put(self, key: bytes, actions: list[int]) -> None:
        """Keep a tour."""
        self._run("INSERT OR REPLACE INTO tours VALUES (?, ?)", key, json.dumps(actions))


class DistanceCache(_Table):
    """Distances between two sets of nodes by their content and by how they were computed."""

    what = "distances"
    columns = "distances (key BLOB PRIMARY KEY, distance REAL)"

    def get(self, key: bytes) -> float | None:
        """The distance kept under this key, if any."""
        rows = self._run("SELECT distance FROM distances WHERE key = ?", key)
        if not rows:
            return None
        (distance,) = rows[0]
        if not isinstance(distance, float) or not 0 <= distance < math.inf:
            raise self._unusable(ValueError(f"it has the distance {distance}"))
        return distance

    def put(self, distances: Iterable[tuple[bytes, float]]) -> None:
        """Keep distances with their keys, all of them or none."""
        try:
            self._file.execute("BEGIN")
            self._file.executemany("INSERT OR REPLACE INTO distances VALUES (?, ?)", distances)
            self._file.execute("COMMIT")
        except sqlite3.Error as error:
            self._file.close()
            raise self._unusable(error) from None


def key_of(content: bytes, made: Mapping[str, Any]) -> bytes:
    """The key of something, given as bytes, that was computed in a way that `made` describes."""
    return hashlib.sha256(json.dumps(dict(made), sort_keys=True).encode() + b"\0" + content).digest()
