"""Errors a user can act on: every message says what is wrong and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class DreeError(Exception):
    """Something the user can put right. The command line prints it without a traceback."""


def with_article(noun: str) -> str:
    """As a sentence has it: an int, a float."""
    return f"{'an' if noun[0] in 'aeiouAEIOU' else 'a'} {noun}"


def unknown(kind: str, name: object, choices: Iterable[str]) -> DreeError:
    """The error for a name that is not one of `choices`; it suggests the nearest one."""
    names = list(choices)
    folded = {choice.casefold(): choice for choice in names}
    wanted = str(name).casefold()
    alike = [choice for choice in folded if choice[:1] == wanted[:1]]  # of others, more letters must be the same
    near = difflib.get_close_matches(wanted, list(folded), n=1, cutoff=0.6)
    near = near or difflib.get_close_matches(wanted, alike, n=1, cutoff=0.5)
    hint = f" Did you mean '{folded[near[0]]}'?" if near else ""
    choice = f"Choose from: {', '.join(names)}." if names else "There is none."
    return DreeError(f"Unknown {kind} '{name}'.{hint} {choice}")
