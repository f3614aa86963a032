"""Errors a user can act on: every message says what is wrong and what to do about it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence


class DreeError(Exception):
    """Something the user can put right. The command line prints it without a traceback."""


def with_article(noun: str) -> str:
    """As a sentence has it: an int, a float."""
    return f"{'an' if noun[0] in 'aeiouAEIOU' else 'a'} {noun}"


def unknown(kind: str, name: object, choices: Iterable[str]) -> DreeError:
    """The error for a name that is not one of `choices`; it suggests the nearest one."""
    names = list(choices)
    near = _nearest(str(name), names)
    hint = f" Did you mean '{near}'?" if near else ""
    choice = f"Choose from: {', '.join(names)}." if names else "There is none."
    return DreeError(f"Unknown {kind} '{name}'.{hint} {choice}")


def _nearest(name: str, names: Sequence[str]) -> str | None:
    """The name that was probably meant; the group that all are in (`learner.`) makes none of them more alike."""
    group = name[: name.rfind(".") + 1]
    if not all(each.startswith(group) for each in names):
        group = ""
    folded = {each[len(group) :].casefold(): each for each in names}
    wanted = name[len(group) :].casefold()
    words = {each: re.split(r"[\W_]+", each) for each in folded}
    alike = [each for each in folded if each[:1] == wanted[:1]]  # of others, more letters must be the same
    found = (
        _only(each for each, parts in words.items() if len(parts) > 1 and wanted == "".join(part[:1] for part in parts))
        or difflib.get_close_matches(wanted, list(folded), n=1, cutoff=0.6)
        or difflib.get_close_matches(wanted, alike, n=1, cutoff=0.5)
        or _only(each for each, parts in words.items() if wanted and (wanted in parts or each.startswith(wanted)))
    )
    return folded[found[0]] if found else None


def _only(found: Iterable[str]) -> list[str]:
    """What was found, if it is a single one."""
    every = list(found)
    return every if len(every) == 1 else []
