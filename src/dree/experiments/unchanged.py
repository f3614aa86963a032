"""Whether a run that is to go on is still the one of which its checkpoint is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dree.errors import DreeError
from dree.experiments.folder import RunFolder
from dree.experiments.naming import ELSEWHERE, NO_MATTER
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
