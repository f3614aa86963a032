"""Files that are either the old ones or the new ones, never half of each."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from dree.errors import DreeError


def write_bytes(path: Path, *parts: bytes | memoryview) -> Path:
    """Write a whole file, of one part or several, in one step; on the disk when this returns. Folders are made."""
    target = plain_file(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                file.writelines(parts)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
            sync_folder(target.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise DreeError(
            f"Cannot write {path}: {error.strerror}. What was there before is unharmed. "
            "Make room or choose another place."
        ) from error
    return path


def plain_file(path: Path) -> Path:
    """The file that a name leads to, through links, there already or not; refuse a folder, a device, a pipe."""
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113  (pathlib's may fail themselves)
        raise DreeError(f"Cannot write {path}: it is {'a folder' if path.is_dir() else 'no plain file'}. Name a file.")
    return path.resolve() if path.is_symlink() else path


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written, as far as that shows before: a nameless one is tried in its folder.

    Where that is not there yet, in the nearest folder above it that is.
    """
    _try_in(plain_file(path).absolute().parents, f"Cannot write {path}", "Choose another place.")


def check_folder(path: Path, option: str = "--out") -> None:
    """Refuse a folder, there already or not, in which no file can be written; for what works long before it writes."""
    places = (path.absolute(), *path.absolute().parents)
    _try_in(places, f"Nothing can be written to {path}", f"Choose another folder; commands take it with {option}.")


def _try_in(places: Sequence[Path], refusal: str, advice: str) -> None:
    """Try a nameless file in the first of some folders that is there."""
    folder = next(each for each in places if os.path.exists(each))  # noqa: PTH110  (pathlib's may fail itself)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DreeError(f"{refusal}: {error.strerror} ({folder}). {advice}") from error


def sync_folder(folder: Path) -> None:
    """See to it that the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: Path, text: str) -> Path:
    """Write a whole text file in one step."""
    return write_bytes(path, text.encode())


class BusyError(DreeError):
    """A folder that another process is working on."""


def lock(file: IO[str], busy: Callable[[], str]) -> None:
    """Hold the folder in which a file is, by that file, for this process alone; `busy` says that another one does.

    The system frees it when the process dies, so a lock that was left behind holds nobody up.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BusyError(busy()) from None
    except OSError as error:
        raise DreeError(
            f"{Path(file.name).parent} cannot be locked: {error.strerror}. Two processes might change it at once, so "
            "nothing was done. Put it on a drive that knows locks, such as one of this machine."
        ) from None


@contextmanager
def only_one_in(folder: Path) -> Iterator[None]:
    """Work that one process at a time does in a folder; others wait. The system lets them in if this one dies."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def cache_folder() -> Path:
    """Where dree keeps what it can make again: `$DREE_CACHE`, or the user's cache folder."""
    if "DREE_CACHE" in os.environ:
        return Path(os.environ["DREE_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dree"


def write_json(path: Path, content: Any) -> Path:
    """Write plain values as a JSON file in one step."""
    return write_text(path, json.dumps(content, indent=2) + "\n")


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows as a CSV file in one step, with a header of all their columns; what a row lacks stays empty."""
    text = io.StringIO()
    columns = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return write_text(path, text.getvalue())
