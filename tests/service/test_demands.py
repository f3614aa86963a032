"""Where days had demands, a file that does not say them is refused, and the map that helps is named."""

from __future__ import annotations

from decimal import Decimal

import pytest

from command_line import invoke
from dree.data.orders import read_orders
from dree.errors import DreeError
from dree.service.days import Given, RefusedError
from dree.service.demands import check_demands
from dree.service.state import State
from small_days import learn, small_start, write_day

pytest.importorskip("hygese")
pytestmark = pytest.mark.usefixtures("shared_references")

DEPOT, CAPACITY = (48.05, 11.1), Decimal(12)
VEHICLES = Given(depot=DEPOT, capacity=CAPACITY)


@pytest.fixture
def start(tmp_path):
    return small_start(tmp_path / "start", "cvrp")


def renamed(path):
    """The same file with a heading for demands that nobody knows."""
    path.write_text(path.read_text().replace("demand", "Kolli-Zahl"))
    return path


def test_a_file_that_does_not_say_the_demands_is_refused_until_it_is_said(tmp_path, start):
    first, second, third = (write_day(tmp_path / "days", number, demands=True) for number in (1, 2, 3))
    state = learn(tmp_path / "state", first, start=start, given=VEHICLES)
    with pytest.raises(
        RefusedError, match=rf"{second} \(2026-01-02\): no column for demands.*NAME\..* say so: --map demand=$"
    ):
        learn(state.path, first, renamed(second), third)
    assert [day.name for day in State.open(state.path).days] == ["2026-01-01", "2026-01-03"]
    state = learn(state.path, second, given=Given({"demand": "Kolli-Zahl"}))
    total = sum(int(line.split(",")[3]) for line in second.read_text().splitlines()[1:])
    assert (state.days[-1].name, state.days[-1].demand) == ("2026-01-02", total)


def test_such_a_file_is_not_routed_by_the_state_either(tmp_path, start):
    first, second = (write_day(tmp_path / "days", number, demands=True) for number in (1, 2))
    state = learn(tmp_path / "state", first, start=start, given=VEHICLES)
    with pytest.raises(DreeError, match=rf"{renamed(second)}: no column for demands.*--map demand=NAME"):
        invoke("solve", second, "--state", state.path)
    assert " of 12" in invoke("solve", second, "--state", state.path, "--map", "demand=Kolli-Zahl")


def test_of_first_files_that_differ_those_that_do_not_say_the_demands_are_refused(tmp_path, start):
    first, second = (write_day(tmp_path / "days", number, demands=True) for number in (1, 2))
    with pytest.raises(RefusedError, match=rf"{first} \(2026-01-01\): no column for demands"):
        learn(tmp_path / "state", renamed(first), second, start=start, given=VEHICLES)
    assert [day.name for day in State.open(tmp_path / "state").days] == ["2026-01-02"]


def test_without_demands_every_stop_counts_one_on_every_day(tmp_path, start):
    files = [write_day(tmp_path / "days", number) for number in (1, 2)]
    state = learn(tmp_path / "state", *files, start=start, given=VEHICLES)
    assert [day.demand for day in state.days] == [12, 12]
    check_demands(read_orders(files[0], depot=DEPOT, capacity=CAPACITY), {}, state)


def test_a_file_to_be_routed_is_held_to_the_same(tmp_path, start):
    state = learn(tmp_path / "state", write_day(tmp_path, 1, demands=True), start=start, given=VEHICLES)
    path = renamed(write_day(tmp_path, 2, demands=True))
    with pytest.raises(DreeError, match=r"no column for demands.*--map demand=NAME"):
        check_demands(read_orders(path, depot=DEPOT, capacity=CAPACITY), {}, state)
    check_demands(read_orders(path), {}, state)  # one tour needs no demands
    for columns in ({"demand": "Kolli-Zahl"}, {"demand": ""}):
        check_demands(read_orders(path, columns, depot=DEPOT, capacity=CAPACITY), columns, state)
