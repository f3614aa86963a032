"""The test sets that runs need: which are missing or too small, and the commands that build them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dree.data import FILES, SetKey, user_folder
from dree.data.testsets import build_command, known_entry
from dree.experiments import RunSettings
from dree.experiments.material import command_for, stored_keys
from dree.reproduce.base import Choice
from dree.reproduce.finer_sets import built_on_the_spot

Needed = Sequence[tuple[RunSettings, Sequence[SetKey]]]  # runs, each with the sets it is tested on


def missing_tests(runs: Sequence[RunSettings], choice: Choice) -> str | None:
    """The test sets that runs need and that nobody has built, or not large enough, with the commands that do.

    Those that the scale builds on the spot are not missed.
    """
    needed = [(run, stored_keys(run)) for run in runs if run.data is None]
    every = dict.fromkeys(key for _, keys in needed for key in keys)
    missing = [key for key in every if not (known_entry(key) or (choice.scale.builds_finer and built_on_the_spot(key)))]
    small = _too_small(needed)
    if not missing and not small:
        return None
    size = f" of {max(small.values())} instances" if small else ""
    commands = " && ".join([*_building(missing, needed), *_enlarging(small)])
    count = len(missing) + len(small)
    sets, them = ("test set", "it") if count == 1 else ("test sets", "them")
    return f"{count} {sets}{size}. Build {them} with: {commands}"


def _too_small(needed: Needed) -> dict[SetKey, int]:
    """The user's own sets with fewer instances than a run is tested on, and how many that are.

    Shipped ones cannot be replaced: a run says itself that it is to be tested on fewer.
    """
    counts: dict[SetKey, int] = {}
    for run, keys in needed:
        for key in keys:
            counts[key] = max(counts.get(key, 0), run.test_instances or 0)
    own = {key: known_entry(key, user_folder()) for key in counts if not known_entry(key, FILES)}
    return {key: counts[key] for key, entry in own.items() if entry and entry["instances"] < counts[key]}


def _building(missing: Sequence[SetKey], needed: Needed) -> list[str]:
    """The commands that build what is not there."""
    lacking = [(run, [key for key in missing if key in keys]) for run, keys in needed]  # in one order for all runs
    return list(dict.fromkeys(command_for(run, keys) for run, keys in lacking if keys))


def _enlarging(small: Mapping[SetKey, int]) -> list[str]:
    """The commands that build larger sets in the place of those that are there."""
    kinds: dict[tuple[str, str, int], list[SetKey]] = {}
    for key, count in small.items():
        kinds.setdefault((key.problem, key.spec, count), []).append(key)
    return [f"{build_command(keys)} --count {count} --force" for (*_, count), keys in kinds.items()]
