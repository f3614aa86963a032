"""What a run learns from and is tested on: its stream, its test sets, and their hashes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from dree.bars import Bars, Say, no_bar
from dree.data import FILES, SetKey, TestSet, find_set, load_set
from dree.data.lade import load_deliveries
from dree.data.testsets import build_command, known_entry, spec_option
from dree.errors import DreeError
from dree.evaluation.building import check_law
from dree.evaluation.day_tests import day_tests, digest_of
from dree.experiments.configuration import RunSettings
from dree.experiments.folder import RunFolder
from dree.experiments.own_code import changed_code
from dree.experiments.trained import start_record
from dree.randomness import named_generator
from dree.tasks import RecordedStream, Stream, check_drawn, own_source
from dree.tasks.lade import LadeStream

SAMPLED = 20  # epochs of a new run, about, whose first batch is looked at where code of the user's own draws it


@dataclass(frozen=True)
class Material:
    """All that a run needs from outside."""

    stream: Stream
    tests: dict[str, TestSet]  # by the names of the gap matrix's columns
    hashes: dict[str, str]  # of all test sets, by their names
    held_out: dict[str, TestSet] = field(default_factory=dict)  # for Gen, where the stream has days after its last

    def record(self) -> dict[str, Any]:
        """What a manifest keeps of it."""
        return {"data": self.hashes, **_record_of(self.stream)}


def load_material(
    settings: RunSettings,
    say: Say = lambda _: None,
    bars: Bars = no_bar,
    recorded: Mapping[str, Any] | None = None,
    *,
    new: bool = False,
) -> Material:
    """What a run with these settings needs; days that are not those that are `recorded` in its manifest are refused.

    So are, for a new run, test sets by laws that were edited since, and laws that draw what cannot be learned. The
    references of real days are computed where they are not there yet.
    """
    stream = settings.stream(say, bars)
    if isinstance(stream, RecordedStream):
        raise DreeError(stream.why)
    if recorded is not None and _record_of(stream).get("deliveries") != recorded.get("deliveries"):
        raise DreeError(
            f"The deliveries in {settings.data} are not those with which the run was started. Restore the files that "
            "its manifest names, or start a new run."
        )
    if isinstance(stream, LadeStream):
        process, held_out = day_tests(stream, settings.test_instances, bars)
        hashes = {test.name: digest_of(test) for test in (*process.values(), *held_out.values())}
        return Material(stream, process, hashes, held_out)
    tests = _stored_tests(settings, stream)
    if new:
        for key in stored_keys(settings):
            check_law(key)
        _check_batches(settings, stream)
    return Material(stream, tests, _stored_hashes(settings, tests))


def _check_batches(settings: RunSettings, stream: Stream) -> None:
    """Refuse code of the user's own that draws what cannot be learned in the first batch of some epochs."""
    for epoch in range(1, stream.epochs + 1, max(1, stream.epochs // SAMPLED)):
        task = stream.task(epoch)
        if (source := own_source(task)) is not None:
            chance = named_generator(settings.seed, "instances", epoch, 0)
            check_drawn(task.sample(settings.batch_size, chance), source)


def _record_of(stream: Stream) -> dict[str, Any]:
    """What a manifest keeps of a stream that the settings alone do not give."""
    return {"deliveries": stream.record()} if isinstance(stream, LadeStream) else {}


def changed_since(folder: RunFolder, settings: RunSettings) -> str | None:
    """What a run with these settings would rest on now that is not what the run in a folder rests on, in words."""
    manifest = folder.manifest()
    if manifest.get("start") != start_record(settings).get("start"):
        return "first weights"
    if code := changed_code(manifest, settings):
        return f"modules of your own ({code})"
    if settings.data is not None:
        now = _recorded_days(settings.data, str(settings.region), settings.ratio)
        return None if manifest.get("deliveries") == now else "deliveries"
    now_there = {key.name: _digest(key) for key in stored_keys(settings)}
    then = manifest["data"]
    same = all(then.get(name, digest) == digest for name, digest in now_there.items() if digest is not None)
    return None if same else "test sets"


@cache
def _recorded_days(data: str, region: str, ratio: float | None) -> dict[str, Any]:
    return load_deliveries(Path(data)).stream(region, ratio).record()


@cache
def _digest(key: SetKey) -> str | None:
    stored = find_set(key)
    return None if stored is None else str(stored.entry["sha256"])


def stored_keys(settings: RunSettings) -> list[SetKey]:
    """The stored test sets that a run on synthetic tasks needs."""
    tasks = settings.test_tasks(settings.stream())
    return [SetKey(task.problem, task.name, settings.spec) for task in tasks.values()]


def load_tests(settings: RunSettings) -> dict[str, TestSet]:
    """The test set of each of the run's test tasks."""
    return load_material(settings).tests


def _stored_tests(settings: RunSettings, stream: Stream) -> dict[str, TestSet]:
    """The first instances of sets that were built before, shipped or the user's own."""
    tasks = settings.test_tasks(stream)
    keys = {name: SetKey(task.problem, task.name, settings.spec) for name, task in tasks.items()}
    check_there(list(keys.values()), partial(command_for, settings))
    tests = {}
    for name, key in keys.items():
        test = load_set(key)
        count = settings.test_instances or len(test.instances)
        if count > len(test.instances):
            stored = find_set(key)
            own = stored is not None and stored.folder != FILES
            more = f", or build a larger set with: {build_command([key])} --count {count} --force" if own else "."
            raise DreeError(
                f"test_instances is {count}, but {test.name} has {len(test.instances)}. Ask for fewer{more}"
            )
        tests[name] = test.first(count)
    return tests


def _stored_hashes(settings: RunSettings, tests: Mapping[str, TestSet]) -> dict[str, str]:
    """The hashes of the files of such sets."""
    stored = {test.name: find_set(SetKey(settings.problem, test.task, settings.spec)) for test in tests.values()}
    return {name: found.entry["sha256"] for name, found in stored.items() if found is not None}


def check_there(keys: Sequence[SetKey], command: Callable[[Sequence[SetKey]], str] = build_command) -> None:
    """Say by which command the test sets that are missing are built, all of them at once."""
    missing = [key for key in keys if not known_entry(key)]
    if not missing:
        return
    raise DreeError(
        f"{len(missing)} of the {len(keys)} test sets needed are missing, first {missing[0].name}. "
        f"Build them with: {command(missing)}"
    )


def command_for(settings: RunSettings, missing: Sequence[SetKey]) -> str:
    """The command that builds those test sets of a run that are missing."""
    if settings.tests == "finer" and not settings.sizes and isinstance(settings.order, int):
        which = f"--order {settings.order} --problem {settings.problem}{spec_option(settings.spec)}"
        return f"dree data build --finer {which}"
    return build_command(missing)
