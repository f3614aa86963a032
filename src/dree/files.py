"""Files that are either the old ones or the new ones, never half of each."""

from __future__ import annotations

import os
from pathlib import Path

from dree.errors import DreeError


def write_bytes(path: Path, content: bytes) -> Path:
    """Write a whole file in one step, on the disk when this returns; folders are made on the way."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise DreeError(
            f"Cannot write {path}: {error.strerror}. What was there before is unharmed. "
            "Make room or choose another place."
        ) from error
    return path


def write_text(path: Path, text: str) -> Path:
    """Write a whole text file in one step."""
    return write_bytes(path, text.encode())
