"""A small suite with everything that its page can show, from real runs."""

from __future__ import annotations

import shutil
from pathlib import Path

from dree.experiments import Run
from dree.experiments.demo import demo_settings
from dree.experiments.tables import Cell, PaperRow, PaperTable
from dree.report import Picture, learning_curves
from dree.report.suite_page import RunGroup, Suite

TINY = {"epochs": 5, "batches": 3, "batch_size": 4, "test_instances": 1, "solver.width": 16, "solver.layers": 1}
EVIL = "<script>alert('&')</script>"
LAWS = ["E", "C", "G", "U", "R", "GM"]


def example_suite(folder: Path) -> Suite:
    """Two methods with their weights; the same without, beside a folder that is none; tables and a figure."""
    weights, kept = {}, {}
    for method, settings in demo_settings({**TINY, "test_every": 1}).items():
        weights[method] = folder / "runs" / method
        Run.start(weights[method], settings, kind="demo").finish()
        kept[method] = folder / "kept" / method
        shutil.copytree(weights[method], kept[method], ignore=shutil.ignore_patterns("checkpoint"))
    rows = (
        PaperRow(("CVRP", "MT-Ref"), (Cell(2.5, 3.04), Cell(None, None)), reference=True),
        PaperRow(("CVRP", "fine-tuning"), (Cell((8.5, 0.31), (8.75, 4.4)), Cell(5.0, 5.47)), tuple(weights.values())),
        PaperRow(("CVRP", f"DREE {EVIL}"), (Cell((3.0, 0.1), (3.06, 0.16)), Cell(None, 0.18))),
    )
    main = PaperTable("table1", f"Main {EVIL}", "Table 1", ("problem", "method"), ("AP", "AFB"), rows, ("One seed.",))
    long = tuple(PaperRow((f"n{i}",), (Cell(float(i), None),)) for i in range(50))
    instances = PaperTable("table2", "Instances", "Table 2", ("instance",), ("gap",), long)
    figure = learning_curves([0, 1, 2], {"U": [3.0, 2.0, 1.0]}, {"U": [(1, 2)]})
    return Suite(
        f"Paper {EVIL}",
        f"All of it {EVIL}",
        [main, instances],
        [
            RunGroup(f"With weights {EVIL}", weights),
            RunGroup("Without weights", {**kept, "lost": folder / "nowhere"}),
            RunGroup("Nothing left", {"lost": folder / "nowhere"}),
        ],
        [Picture.of(figure, "Figure 1", "A falling line")],
        {"scale": f"smoke {EVIL}"},
        [f"Table 3: no data {EVIL}"],
    )
