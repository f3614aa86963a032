"""Wall-clock time: an epoch is made of its tasks' batches and replays, and has the paper's seconds beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dree.data.published import STREAMS
from dree.reproduce import Choice, Found, experiment
from dree.reproduce.overhead import _row

SIZES = (20, 50, 100)


def test_the_streams_are_the_five_drifts_and_one_that_is_periodic():
    assert {**{f"GD{order}": ("drift", order) for order in range(1, 6)}, "PS1": ("periodic", 1)} == STREAMS


def test_an_epoch_has_all_its_batches_and_as_many_replays_as_in_the_paper():
    settings = Choice().settings(problem="tsp", scenario="periodic", order=1)
    row = _row("PS1", settings, dict.fromkeys(SIZES, 0.1), dict.fromkeys(SIZES, 0.2))
    replays = 0.2 * 128 / 3.56
    assert row.keys == ("PS1", "TSP")
    assert [cell.ours for cell in row.cells] == pytest.approx([replays, 0.1 * 164, 100 * replays / 16.4])
    assert [cell.published for cell in row.cells] == [19.56, 59.9, 33.15]


@pytest.mark.parametrize(("problem", "seconds"), [("cvrp", [151.26, 170.53]), ("tsp", [None, None])])
def test_the_papers_seconds_of_an_epoch_are_of_cvrp_alone(problem, seconds):
    table = experiment("overhead")._epochs(Choice(problems=(problem,)), Found({}, Path()))
    assert [row.keys for row in table.rows] == [("DREE",), ("LLR-BC",)]
    assert [row.cells[0].published for row in table.rows] == seconds
