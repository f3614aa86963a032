"""Tables from finished runs: an experiment that fails keeps none of the others."""

from __future__ import annotations

import pytest

from dree.errors import DreeError
from dree.experiments.tables import Cell, PaperRow, PaperTable
from dree.reproduce import Choice, Experiment, experiment
from dree.reproduce.plan import make_plan
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
