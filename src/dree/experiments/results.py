"""What runs that are kept have shown, line by line: runs that differ in their seed alone make one line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dree.data.published import Row, published_seconds
from dree.experiments.collection import collected, learned_in
from dree.experiments.configuration import RunSettings
from dree.experiments.folder import RunFolder
from dree.experiments.library_gaps import LibraryGaps, library_gaps
from dree.experiments.naming import run_name, run_title
from dree.experiments.summary import RunMetrics, each_once, learned_otherwise, means, run_metrics
from dree.lifelong import METHODS
from dree.settings import override

T = TypeVar("T")
QUARTERS = 4


@dataclass(frozen=True)
class Replays:
    """How often a method has solved remembered instances again, and with what success."""

    an_epoch: float
    interval: float | None  # new batches from one to the next, on average; None: there was none, or it is not known
    improved: tuple[float | None, ...]  # share of the instances in each quarter of the stream; None: no replay in it


@dataclass(frozen=True)
class Times:
    """Seconds by the clock, on average over the runs; None: they are not known, or not of all epochs."""

    epoch: float | None  # of learning, an epoch on average
    run: float | None  # of learning, all epochs
    tests: float | None  # of all tests


@dataclass(frozen=True)
class Result:
    """Runs with the same settings but for the seed, on the same hardware; or a single one that is not finished."""

    label: str
    runs: tuple[RunMetrics, ...]
    values: Mapping[str, float | tuple[float, float]]  # of several runs mean and standard deviation, of a population
    published: Row | None  # where all settings are the paper's
    times: Times
    published_seconds: float | None  # of learning an epoch, likewise
    peak_bytes: int | None  # of GPU memory
    device: str
    precision: str
    replays: Replays | None
    libraries: tuple[tuple[LibraryGaps, ...], ...]  # of each run

    @property
    def settings(self) -> RunSettings:
        """Of the first run."""
        return self.runs[0].settings


@dataclass(frozen=True)
class ResultTable:
    """The results of a group on one stream."""

    folder: Path  # of the group
    shared: Mapping[str, Any]  # settings that are not the paper's, the same in all runs
    results: tuple[Result, ...]
    copies: tuple[Path, ...]  # runs that are left out: others of the same line have their seeds


def result_tables(root: Path) -> list[ResultTable]:
    """A table for each group and each stream in it."""
    tables = []
    for group, paths in collected(root).items():
        runs = [run for path in paths for run in run_metrics(path)]
        tables += [_table(root / group, same) for same in _grouped(runs, lambda run: run.stream).values()]
    return tables


def _table(folder: Path, runs: Sequence[RunMetrics]) -> ResultTable:
    every = [learned_otherwise(run.settings) for run in runs]
    shared = {name: value for name, value in every[0].items() if all(each.get(name) == value for each in every)}
    lines = _grouped(sorted(runs, key=_rank), _line).values()
    results = [_result(list(each_once(same).values()), shared) for same in lines]
    shown = {run.run for result in results for run in result.runs}
    copies = dict.fromkeys(run.run for run in runs if run.run not in shown)
    return ResultTable(folder, shared, tuple(_told_apart(results)), tuple(copies))


def _told_apart(results: list[Result]) -> list[Result]:
    """The same with more words in labels that would be alike: the precision, the device, at last a run's name."""
    tells: tuple[Callable[[Result], str], ...] = (
        lambda result: result.precision,
        lambda result: result.device,
        lambda result: result.runs[0].run.name,
    )
    for tell in tells:
        words = {label: {tell(each) for each in alike} for label, alike in _grouped(results, _label_of).items()}
        results = [
            replace(each, label=f"{each.label}, {tell(each)}") if len(words[each.label]) > 1 else each
            for each in results
        ]
    return results


def _label_of(result: Result) -> str:
    return result.label


def _result(runs: Sequence[RunMetrics], shared: Mapping[str, Any]) -> Result:
    first, folders = runs[0], [RunFolder(run.run) for run in runs]
    mean = means(runs)
    timings = [folder.log("timings.jsonl") for folder in folders]
    peaks = [row["peak_bytes"] for rows in timings for row in rows if row.get("peak_bytes") is not None]
    at_once = {int(folder.manifest()["hardware"].get("at_once", 1)) for folder in folders}
    alike = len(at_once) == 1  # otherwise their times are not the same thing
    as_published = first.finished and not learned_otherwise(first.settings)
    return Result(
        label=_label(first, shared),
        runs=tuple(runs),
        values=mean[0].values if mean else first.values.as_dict(),
        published=first.published if as_published else None,
        times=_times(timings, first.epoch) if alike else Times(None, None, None),
        published_seconds=_published_seconds(first) if first.published and as_published else None,
        peak_bytes=max(peaks, default=None) if alike else None,
        device=_device(folders[0], at_once),
        precision=learned_in(folders[0]),
        replays=_replays(first, [row for folder in folders for row in folder.log("metrics.jsonl")]),
        libraries=tuple(library_gaps(folder) for folder in folders),
    )


def _times(runs: Sequence[Sequence[Mapping[str, Any]]], epochs: int) -> Times:
    """From the timings of runs that were all tested last after so many epochs."""
    runs = [[row for row in rows if row["epoch"] <= epochs] for rows in runs]
    every = [row["seconds"] for rows in runs for row in rows]
    whole = all({row["epoch"] for row in rows} >= set(range(1, epochs + 1)) for rows in runs)
    timed = whole and all("test_seconds" in row for rows in runs for row in rows)  # runs before they were kept: no
    return Times(
        epoch=float(np.mean(every)) if every else None,
        run=sum(every) / len(runs) if whole else None,
        tests=sum(row["test_seconds"] for rows in runs for row in rows) / len(runs) if timed else None,
    )


def _published_seconds(run: RunMetrics) -> float | None:
    settings, order = run.settings, run.settings.order
    assert isinstance(order, int)  # or there would be no published row
    return published_seconds(settings.problem, run.kind.method, settings.scenario, order, settings.base)


def _label(run: RunMetrics, shared: Mapping[str, Any]) -> str:
    """The method, and what sets the run apart from others in its table."""
    own = {name: value for name, value in learned_otherwise(run.settings).items() if name not in shared}
    words = [run_title(run.settings), *(f"{name} {value}" for name, value in own.items())]
    words += ["finer tests"] if run.kind.tests == "finer" else []
    words += [] if run.finished else [f"seed {run.settings.seed} up to epoch {run.epoch}"]
    return ", ".join(words)


def _replays(run: RunMetrics, log: Sequence[Mapping[str, Any]]) -> Replays | None:
    """From the logs of runs with the same settings as one; None where the method has no instance replay."""
    rows = [row for row in log if "replays" in row]
    if not rows:
        return None
    length = run.stream.epochs
    improved = []
    for quarter in range(QUARTERS):
        inside = [row for row in rows if (row["epoch"] - 1) * QUARTERS // length == quarter and row["replays"]]
        times = [row["replays"] for row in inside]
        improved.append(float(np.average([row["improved"] for row in inside], weights=times)) if inside else None)
    an_epoch = float(np.mean([row["replays"] for row in rows]))
    batches = run.settings.known_batches
    return Replays(an_epoch, batches / an_epoch if batches and an_epoch else None, tuple(improved))


def _rank(run: RunMetrics) -> tuple[int, str, str, bool, int, str]:
    """Methods in the order in which they are listed everywhere, then by their options; seeds in order."""
    known = [*METHODS, run.settings.method].index(run.settings.method)
    return known, run.kind.method, _without_seed(run), not run.finished, run.settings.seed, run.run.name


def _line(run: RunMetrics) -> tuple[str, ...]:
    """What the runs of one line have in common; a run that is not finished has a line of its own."""
    folder = RunFolder(run.run)
    alone = "" if run.finished else run.run.name
    device = folder.manifest()["hardware"]["device"]
    return _without_seed(run), run.kind.tests, device, learned_in(folder), alone


def _device(folder: RunFolder, at_once: Collection[int]) -> str:
    """The device, and how many runs took turns on it, where these are all of a kind."""
    device = str(folder.manifest()["hardware"]["device"])
    several = [number for number in at_once if number > 1]
    return f"{device} ({several[0]} runs at once)" if len(at_once) == len(several) == 1 else device


def _without_seed(run: RunMetrics) -> str:
    """A name that tells all settings but those that do not matter here."""
    return run_name(override(run.settings, {"seed": 0, "learner.precision": "auto"}))


def _grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> dict[Hashable, list[T]]:
    """Items by their keys, both in the order in which they come."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
