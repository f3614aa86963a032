"""What an experiment of the paper is: the runs it needs, and the tables and figures that it makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from dree.bars import Bars, Say, no_bar
from dree.experiments import RunSettings
from dree.experiments.configuration import LADE
from dree.experiments.naming import IN_PRINT, keyed_name
from dree.experiments.summary import RunMetrics, run_metrics
from dree.experiments.tables import PaperTable
from dree.reproduce.scales import SCALES, Scale
from dree.tasks import ORDERS

PROBLEMS = ("cvrp", "tsp")
REFERENCE = "mt-ref"  # the method that is no competitor: it learns all tasks at once
TITLES = {method: IN_PRINT[method] for method in (REFERENCE, "fine-tuning", "li", "llr-bc", "dree")}
SPECIFICATIONS = {"text": "the laws of the paper's text", "official": "the laws of the official code"}
LIFELONG = {method: title for method, title in TITLES.items() if method != REFERENCE}


@dataclass(frozen=True)
class Choice:
    """Which part of the paper is wanted, how large, and where third-party data are."""

    scale: Scale = SCALES["paper"]
    problems: tuple[str, ...] = PROBLEMS
    orders: tuple[int, ...] = tuple(ORDERS)
    seeds: tuple[int, ...] = (0,)
    lade: Path | None = None  # a file of LaDe-D, or a folder of them
    libraries: Path | None = None  # a folder with the files of TSPLIB and CVRPLIB
    omni: Path | None = None  # a folder with Omni's starting models, one for each problem, named by it
    spec: str = "text"  # the laws of synthetic tasks: as the paper's text has them, or as the official code does
    frame: str = "fit"  # of library instances: how their coordinates are scaled
    everywhere: Mapping[str, Any] = field(default_factory=dict)  # settings of all runs, such as the device

    def settings(self, **changes: Any) -> RunSettings:
        """The settings of one run; real days follow no law."""
        laws = {} if changes.get("scenario") == LADE else {"spec": self.spec}
        return self.scale.settings(**{**laws, **self.everywhere, **changes})

    def with_first_seed(self) -> Choice:
        """The same with the first seed alone, for what is about single solvers."""
        return replace(self, seeds=self.seeds[:1])


class Found:
    """The finished runs of a plan, by their names."""

    def __init__(self, runs: Mapping[str, Path], out: Path, say: Say = lambda _: None, bars: Bars = no_bar) -> None:
        self.runs = runs
        self.out = out
        self.say = say
        self.bars = bars
        self._metrics: dict[Path, list[RunMetrics]] = {}

    def run(self, settings: RunSettings) -> Path | None:
        """The folder of a finished run; one with finer tests has been tested on the others too."""
        return self.runs.get(keyed_name(settings)) or self.runs.get(keyed_name(finer(settings)))

    def metrics(self, settings: RunSettings, tests: str | None = None) -> RunMetrics | None:
        """What a run has shown on its stream's own tests, or on the finer ones; None where there is no such run."""
        path = self.run(settings)
        if path is None:
            return None
        if path not in self._metrics:
            self._metrics[path] = run_metrics(path)
        every = self._metrics[path]
        return every[0] if tests is None else next((each for each in every if each.kind.tests == tests), None)


def finer(run: RunSettings) -> RunSettings:
    """The same run, tested on the finer tasks; only a drift has such."""
    return replace(run, tests="finer") if run.scenario == "drift" else run


@dataclass(frozen=True)
class Drawn:
    """A figure of the paper."""

    name: str  # files of it are called so
    caption: str
    figure: Figure


class Experiment:
    """A table or a figure of the paper. All hooks do nothing; an experiment overrides what it needs."""

    name: str
    title: str
    source: str  # where it is in the paper

    def lacks(self, choice: Choice) -> str | None:
        """What is missing to do it, and how to get it; None if nothing is."""
        return None

    def runs(self, choice: Choice) -> list[RunSettings]:
        """The runs that it needs."""
        return []

    def prepare(self, choice: Choice, say: Say, bars: Bars) -> None:
        """Whatever must be there before its runs can start."""

    def tables(self, choice: Choice, found: Found) -> list[PaperTable]:
        """Its tables, from the runs that are there."""
        return []

    def figures(self, choice: Choice, found: Found) -> list[Drawn]:
        """Its figures, from the runs that are there."""
        return []


def laws_of(runs: Iterable[RunSettings]) -> list[str]:
    """The laws that runs rest on, as a note; none where all are on real days."""
    specs = dict.fromkeys(run.spec for run in runs if run.scenario != LADE)
    named = [f"{SPECIFICATIONS[spec]} (--spec {spec})" for spec in specs]
    return [f"Instances by {' and by '.join(named)}."] if named else []


def methods_of(choice: Choice, methods: Sequence[str], **changes: Any) -> list[RunSettings]:
    """The runs of some methods, on every problem and with every seed."""
    return [
        choice.settings(problem=problem, method=method, seed=seed, **changes)
        for problem in choice.problems
        for method in methods
        for seed in choice.seeds
    ]
