"""Tables for the terminal."""

import io

import pytest
from rich.console import Console

from dree.errors import DreeError
from dree.report import metrics_table
from dree.report.tables import smallest, write_value


def shown(table):
    console = Console(file=io.StringIO(), width=100, color_system=None)
    console.print(table)
    return console.file.getvalue()


def test_values_are_written_with_two_decimals_and_what_is_missing_with_a_dash():
    assert [write_value(v) for v in (1.234, (2.0, 0.125), None, -0.5)] == ["1.23", "2.00 ± 0.12", "–", "-0.50"]
    assert write_value(-0.001) == "0.00"


def test_the_smallest_is_found_as_it_is_written_and_only_among_several():
    assert smallest([2.0, (1.0, 0.5), None, 1.004]) == (1, 3)
    assert smallest([2.0]) == smallest([2.0, None]) == smallest([]) == ()


def test_a_table_has_every_method_with_its_metrics():
    rows = {"DREE": {"AP": 2.0, "AFB": 0.5, "AMFB": 0.75, "ABPl": 1.5}, "my [new] method": {"AP": (1.0, 0.1)}}
    text = shown(metrics_table(rows, "CVRP"))
    for word in ("CVRP", "AP", "AFB", "AMFB", "ABPl", "DREE", "0.75", "my [new] method", "1.00 ± 0.10", "smaller"):
        assert word in text


def test_a_metric_nobody_defined_is_refused():
    with pytest.raises(DreeError, match="Did you mean 'AFB'"):
        metrics_table({"DREE": {"AFBB": 1.0}})
