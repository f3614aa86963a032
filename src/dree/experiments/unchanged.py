"""Whether a run that is to go on is still the one of which its checkpoint is, and is tested on what it has learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dree.data import SetKey
from dree.errors import DreeError
from dree.evaluation.building import check_law
from dree.experiments.folder import RunFolder
from dree.experiments.naming import ELSEWHERE, NO_MATTER
from dree.experiments.own_code import changed_code, changed_laws
from dree.settings import differences


def lasting_settings(folder: RunFolder) -> dict[str, Any]:
    """The settings in a manifest, without those that make no difference to what is learned."""
    recorded = folder.manifest()["settings"]
    return {name: value for name, value in recorded.items() if name not in NO_MATTER | ELSEWHERE}


def check_settings(path: Path, now: Mapping[str, Any], then: Mapping[str, Any] | None) -> None:
    """Refuse a run with other settings than its checkpoint has; those of earlier versions of dree have none."""
    if then is None or then == now:
        return
    ours, theirs = differences(now, then), differences(then, now)
    changed = (f"{name} was {theirs.get(name)} and is {ours.get(name)}" for name in sorted(ours | theirs))
    raise DreeError(
        f"The settings in {path / 'manifest.json'} have changed since its checkpoint was written: "
        f"{'; '.join(changed)}. A run keeps its settings. Restore them, or start a new run with the others."
    )


def warnings(folder: RunFolder, reached: int, epochs: int) -> list[str]:
    """What a run can go on with, after so many of its epochs, but not end as if nothing had changed; in sentences."""
    found = []
    if reached < epochs and (changed := changed_code(folder.manifest(), folder.settings())):
        found.append(
            f"Warning: {changed} has changed since {folder.path} was started, and what is left would be learned by the "
            "new code. Unless the change makes no difference there, restore the old code, or start a new run."
        )
    logged = {row["epoch"] for row in folder.log("metrics.jsonl")}
    if lacking := [str(epoch) for epoch in range(1, reached + 1) if epoch not in logged]:
        found.append(
            f"Warning: {folder.path / 'metrics.jsonl'} has no line for epoch {', '.join(lacking)}, which will not be "
            "learned again. Gaps and weights are complete. Restore the file from where it was kept, if it was."
        )
    return found


def law_warnings(folder: RunFolder, keys: Sequence[SetKey]) -> list[str]:
    """Why gaps on some test sets may be others than the run's laws, where they are the user's own, would give now.

    Of laws that are not here nothing is known.
    """
    try:
        changed = changed_laws(folder.manifest(), folder.settings())
    except DreeError:
        return []
    found = []
    if changed:
        found.append(
            f"Warning: {changed} has changed since {folder.path} was started, whose solver has learned from what the "
            "old code drew."
        )
    for key in keys:
        try:
            check_law(key)
        except DreeError as error:
            found.append(f"Warning: {error} The gaps shown here are those on the set as it is.")
    return found
