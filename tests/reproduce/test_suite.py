"""Tables and figures from finished runs: an experiment that fails keeps none of the others."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from dree.errors import DreeError
from dree.experiments.tables import Cell, PaperRow, PaperTable
from dree.reproduce import Choice, Drawn, Experiment, experiment
from dree.reproduce.plan import make_plan
from dree.reproduce.report import write_report
from dree.reproduce.scales import scale
from dree.reproduce.suite import reproduced


class Own(Experiment):
    """A user's own, whose table has one cell: this, or what is raised."""

    name, title, source = "own", "Mine", "nowhere"

    def __init__(self, content: object) -> None:
        self.content = content

    def tables(self, choice, found):
        if isinstance(self.content, Exception):
            raise self.content
        row = PaperRow(("TSP",), (Cell(1.0, self.content),))
        return [PaperTable(self.name, self.title, self.source, ("problem",), ("AP",), (row,))]


class OwnFigures(Experiment):
    """A user's own, whose figures are these."""

    name, title, source = "own", "Mine", "nowhere"

    def __init__(self, content: object) -> None:
        self.content = content

    def figures(self, choice, found):
        return self.content


def figure(title: str) -> Figure:
    made = Figure(figsize=(1, 1))
    made.suptitle(title)
    return made


SOUND = Drawn("own-1", "Mine.", figure("Sound"))


@pytest.mark.parametrize(
    ("content", "figures", "reason"),
    [
        ([SOUND], 1, None),
        ([], 0, None),
        (None, 0, "it could not be made, by TypeError: 'NoneType' object is not iterable. "),
        (
            "own-1.png",
            0,
            "'figures' returned a str. It must return a list of dree.reproduce.Drawn(name, caption, figure)",
        ),
        ([SOUND, figure("Bare")], 1, "'figures' returned a Figure. It must return a list of dree.reproduce.Drawn("),
        ([Drawn("own", "Mine.", "own.png")], 0, "'figures' returned a Drawn of a str. It must return a list of"),
        ([Drawn("../own", "Mine.", figure("Up"))], 0, "'figures' returned a figure with the name '../own', by"),
        ([Drawn("own", None, figure("No words"))], 0, "'figures' returned the figure own with the caption None: give"),
        ([Drawn("own", " ", figure("No words"))], 0, "The picture ' ' needs a text (alt)"),
        ([Drawn("own", "Mine.", figure(r"$\frac$"))], 0, "it could not be made, by ValueError"),
    ],
)
def test_figures_that_are_none_are_a_sentence_and_the_page_has_those_of_others(tmp_path, content, figures, reason):
    choice = Choice(scale("smoke"), ("tsp",))
    plan = make_plan([OwnFigures(content), experiment("tasks")], choice)
    result = reproduced(plan, choice, [], tmp_path)
    assert [drawn.name for drawn in result.figures] == ["own-1"] * figures + ["tasks-tsp"]
    assert [missing[: len(f"own: {reason}")] for missing in result.missing] == ([f"own: {reason}"] if reason else [])
    assert result.failed == (reason is not None)
    pytest.importorskip("plotly")
    written = write_report(result, plan, choice, [], tmp_path, Console(quiet=True))
    assert written[-1] == tmp_path / "report.html"
    page = written[-1].read_text(encoding="utf-8")
    assert page.count("<figcaption>") == figures + 1
    assert "Examples of the tasks, TSP" in page


@pytest.mark.parametrize(
    ("content", "reason", "trace"),
    [
        (ZeroDivisionError("by nought"), "own: it could not be made, by ZeroDivisionError: by nought.", "in tables"),
        ("3.1", "own: it could not be made, by TypeError", "abs"),
        (DreeError("Give it runs."), "own: Give it runs.", None),
    ],
)
def test_an_experiment_that_fails_keeps_no_others_and_leaves_its_trace(tmp_path, content, reason, trace):
    choice, file = Choice(scale("smoke"), ("tsp",)), tmp_path / "own.error.txt"

    def made(own):
        return reproduced(make_plan([own, experiment("mt-cumulative")], choice), choice, [], tmp_path)

    result = made(Own(content))
    assert [table.name for table in result.tables] == ["mt-cumulative"]
    assert result.failed
    (missing,) = result.missing
    assert missing.startswith(reason)
    assert (file.is_file(), str(file) in missing) == (trace is not None,) * 2
    assert trace is None or trace in file.read_text()
    mended = made(Own(5.0))
    assert [table.name for table in mended.tables] == ["own", "mt-cumulative"]
    assert not mended.failed
    assert not file.exists()
