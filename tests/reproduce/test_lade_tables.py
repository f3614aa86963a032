"""The tables of real days: ours counted from the files, beside the paper's numbers of the same region."""

from __future__ import annotations

import pytest

from dree.reproduce import Choice, Found, experiment
from lade_tables import days, write


@pytest.mark.parametrize("name", ["lade", "lade-regions"])
def test_real_days_have_what_was_held_out_as_a_fifth_metric(name):
    assert experiment(name).columns == ("AP", "AFB", "AMFB", "ABPl", "Gen")


def test_packages_a_day_stand_beside_those_of_the_papers_region(tmp_path):
    pytest.importorskip("pyarrow")
    lines = [*days({601: 1, 602: 3}, "120", "Hangzhou"), *days({601: 7}, "1", first=100)]
    source = write(tmp_path / "deliveries.csv", lines)
    (table,) = experiment("regions").tables(Choice(lade=source), Found({}, tmp_path))
    (row,) = table.rows  # not that of a region which the paper has not
    assert row.keys == ("hz-120",)
    assert [(cell.ours, cell.published) for cell in row.cells] == [(1, 88), (3, 608), ((2, 1), (327.8, 97.9))]
