"""The metrics of finished runs, over several of them, and what the paper has printed for the same setting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dree.data.published import Row, published, published_metrics, published_region
from dree.errors import DreeError
from dree.evaluation.metrics import Metrics, measures_in, metrics
from dree.experiments.configuration import LADE, PAPER_EPOCHS, RunSettings
from dree.experiments.folder import RunFolder
from dree.experiments.naming import from_preset, method_title
from dree.tasks import ORDERS, Stream

# What may differ between runs of the paper, or has no part in what is learned and measured.
FREE = {"problem", "scenario", "order", "epochs", "method", "base", "seed", "device", "checkpoint_seconds", "tests"}
NOT_LEARNED = {"learner.precision", "solver.chunk_bytes"}  # how it is computed, not what
PAPER_REGIONS = ["cq-144", "hz-120", "jl-31", "sh-2", "yt-167"]


class Kind(NamedTuple):
    """What runs must have in common for their mean to mean something."""

    problem: str
    scenario: str
    epochs: int | None  # None: as many as a region has days to learn
    method: str  # with its ablation and its changed options: `dree without pir`
    base: str  # the base solver
    tests: str  # principal or finer, or process, those of real days
    changes: tuple[str, ...] = ()  # other settings that are not the paper's: `batches = 32`


@dataclass(frozen=True)
class RunMetrics:
    """A run's metrics on one kind of test tasks, at the last tested epoch."""

    run: Path
    settings: RunSettings
    stream: Stream  # without its data, where these are real days
    kind: Kind
    epoch: int
    values: Metrics
    published: Row | None

    @property
    def finished(self) -> bool:
        """Whether the run was tested at its end."""
        return self.epoch == self.stream.epochs

    @property
    def identity(self) -> tuple[Kind, Stream, int]:
        """What a copy of the run has too, and the same run made again."""
        return self.kind, self.stream, self.settings.seed


@dataclass(frozen=True)
class MeanMetrics:
    """Mean and standard deviation, of a population, over several runs of one kind."""

    kind: Kind
    runs: int
    values: dict[str, tuple[float, float]]
    published: Row | None


def run_metrics(path: Path) -> list[RunMetrics]:
    """The metrics of a run: on its stream's own tests, and on the finer ones where it was tested on them."""
    folder = RunFolder.open(path)
    epochs, _, tasks = folder.gaps()
    settings, stream = folder.settings(), folder.stream()
    names = own_columns(stream, tasks)
    if tasks and (absent := set(stream.tests()) - set(names.values())):
        raise folder.damaged_gaps(f"it has no column for {', '.join(sorted(absent))}.")
    real = settings.scenario == LADE
    kinds = {"process" if real else "principal": [tasks.index(name) for name in names]}
    if len(tasks) > len(names):
        kinds["finer"] = list(range(len(tasks)))
    found = []
    for tests, columns in kinds.items():
        length = None if real else stream.epochs
        stream_kind = (settings.problem, settings.scenario, length, method_title(settings), settings.base, tests)
        kind = Kind(*stream_kind, tuple(f"{name} = {value}" for name, value in learned_otherwise(settings).items()))
        values = measured(folder, columns)
        found.append(RunMetrics(path, settings, stream, kind, epochs[-1], values, _published(settings, kind)))
    return found


def measured(folder: RunFolder, columns: Sequence[int] | None = None) -> Metrics:
    """The metrics of a run on some columns of its gap matrix, or on all; with Gen, once that is known."""
    if not (folder.path / "gaps.csv").exists():
        raise folder.untested()
    _, matrix, _ = folder.gaps()
    known = [row["Gen"] for row in folder.log("metrics.jsonl") if "Gen" in row]
    try:
        values = metrics(matrix if columns is None else matrix[:, columns])
    except DreeError as error:
        raise folder.damaged_gaps(str(error)) from None
    return replace(values, Gen=known[-1]) if known else values


def own_columns(stream: Stream, tasks: Sequence[str]) -> dict[str, str]:
    """The columns of a gap matrix that belong to the stream's own tests, by name, with what the stream calls them."""
    tests = stream.tests()
    names = {name: name for name in tests} | {task.name: name for name, task in tests.items()}
    return {task: names[task] for task in tasks if task in names}


def each_once(runs: Iterable[RunMetrics]) -> dict[tuple[Kind, Stream, int], RunMetrics]:
    """The runs by what they are: of several that are the same the first that is finished, or the first."""
    first: dict[tuple[Kind, Stream, int], RunMetrics] = {}
    for run in sorted(runs, key=lambda run: not run.finished):
        first.setdefault(run.identity, run)
    return first


def means(runs: Sequence[RunMetrics]) -> list[MeanMetrics]:
    """The mean over the finished runs of each kind of which there are several; what is the same run counts once."""
    result, once = [], each_once(runs).values()
    for kind in dict.fromkeys(run.kind for run in runs):
        same = [run for run in once if run.kind == kind and run.finished]
        if len(same) > 1:
            every = [run.values.as_dict() for run in same]
            names = [name for name in measures_in(every) if all(name in values for values in every)]
            columns = {name: [values[name] for values in every] for name in names}
            values = {name: (float(np.mean(each)), float(np.std(each))) for name, each in columns.items()}
            result.append(MeanMetrics(kind, len(same), values, _published_mean(same)))
    return result


def departures(settings: RunSettings) -> dict[str, Any]:
    """Settings that are not the paper's, among those that all its runs share; a dot reaches into a group.

    A method's options are no part of it: they are in the method's title.
    """
    changed = from_preset(settings, "paper").items()
    free = FREE | ({"start"} if settings.base == "omni" else set())  # it is meant to start from a learned model
    return {name: value for name, value in changed if name not in free and not name.startswith("options.")}


def learned_otherwise(settings: RunSettings) -> dict[str, Any]:
    """Those among them on which it depends what is learned; of a solver to start from, the name of its folder."""
    changed = {name: value for name, value in departures(settings).items() if name not in NOT_LEARNED}
    return changed | ({"start": Path(changed["start"]).name} if changed.get("start") else {})


def _published(settings: RunSettings, kind: Kind) -> Row | None:
    """The paper's row for a run of this problem, method, scenario, order and length, or of this region."""
    if settings.region is not None:
        as_published = settings.ratio is None and kind.base == RunSettings.base
        return published_region(settings.region, kind.method) if as_published else None
    paper_length = kind.epochs == PAPER_EPOCHS.get(kind.scenario)
    if not paper_length or settings.sizes or not isinstance(settings.order, int):
        return None
    if kind.base == "omni" and settings.start is None:
        return None  # the paper's starts from a meta-learned model
    finer = kind.tests == "finer"
    return published_metrics(kind.problem, kind.method, kind.scenario, settings.order, kind.base, finer)


def _published_mean(runs: Sequence[RunMetrics]) -> Row | None:
    """The paper's mean, where the runs are its five orders or regions; or its one row, where all are of one."""
    if any(run.published is None for run in runs):
        return None
    kind = runs[0].kind
    if all(run.published == runs[0].published for run in runs):
        return runs[0].published
    if kind.scenario == LADE:
        regions = sorted(str(run.settings.region) for run in runs)
        return published("lade").where(method=kind.method)[0] if regions == PAPER_REGIONS else None
    orders = [run.settings.order for run in runs]  # numbers, or there would be no published row
    if (kind.scenario, kind.tests) == ("drift", "principal") and sorted(orders) == sorted(ORDERS):
        return published("main").where(problem=kind.problem, method=kind.method)[0]
    return None
