"""One process at a time changes a state directory; who it is can be read while it does."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from dree.errors import DreeError
from dree.experiments.folder import BusyError

LOCK = "lock"


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def locked(path: Path, purpose: str) -> Iterator[None]:
    """Hold a state directory, which is made where there is none; a second process is refused.

    The system frees it when the process dies, so a lock that was left behind holds nobody up.
    """
    path.mkdir(parents=True, exist_ok=True)
    with (path / LOCK).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(f"{path} is in use by {_owner(file)}. Wait for it to end, then try again.") from None
        except OSError as error:
            raise DreeError(
                f"{path} cannot be locked: {error.strerror}. Two processes might change it at once, so nothing was "
                "done. Put it on a drive that knows locks, such as one of this machine."
            ) from None
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
