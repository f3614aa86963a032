"""Tables of runs on the first order: parts of DREE left out, other hyper-parameters, other ways to train."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from dree.bars import Bars, Say
from dree.experiments.tables import PaperTable
from dree.reproduce.base import LIFELONG, Choice, Found
from dree.reproduce.finer_sets import build_missing, missing_sets
from dree.reproduce.lines import Line, MetricsExperiment

Variants = Mapping[str, Mapping[str, Any]]
DREE: dict[str, Any] = {"method": "dree"}


def dree_with(**options: Any) -> dict[str, Any]:
    """DREE with other options."""
    return {"method": "dree", "options": options}


class FirstOrder(MetricsExperiment):
    """A row for each of some variants on each problem."""

    column = "method"  # of the published table, which names the variant
    variants: ClassVar[Variants]  # what the paper calls it: changes
    only: ClassVar[Mapping[str, str]] = {}  # variants of one problem alone
    changes: ClassVar[Mapping[str, Any]] = {}  # of all runs

    def lines(self, choice: Choice) -> list[Line]:
        """Every variant on every problem."""
        return [
            Line(
                (problem.upper(), title),
                tuple(choice.settings(problem=problem, seed=seed, **variant, **self.changes) for seed in choice.seeds),
                self.row(**{"problem": problem, self.column: title}),
            )
            for problem in choice.problems
            for title, variant in self.variants.items()
            if self.only.get(title, problem) == problem
        ]


class Ablation(FirstOrder):
    """DREE without one of its parts."""

    name = "ablation"
    title = "DREE without one of its parts"
    source = "Table 5, ablation study"
    table = "ablation"
    variants: ClassVar[Variants] = {f"w.o.{part.upper()}": dree_with(without=part) for part in ("pir", "br", "ee")} | {
        "DREE": DREE
    }


class Hyperparameters(FirstOrder):
    """DREE with one hyper-parameter changed."""

    name = "hyperparameters"
    title = "DREE with other hyper-parameters"
    source = "Appendix, table of hyper-parameters"
    table = "hyper-parameters"
    column = "setting"
    heads = ("problem", "setting")
    variants: ClassVar[Variants] = {
        **{f"alpha({alpha})": dree_with(alpha=float(alpha)) for alpha in (50, 200, 5, 20)},
        "beta(0.5)": dree_with(beta=0.5),
        "beta(2)": dree_with(beta=2.0),
        "buffer(128)": dree_with(buffer=128),
        "buffer(64)": dree_with(buffer=64),
        "UB(8)": dree_with(upper=8.0),
        "LB(2)": dree_with(lower=2.0),
        "DREE": DREE,
    }
    only: ClassVar[Mapping[str, str]] = {
        "alpha(50)": "cvrp",
        "alpha(200)": "cvrp",
        "alpha(5)": "tsp",
        "alpha(20)": "tsp",
    }


class BufferingFrequency(FirstOrder):
    """LLR-BC that remembers more seldom."""

    name = "llrbc-frequency"
    title = "LLR-BC that remembers every 10 or 100 epochs"
    source = "Appendix, table of LLR-BC's buffering frequency"
    table = "llr-bc-frequency"
    variants: ClassVar[Variants] = {
        "LLR-BC(10)": {"method": "llr-bc", "options": {"buffer_every": 10}},
        "LLR-BC(100)": {"method": "llr-bc", "options": {"buffer_every": 100}},
        "LLR-BC": {"method": "llr-bc"},
    }

    def tables(self, choice: Choice, found: Found) -> list[PaperTable]:
        """A stream may be too short for the rarest of them."""
        (table,) = super().tables(choice, found)
        epochs = choice.settings().stream().epochs
        short = f"In {epochs} epochs, LLR-BC(100) never remembers anything: it is fine-tuning."
        return [table if epochs > 100 else replace(table, notes=(*table.notes, short))]


class Cumulative(FirstOrder):
    """Multi-task training that starts again now and then."""

    name = "mt-cumulative"
    title = "Multi-task training from scratch on all tasks so far"
    source = "Appendix, comparison with MT-cu"
    table = "mt-cumulative"
    variants: ClassVar[Variants] = {"MT-cu": {"method": "mt-cumulative"}, "DREE": DREE}


class Finer(FirstOrder):
    """41 test tasks along the drift."""

    name = "finer"
    title = "The finer-grained test: 41 tasks along the drift"
    source = "Appendix, table of the finer-grained test set"
    table = "finer"
    tests = "finer"
    changes: ClassVar[Mapping[str, Any]] = {"tests": "finer"}
    variants: ClassVar[Variants] = {title: {"method": method} for method, title in LIFELONG.items()}

    def prepare(self, choice: Choice, say: Say, bars: Bars) -> None:
        """Build small sets where the scale has such."""
        if choice.scale.builds_finer:
            build_missing(missing_sets(self.runs(choice)), say, bars)
