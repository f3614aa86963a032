"""Which code of the user's own a run rests on: a digest of each module, so that an edited one is noticed."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from dree.experiments.configuration import LADE, RunSettings
from dree.lifelong import method_class
from dree.solvers import solver_class
from dree.tasks.laws import law_named
from dree.tasks.streams import scenario_class


def code_record(settings: RunSettings) -> dict[str, Any]:
    """What a manifest keeps of the modules that the run's own method, base solver, scenario and laws are in."""
    kinds: list[type] = [method_class(settings.method), solver_class(settings.base)]
    if settings.scenario != LADE:
        kinds.append(scenario_class(settings.scenario))
    known = _digests([*kinds, *_laws(settings)])
    return {"code": known} if known else {}


def changed_code(manifest: Mapping[str, Any], settings: RunSettings) -> str:
    """The modules that are not as a manifest has them, in words; one that has none tells nothing."""
    then, now = manifest.get("code", {}), code_record(settings).get("code", {})
    return ", ".join(sorted(module for module in then if now.get(module) != then[module]))


def changed_laws(manifest: Mapping[str, Any], settings: RunSettings) -> str:
    """The same of the laws alone, for whoever tests and does not learn: no other module need be there."""
    then, now = manifest.get("code", {}), _digests(_laws(settings))
    return ", ".join(sorted(module for module in now if module in then and now[module] != then[module]))


def _laws(settings: RunSettings) -> list[type]:
    return [type(law_named(name)) for name in settings.order] if isinstance(settings.order, list) else []


def _digests(kinds: Iterable[type]) -> dict[str, str]:
    """By module, of classes that do not come with dree and whose source is in a file."""
    digests = {kind.__module__: _digest(kind) for kind in kinds if not kind.__module__.startswith("dree.")}
    return {module: digest for module, digest in digests.items() if digest is not None}


@cache  # by class: a module that is edited after it was imported is, as long as it is not reloaded, what it was
def _digest(kind: type) -> str | None:
    """The SHA-256 of a class's source file; None where there is none, as of a class written in a notebook."""
    file = Path(getattr(sys.modules.get(kind.__module__), "__file__", None) or "")
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None
