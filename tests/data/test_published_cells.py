"""The package's copy of the paper's tables, cell by cell: every number stands where it is printed."""

from __future__ import annotations

import json
import re

import pytest
from latex_tables import PAPER, latex_rows, numbers

from dree.data.published import FILE, published
from dree.reproduce.base import TITLES
from dree.reproduce.lade import REGIONS

pytestmark = pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")

PROBLEMS = (("cvrp",), ("tsp",))
SCENARIOS = tuple((scenario, *problem) for scenario in ("periodic", "sudden") for problem in PROBLEMS)
METHODS = tuple((title,) for title in TITLES.values())
NAMES = {"FT": "Fine-tuning", "yt-67": "yt-167"}  # what the paper calls differently in one table than in the others
# The words that a printed row starts with; then the groups of its numbers, side by side, and what tells them apart.
LAYOUTS = {
    **dict.fromkeys(
        ("main", "ablation", "finer", "llr-bc-frequency", "mt-cumulative"), (("method",), PROBLEMS, ("problem",))
    ),
    "orders": (("order", "method"), PROBLEMS, ("problem",)),
    "solvers": (("method", "solver"), PROBLEMS, ("problem",)),
    "wall-clock": (("solver", "stream"), PROBLEMS, ("problem",)),
    "scenarios": (("method",), SCENARIOS, ("scenario", "problem")),
    "libraries": (("method",), (("cvrplib",), ("tsplib",)), ("library",)),
    "cvrplib": (("instance",), METHODS, ("method",)),
    "tsplib": (("instance",), METHODS, ("method",)),
    "lade": (("method",), ((),), ()),
    "lade-regions": (("region", "method"), ((),), ()),
}


def printed_cells(name):
    """The printed rows; a first cell that is empty is that of the row above."""
    first = ""
    for row in latex_rows(published(name).label):
        first = row[0] or first
        words = re.fullmatch(r"(.*) \((.*)\)", first).groups() if name == "solvers" else (first,)
        yield [*words, *row[1:]]


def printed(name):
    """What our rows must be."""
    words, groups, apart = LAYOUTS[name]
    columns = [column for column in published(name).columns if column not in (*words, *apart)]
    for row in printed_cells(name):
        known = {word: NAMES.get(cell, cell) for word, cell in zip(words, row, strict=False)}
        values = [value(cell) for cell in row[len(words) :]]
        for number, group in enumerate(groups):
            part = values[number * len(columns) :][: len(columns)]
            yield known | dict(zip(apart, group, strict=True)) | dict(zip(columns, part, strict=True))
        assert len(values) == len(groups) * len(columns)


def value(cell):
    """A number, a mean with its deviation, or None for a dash."""
    found = tuple(numbers(cell))
    return found if len(found) > 1 else next(iter(found), None)


def as_set(rows):
    return {tuple(sorted((name, str(cell) if name == "order" else cell) for name, cell in row.items())) for row in rows}


def test_every_table_of_the_paper_is_compared():
    content = json.loads(FILE.read_text(encoding="utf-8"))["tables"]
    tables = {name for name, table in content.items() if table["label"].startswith("tab:")}
    assert tables == {*LAYOUTS, "hyper-parameters", "flops"}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_number_stands_where_the_paper_has_it_and_there_is_no_other(name):
    theirs = list(printed(name))
    assert len(theirs) == len(published(name).rows)
    assert as_set(published(name).rows) == as_set(theirs)


def test_hyper_parameters_stand_beside_their_own_settings():
    theirs = {
        (problem, row[start].replace(" ", "").replace("|B|", "buffer"), *map(float, row[start + 1 : start + 5]))
        for row in latex_rows("tab:parameter")
        for problem, start in (("cvrp", 0), ("tsp", 5))
    }
    assert {tuple(row.values()) for row in published("hyper-parameters").rows} == theirs


def test_operations_are_those_of_their_solver_problem_and_size():
    units = {"B": 1e9, "M": 1e6}
    theirs = {
        (solver, problem.lower(), size, *(round(float(number) * units[unit]) for number, unit in counts))
        for solver, problem, *cells in latex_rows("tab:FLOP")
        for size, cell in zip((20, 50, 100), cells, strict=True)
        for counts in [re.findall(r"([\d.]+)([BM])", cell)]
    }
    rows = published("flops").rows
    assert {tuple(row.values())[: 5 if row["problem"] == "cvrp" else 4] for row in rows} == theirs
    assert {row["for each return"] for row in rows if row["problem"] == "tsp"} == {0}


def test_the_regions_of_real_days_have_their_own_packages():
    theirs = {
        region: (*map(int, span.split("--")), *numbers(mean))
        for region, _, span, mean in latex_rows("tab:region_characteristics")
    }
    assert theirs == REGIONS
