"""The demo: fine-tuning and DREE, one after the other, on the same small drifting stream."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from dree.errors import DreeError
from dree.experiments.configuration import DEMO, RunSettings
from dree.experiments.folder import RunFolder
from dree.lifelong import METHODS
from dree.settings import override

COST = {"fine-tuning": 1.0, "dree": 1.7}  # the demo's methods, and about how long a batch takes each
PAGE = "report.html"


def demo_settings(changes: Mapping[str, Any]) -> dict[str, RunSettings]:
    """Both runs by method: the same but for the method and, in the paper's ratio, its new batches an epoch.

    `changes` are to both; `batches` is fine-tuning's number, `options` are DREE's.
    """
    if "method" in changes:
        raise DreeError("The demo is about two methods. For another one: dree run --preset demo --method NAME.")
    shared = override(DEMO, {**changes, "method": "dree"})
    return {
        method: replace(
            shared,
            method=method,
            options=shared.options if method == "dree" else {},
            batches=shared.batches and max(1, round(shared.batches * _share(method))),
        )
        for method in COST
    }


def clear_demo(path: Path) -> bool:
    """Remove an earlier demo, and nothing that is not one; whether there was one.

    A demo has a run's folder for each method. In earlier versions it was a single run.
    """
    if not path.exists():
        return False
    parts = [path / method for method in COST]
    runs = [RunFolder(each) for each in (path, *parts) if (each / "manifest.json").is_file()]
    found = [run.path for run in runs]
    foreign = [run.path for run in runs if run.manifest()["kind"] != "demo"]
    foreign += [file for run in runs if run.path in parts for file in run.strangers()]
    foreign += [each for each in parts if each.exists() and each not in found]
    foreign += [] if runs else path.iterdir()
    if foreign:
        raise DreeError(f"{foreign[0]} is not a demo's, so it is left alone. Choose another folder with --out.")
    with ExitStack() as held:
        for run in runs:  # none is touched while one of them is under way
            held.enter_context(run.locked())
        for run in runs:
            run.remove()
    if runs:
        (path / PAGE).unlink(missing_ok=True)
    return bool(runs)


def _share(method: str) -> float:
    """A method's new batches an epoch as a share of fine-tuning's, as in the paper."""
    return METHODS[method].batches_per_epoch / METHODS["fine-tuning"].batches_per_epoch
