"""What runs are called: a method with what was changed in it, and the folder of a run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from hashlib import blake2b
from pathlib import Path
from typing import Any

from dree.errors import DreeError
from dree.experiments.configuration import RunSettings, preset
from dree.lifelong import make_method, method_class
from dree.settings import differences

IN_NAME = {"problem", "scenario", "order", "epochs", "method", "seed"}  # always part of a folder's name
NO_MATTER = {"device", "checkpoint_seconds"}  # another run, but not another result
LONGEST = 160  # characters; file systems take 255


def method_title(settings: RunSettings) -> str:
    """A run's method as people call it: `dree`, `dree without pir`, `llr-bc, buffer_every 10`."""
    options = _changed_options(settings)
    without = options.pop("without", None)
    ablation = f" without {without}" if without else ""
    return ", ".join([settings.method + ablation, *(f"{name} {value}" for name, value in options.items())])


def run_labels(paths: Sequence[Path], settings: Sequence[RunSettings]) -> list[str]:
    """Runs are called by their methods, or by their folders where a method occurs twice with one problem."""
    methods = [(each.problem, method_title(each)) for each in settings]
    if len(set(methods)) == len(methods):
        return [method for _, method in methods]
    names = [path.resolve().name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def run_name(settings: RunSettings, start: str = "paper") -> str:
    """The name of a run's folder; runs with different settings have different names.

    It names the method with its options, and every other setting that is not as in the preset `start`.
    """
    stream = settings.stream()
    laws = str(settings.order) if isinstance(settings.order, int) else "".join(stream.order)
    method = method_title(settings).replace(", ", "-")
    parts = [settings.problem, settings.scenario, laws, method, f"T{stream.epochs}", f"seed{settings.seed}"]
    changed = {
        name: value
        for name, value in differences(settings, preset(start)).items()
        if name not in IN_NAME | NO_MATTER and not name.startswith("options")
    }
    parts = [*([start] if start != "paper" else []), *parts, *(f"{name}={value}" for name, value in changed.items())]
    name = re.sub(r"[^\w.=+-]+", "-", "-".join(parts))
    if len(name) <= LONGEST:
        return name
    return f"{name[:LONGEST]}-{blake2b(name.encode(), digest_size=4).hexdigest()}"


def check_ablation(method: str) -> None:
    """Refuse `without` for a method that has no parts to leave out."""
    if "without" not in {field.name for field in fields(method_class(method).options_class)}:
        raise DreeError(f"Nothing can be left out of method '{method}'. Use --without with --method dree.")


def _changed_options(settings: RunSettings) -> dict[str, Any]:
    """The method's options that are not its defaults."""
    options = make_method(settings.method, settings.options).options
    return differences(options, type(options)())
