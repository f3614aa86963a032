"""Hundreds of odd and malformed files go through `dree solve --state` and `dree learn`, and never change the state."""

from __future__ import annotations

import json

import pytest

from command_line import invoke
from dree.errors import DreeError
from dree.service.state import State
from orders_cases import all_cases
from orders_files import CAPACITY, DAY, DEPOT, GOOD, good_stops, table, written
from run_folders import demo_run

FAR = "km from (the middle of the stops|those of)"
PLAIN = ("--capacity", CAPACITY)
OTHERWISE = {  # where the state's depot, capacity, region or demands decide, and not the file's
    "no demands": "no column for demands",
    "swapped and said": FAR,
    "some swapped, impossible": FAR,
    "a plane": "x and y, but",
    "a plane with commas": "x and y, but",
    "a plane with a far place": "x and y, but",
}
KNOWN_DEPOT = {"no depot", "a depot without a place", "a first order without a demand"}


def content(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="session")
def kept(tmp_path_factory):
    """A state that has learned the good file, and the runs of small solvers for both problems."""
    folder = tmp_path_factory.mktemp("kept")
    for problem in ("tsp", "cvrp"):
        demo_run(folder / problem, problem)
    good = folder / "good.csv"
    good.write_text(written(table()), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DREE_CACHE", str(folder / "cache"))
        invoke("learn", folder / "state", good, *PLAIN, "--start", folder / "cvrp", "--batches", 1)
    return folder


@pytest.fixture
def state(kept):
    """The state, which no test may change."""
    before = content(kept / "state")
    yield kept / "state"
    assert content(kept / "state") == before


def routed(path):
    """The stops that are on the routes of a JSON file, each as often as it is."""
    plan = json.loads(path.read_text())
    axes = ("lon", "lat") if "lat" in plan["nodes"][0] else ("x", "y")
    visited = [plan["nodes"][number] for route in plan["routes"] for number in route]
    places = sorted((node[axes[0]], node[axes[1]]) for node in visited)
    return [place for place in places if place != (float(DEPOT.lon), float(DEPOT.lat))], plan["bad_rows"]


def expected(stops):
    places = sorted((float(stop.lon), float(stop.lat)) for stop in stops)
    return [place for place in places if place != (float(DEPOT.lon), float(DEPOT.lat))]


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_odd_orders_are_routed_or_refused_and_the_state_stays_as_it_is(tmp_path, state, case):
    path, out = tmp_path / case.file, tmp_path / "out.json"
    path.write_bytes(case.content)
    words = ["solve", path, "--state", state, "--json", out, *case.options]
    message = OTHERWISE.get(case.name, case.message if case.name not in KNOWN_DEPOT else "")
    if case.stops == ():
        message = "no stop that can be routed"
    if message:
        with pytest.raises(DreeError, match=message):
            invoke(*words)
        assert not out.exists()
        return
    invoke(*words)
    places, bad = routed(out)
    assert places == expected(GOOD if case.stops is None else case.stops)
    assert case.name in KNOWN_DEPOT or [(row["line"], row["reason"]) for row in bad] == [*case.left_out]


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_odd_orders_are_never_learned_twice(tmp_path, state, case):
    path = tmp_path / case.file
    path.write_bytes(case.content)
    words = ["learn", state, path, "--batches", 1, *case.options]
    if case.stops == GOOD or case.name in KNOWN_DEPOT:
        assert "There was nothing new to learn." in invoke(*words)
    else:
        message = OTHERWISE.get(case.name) or case.message or "no stop that can be routed"
        with pytest.raises(DreeError, match=f"{message}|fixed it|with other stops"):
            invoke(*words)


@pytest.mark.parametrize("case", [case for case in all_cases() if not case.stops], ids=lambda case: case.name)
def test_no_state_is_made_for_orders_that_are_refused(tmp_path, kept, case):
    path = tmp_path / case.file
    path.write_bytes(case.content)
    message = case.message or "no stop that can be routed"
    with pytest.raises(DreeError, match=message):
        invoke("learn", tmp_path / "new", path, "--batches", 1, "--start", kept / "cvrp", *case.options)
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize(
    "name", ["utf-16 '\\r\\n'", "demands of halves", "two at the depot", "1 stops", "a plane", "one tour"]
)
def test_odd_orders_are_learned_as_a_first_day(tmp_path, kept, name):
    (case,) = (case for case in all_cases() if case.name == name)
    path = tmp_path / case.file
    path.write_bytes(case.content)
    start = kept / ("cvrp" if case.options else "tsp")
    invoke("learn", tmp_path / "new", path, "--batches", 1, "--start", start, *case.options)
    (day,) = State.open(tmp_path / "new").days
    assert (day.name, day.stops) == (case.day, len(case.stops))
    invoke("solve", path, "--state", tmp_path / "new", "--json", tmp_path / "out.json")
    assert routed(tmp_path / "out.json")[0] == expected(case.stops)


@pytest.mark.parametrize("case", [case for case in all_cases() if case.options == ()], ids=lambda case: case.name)
def test_one_tour_needs_no_capacity_and_no_depot(tmp_path, kept, case):
    path, out = tmp_path / case.file, tmp_path / "out.json"
    path.write_bytes(case.content)
    words = ["solve", path, "--run", kept / "tsp", "--json", out]
    if case.refused:
        with pytest.raises(DreeError, match=case.message):
            invoke(*words)
    else:
        invoke(*words)
        assert routed(out)[0] == expected(case.stops)


def test_a_day_on_another_continent_is_refused(tmp_path, kept):
    """Without a depot only the days before tell that latitude and longitude are swapped."""
    path, state = tmp_path / "orders.csv", tmp_path / "state"
    path.write_text(written(table(depot=None)))
    invoke("learn", state, path, "--batches", 1, "--start", kept / "tsp")
    before = content(state)
    turned = [stop._replace(lat=stop.lon, lon=stop.lat) for stop in good_stops(seed=1)]
    for stops, hint in ((turned, "are swapped: say it with --map"), (good_stops(lat=31, lon=121), "another region")):
        path.write_text(written(table(stops, None, day="2022-06-26")))
        for words in (["learn", state, path, "--batches", 1], ["solve", path, "--state", state]):
            with pytest.raises(DreeError, match=f"The stops of 2022-06-26 are .* from those of {DAY}.*{hint}"):
                invoke(*words)
    assert content(state) == before
