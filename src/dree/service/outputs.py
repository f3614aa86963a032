"""Outputs of commands, which must not take the place of a state directory's own files."""

from __future__ import annotations

from pathlib import Path

from dree.errors import DreeError
from dree.service.lock import LOCK
from dree.service.state import FILES, STATE, UNFINISHED


def check_output(path: Path, out: Path) -> None:
    """Refuse to write an output over what is the state directory's own, which would destroy it."""
    target, own = out.resolve(), path.resolve()
    names = [each.casefold() for each in target.relative_to(own).parts] if target.is_relative_to(own) else []
    if names and (names[0] in (STATE, FILES, LOCK) or names[0].startswith(UNFINISHED)):
        raise DreeError(f"{out} belongs to the state in {path} and would be lost. Write to another place.")
