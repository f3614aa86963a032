"""The real days of LaDe: five regions, five methods; and what the regions are like."""

from __future__ import annotations

import os
from dataclasses import replace

from dree.data.lade import load_deliveries
from dree.errors import DreeError
from dree.evaluation.metrics import MEASURES
from dree.experiments import RunSettings
from dree.experiments.summary import PAPER_REGIONS
from dree.experiments.tables import Cell, PaperRow, PaperTable
from dree.reproduce.base import REFERENCE, TITLES, Choice, Drawn, Experiment, Found
from dree.reproduce.lines import Line, MetricsExperiment

NODES = 300  # of a larger day a random part of so many nodes is compared
NEEDS = "LaDe-D's files. Fetch them with dree data lade FOLDER --download, and say where they are with --lade FOLDER"
# The table of regions as printed: least and most packages a day, mean and standard deviation.
REGIONS: dict[str, tuple[int, int, float, float]] = {
    "sh-2": (2, 175, 56.9, 28.7),
    "hz-120": (88, 608, 327.8, 97.9),
    "jl-31": (2, 175, 56.9, 28.7),
    "yt-167": (9, 108, 42.2, 21.8),
    "cq-144": (3, 153, 26.3, 32.0),
}


def regions_in(choice: Choice) -> list[str]:
    """The paper's regions that the files have; where they have none of them, all that they have; without files, all."""
    if choice.lade is None:
        return PAPER_REGIONS
    names = [region.name for region in load_deliveries(choice.lade).names]
    return [region for region in PAPER_REGIONS if region in names] or names


class OnLade(Experiment):
    """An experiment that needs LaDe-D's files."""

    def lacks(self, choice: Choice) -> str | None:
        """The files, unless they are said to be somewhere."""
        return NEEDS if choice.lade is None else None


class Lade(OnLade, MetricsExperiment):
    """Mean and standard deviation over the regions."""

    name = "lade"
    title = "Real days: metrics over regions"
    source = "Table 6, LaDe"
    table = "lade"
    heads = ("method",)
    columns = tuple(MEASURES)

    def lines(self, choice: Choice) -> list[Line]:
        """Every method over all regions."""
        return [
            Line(
                (title,),
                tuple(run for region in regions_in(choice) for run in _runs(choice, region, method)),
                self.row(method=title),
                reference=method == REFERENCE,
            )
            for method, title in TITLES.items()
        ]

    def tables(self, choice: Choice, found: Found) -> list[PaperTable]:
        """With a note where ours are not the paper's five regions."""
        (table,) = super().tables(choice, found)
        regions = regions_in(choice)
        if sorted(regions) == sorted(PAPER_REGIONS):
            return [table]
        return [replace(table, notes=(*table.notes, f"Ours over {', '.join(regions)}, the paper's over five regions."))]


class LadeRegions(OnLade, MetricsExperiment):
    """The same runs, region by region."""

    name = "lade-regions"
    title = "Real days: metrics of each region"
    source = "Appendix, table of each region"
    table = "lade-regions"
    heads = ("region", "method")
    columns = tuple(MEASURES)

    def lines(self, choice: Choice) -> list[Line]:
        """Every region and method."""
        return [
            Line(
                (region, title),
                tuple(_runs(choice, region, method)),
                self.row(region=region, method=title),
                reference=method == REFERENCE,
            )
            for region in regions_in(choice)
            for method, title in TITLES.items()
        ]


class Regions(OnLade):
    """Packages a day in each region."""

    name = "regions"
    title = "Packages a day in each region"
    source = "Appendix, table of regions"

    def tables(self, choice: Choice, found: Found) -> list[PaperTable]:
        """Counted from the files."""
        assert choice.lade is not None
        deliveries = load_deliveries(choice.lade, found.say, found.bars)
        rows = []
        for name in regions_in(choice):
            counts = deliveries.region(name).packages
            printed = REGIONS.get(name)
            cells = (
                Cell(float(counts.min()), printed and float(printed[0])),
                Cell(float(counts.max()), printed and float(printed[1])),
                Cell((float(counts.mean()), float(counts.std())), printed and printed[2:]),
            )
            rows.append(PaperRow((name,), cells))
        notes = ("The paper prints the same numbers for sh-2 and jl-31.",)
        columns = ("fewest", "most", "mean")
        return [PaperTable(self.name, self.title, self.source, ("region",), columns, tuple(rows), notes, ranked=False)]


class DriftFigures(OnLade):
    """Where the packages are, how many, and how days grow apart."""

    name = "drift"
    title = "Real days drift"
    source = "Figures on LaDe: nodes by day, daily sizes, Gromov-Wasserstein distance by lag"

    def lacks(self, choice: Choice) -> str | None:
        """The files, or POT."""
        from dree.evaluation.gromov_wasserstein import made

        try:
            made()
        except DreeError as error:
            return f"a package: {error}"
        return super().lacks(choice)

    def figures(self, choice: Choice, found: Found) -> list[Drawn]:
        """One figure for each region."""
        from dree.evaluation.drift import measure_drift, region_days
        from dree.report.drift_figure import drift_figure

        assert choice.lade is not None
        deliveries = load_deliveries(choice.lade, found.say, found.bars)
        drawn = []
        for name in regions_in(choice):
            days = region_days(deliveries.region(name))
            with found.bars(1.0) as part:
                advance = part(f"comparing days of {name}", 1.0)
                result = measure_drift(days, NODES, 0, os.cpu_count() or 1, found.say, advance)
            drawn.append(Drawn(f"{self.name}-{name}", f"{name}: {result.sentence}", drift_figure(result)))
        return drawn


def _runs(choice: Choice, region: str, method: str) -> list[RunSettings]:
    return [
        choice.settings(scenario="lade", data=str(choice.lade or "LADE"), region=region, method=method, seed=seed)
        for seed in choice.seeds
    ]
