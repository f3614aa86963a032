"""Solved instances, kept on disk: a long build that is interrupted goes on, and nothing is solved twice."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dree.errors import DreeError


class Cache:
    """Tours by instance and by how they were found, in one SQLite file that several processes may share."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._tours = sqlite3.connect(path, timeout=60, isolation_level=None)
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        self._run("CREATE TABLE IF NOT EXISTS tours (key BLOB PRIMARY KEY, actions TEXT)")

    def __enter__(self) -> Cache:
        """This cache, to be closed at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._tours.close()

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

    def _run(self, statement: str, *values: bytes | str) -> list[Any]:
        try:
            return self._tours.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            self._tours.close()
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> DreeError:
        return DreeError(
            f"The cache of solved instances, {self.path}, cannot be used ({error}). Delete it; what it kept is then "
            "solved again."
        )


def key_of(content: bytes, made: Mapping[str, Any]) -> bytes:
    """The key of an instance, given as bytes, solved in a way that `made` describes."""
    return hashlib.sha256(json.dumps(dict(made), sort_keys=True).encode() + b"\0" + content).digest()
