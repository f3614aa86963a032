"""One process at a time changes a state directory; who it is can be read while it does."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from dree.files import lock

LOCK = "lock"


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def locked(path: Path, purpose: str) -> Iterator[None]:
    """Hold a state directory, which is made where there is none; a second process is refused."""
    path.mkdir(parents=True, exist_ok=True)
    with (path / LOCK).open("a+", encoding="utf-8") as file:
        lock(file, lambda: f"{path} is in use by {_owner(file)}. Wait for it to end, then try again.")
        _write(file, json.dumps({"purpose": purpose, "pid": os.getpid(), "host": socket.gethostname(), "since": now()}))
        try:
            yield
        finally:
            _write(file, "")


def _write(file: IO[str], text: str) -> None:
    """Say who holds the lock; on a full disk it is held all the same."""
    with suppress(OSError):
        file.truncate(0)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _owner(file: IO[str]) -> str:
    """Who holds the lock, in words."""
    file.seek(0)
    try:
        owner = json.loads(file.read())
        return f"{owner['purpose']} (process {owner['pid']} on {owner['host']}, since {owner['since']})"
    except (ValueError, KeyError, TypeError):
        return "another process"
