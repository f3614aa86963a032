"""Solved instances, kept on disk: a long build that is interrupted goes on, and nothing is solved twice."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from dree.errors import DreeError


def cache_folder() -> Path:
    """Where dree keeps what it can make again: `$DREE_CACHE`, or the user's cache folder."""
    if "DREE_CACHE" in os.environ:
        return Path(os.environ["DREE_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dree"


class Cache:
    """Tours by instance and by how they were found, in one SQLite file that several processes may share."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._tours = sqlite3.connect(path, timeout=60, isolation_level=None)
            self._tours.execute("CREATE TABLE IF NOT EXISTS tours (key BLOB PRIMARY KEY, actions TEXT)")
        except sqlite3.DatabaseError as error:
            raise DreeError(f"The cache of solved instances, {path}, cannot be used ({error}). Delete it.") from None

    def __enter__(self) -> Cache:
        """This cache, to be closed at the end."""
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        """Close the file."""
        self._tours.close()

    def get(self, key: bytes) -> list[int] | None:
        """The tour kept under this key, if any."""
        row = self._tours.execute("SELECT actions FROM tours WHERE key = ?", (key,)).fetchone()
        return None if row is None else [int(action) for action in json.loads(row[0])]

    def put(self, key: bytes, actions: list[int]) -> None:
        """Keep a tour."""
        self._tours.execute("INSERT OR REPLACE INTO tours VALUES (?, ?)", (key, json.dumps(actions)))


def key_of(content: bytes, made: Mapping[str, Any]) -> bytes:
    """The key of an instance, given as bytes, solved in a way that `made` describes."""
    return hashlib.sha256(json.dumps(dict(made), sort_keys=True).encode() + b"\0" + content).digest()
