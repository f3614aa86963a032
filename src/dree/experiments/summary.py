"""The metrics of finished runs, over several of them, and what the paper has printed for the same setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dree.data.published import Row, published, published_metrics
from dree.errors import DreeError
from dree.evaluation.metrics import METRICS, Metrics, metrics
from dree.experiments.configuration import PAPER_EPOCHS, RunSettings
from dree.experiments.folder import RunFolder
from dree.experiments.naming import method_title
from dree.settings import differences
from dree.tasks.streams import ORDERS

# What may differ between runs of the paper, or has no part in what is learned and measured.
FREE = {"problem", "scenario", "order", "epochs", "method", "seed", "device", "checkpoint_seconds", "tests"}


class Kind(NamedTuple):
    """What runs must have in common for their mean to mean something."""

    problem: str
    scenario: str
    epochs: int
    method: str  # with its ablation and its changed options: `dree without pir`
    tests: str  # principal or finer


@dataclass(frozen=True)
class RunMetrics:
    """A run's metrics on one kind of test tasks, at the last tested epoch."""

    run: Path
    settings: RunSettings
    kind: Kind
    epoch: int
    values: Metrics
    published: Row | None

    @property
    def finished(self) -> bool:
        """Whether the run was tested at its end."""
        return self.epoch == self.kind.epochs


@dataclass(frozen=True)
class MeanMetrics:
    """Mean and standard deviation, of a population, over several runs of one kind."""

    kind: Kind
    runs: int
    values: dict[str, tuple[float, float]]
    published: Row | None


def run_metrics(path: Path) -> list[RunMetrics]:
    """The metrics of a run: on the principal tasks, and on the finer ones where it was tested on them."""
    folder = RunFolder.open(path)
    epochs, matrix, tasks = folder.gaps()
    if not tasks:
        raise DreeError(f"{path} has not been tested yet. Continue it with: dree run --resume {path}")
    settings = folder.settings()
    names = principal_columns(settings, tasks)
    kinds = {"principal": [tasks.index(name) for name in names]}
    if len(tasks) > len(names):
        kinds["finer"] = list(range(len(tasks)))
    length = settings.stream().epochs
    found = []
    for tests, columns in kinds.items():
        kind = Kind(settings.problem, settings.scenario, length, method_title(settings), tests)
        values = metrics(matrix[:, columns])
        found.append(RunMetrics(path, settings, kind, epochs[-1], values, _published(settings, kind)))
    return found


def principal_columns(settings: RunSettings, tasks: Sequence[str]) -> dict[str, str]:
    """The columns of a gap matrix that belong to principal tasks, by name, with their laws."""
    stream = settings.stream()
    laws = {law: law for law in stream.order} | {stream.principal(law).name: law for law in stream.order}
    return {task: laws[task] for task in tasks if task in laws}


def means(runs: Sequence[RunMetrics]) -> list[MeanMetrics]:
    """The mean over the finished runs of each kind of which there are several."""
    result = []
    for kind in dict.fromkeys(run.kind for run in runs):
        same = [run for run in runs if run.kind == kind and run.finished]
        if len(same) > 1:
            columns = {name: [run.values.as_dict()[name] for run in same] for name in METRICS}
            values = {name: (float(np.mean(each)), float(np.std(each))) for name, each in columns.items()}
            result.append(MeanMetrics(kind, len(same), values, _published_mean(same)))
    return result


def departures(settings: RunSettings) -> dict[str, Any]:
    """Settings that are not the paper's, among those that all its runs share; a dot reaches into a group.

    A method's options are no part of it: they are in the method's title.
    """
    changed = differences(settings, RunSettings()).items()
    return {name: value for name, value in changed if name not in FREE and not name.startswith("options")}


def _published(settings: RunSettings, kind: Kind) -> Row | None:
    """The paper's row for a run of this problem, method, scenario, order and length."""
    paper_length = kind.epochs == PAPER_EPOCHS.get(kind.scenario)
    if not paper_length or settings.sizes or not isinstance(settings.order, int):
        return None
    return published_metrics(kind.problem, kind.method, kind.scenario, settings.order, finer=kind.tests == "finer")


def _published_mean(runs: Sequence[RunMetrics]) -> Row | None:
    """The paper's mean, where the runs are its five orders; or its one row, where all runs are of one order."""
    if any(run.published is None for run in runs):
        return None
    kind = runs[0].kind
    orders = [run.settings.order for run in runs]  # numbers, or there would be no published row
    if all(order == orders[0] for order in orders):
        return runs[0].published
    if (kind.scenario, kind.tests) == ("drift", "principal") and sorted(orders) == sorted(ORDERS):
        return published("main").where(problem=kind.problem, method=kind.method)[0]
    return None
