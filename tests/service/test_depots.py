"""The depot of a state takes the place of none that a file has itself, unless somebody says so."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from command_line import invoke
from conftest import small_solver
from dree.data.orders import read_orders
from dree.errors import DreeError
from dree.service.days import Given, RefusedError
from dree.service.records import Settings
from dree.service.region import check_fits
from dree.service.state import State
from order_days import a_day
from small_days import contents, learn, small_start, write_day

pytest.importorskip("hygese")
pytestmark = pytest.mark.usefixtures("shared_references")

DEPOT = (48.05, 11.1)
VEHICLES = Given(capacity=Decimal(12))
NETWORK = {"width": 16, "heads": 2, "layers": 2, "feed_forward": 32}


@pytest.fixture(params=["tsp", "cvrp"])
def problem(request):
    return request.param


@pytest.fixture
def kind(tmp_path, problem):
    """How such days are learned."""
    given = VEHICLES if problem == "cvrp" else Given()
    return {"start": small_start(tmp_path / "start", problem), "given": given}


@pytest.fixture
def day(tmp_path, problem):
    """A file with a line for the depot, or without."""

    def write(number, depot=DEPOT):
        path = write_day(tmp_path / "days", number, demands=problem == "cvrp")
        header, *rows = path.read_text().splitlines()
        if depot:
            date, empty = rows[0].partition(",")[0], "," * (problem == "cvrp")
            lines = [f"{header},type", f"{date},{depot[0]},{depot[1]}{empty},depot", *(f"{row}," for row in rows)]
            path.write_text("\n".join(lines))
        return path

    return write


def known(state: State) -> list[tuple[str, int | None]]:
    return [(day.name, day.version) for day in state.days]


def test_a_day_with_another_depot_is_refused_and_all_else_is_learned(tmp_path, kind, day):
    state = learn(tmp_path / "state", day(1), **kind)
    other = day(2, (48.55, 11.6))
    with pytest.raises(RefusedError, match=r"Refused, while") as refusal:
        learn(state.path, other, day(3))
    assert str(refusal.value).splitlines()[1:] == [
        f"{other}: 2026-01-02 has its depot at 48.55,11.6, 66.8 km from 48.05,11.1, where that of {state.path} is. "
        "Correct the file or, for another depot, use another state. If vehicles do start at 48.05,11.1, say so: "
        "--depot=48.05,11.1"
    ]
    assert known(State.open(state.path)) == [("2026-01-01", 1), ("2026-01-03", 2)]


def test_it_is_learned_with_the_states_depot_if_somebody_says_that(tmp_path, kind, day):
    state = learn(tmp_path / "state", day(1), **kind)
    state = learn(state.path, day(2, (48.55, 11.6)), given=Given(depot=DEPOT))
    assert known(state) == [("2026-01-01", 1), ("2026-01-02", 2)]
    depots = [state.load(each.file)["tests"][1]["instances"]["coords"] for each in state.past]
    assert all(coords.shape[1] == 13 for coords in depots)
    assert state.days[1].extent < 40  # kilometres, of the stops and the state's depot


def test_a_file_with_several_depots_is_told_which_is_the_states(tmp_path, kind, day):
    state = learn(tmp_path / "state", day(1), **kind)
    several = day(2)
    header, depot, *rows = several.read_text().splitlines()
    several.write_text("\n".join([header, depot, depot.replace("48.05", "48.15"), *rows]))
    with pytest.raises(RefusedError) as refusal:
        learn(state.path, several)
    words = (
        r"has several depots \(lines 2, 3\).* give it with --depot\. .* Vehicles of .*state start at 48\.05,11\.1\. If "
        r"they do here, too: --depot=48\.05,11\.1"
    )
    assert re.search(words, str(refusal.value))
    with pytest.raises(DreeError, match=words):
        invoke("solve", several, "--state", state.path)
    state = learn(state.path, several, given=Given(depot=DEPOT))
    assert known(state) == [("2026-01-01", 1), ("2026-01-02", 2)]


def test_a_depot_may_be_rounded_and_is_then_the_states(tmp_path, kind, day):
    exact = learn(tmp_path / "exact", day(1), day(2), **kind)
    learn(tmp_path / "state", day(1), **kind)
    rounded = learn(tmp_path / "state", day(2, (48.05005, 11.10005)))
    assert contents(rounded) == contents(exact)
    with pytest.raises(RefusedError, match=r"0\.0167 km from"):
        learn(tmp_path / "state", day(3, (48.05015, 11.1)))


@pytest.mark.parametrize("problem", ["cvrp"], indirect=True)
def test_a_rounded_depot_in_a_first_row_that_does_not_say_so_is_the_states_too_and_no_stop(tmp_path, kind, day):
    exact = learn(tmp_path / "exact", day(1), day(2), **kind)
    learn(tmp_path / "state", day(1), **kind)
    file = day(2, (48.05005, 11.10005))
    unmarked = [row.rpartition(",")[0] for row in file.read_text().splitlines()]
    file.write_text("\n".join(unmarked))
    assert contents(learn(tmp_path / "state", file)) == contents(exact)


@pytest.mark.parametrize("problem", ["cvrp"], indirect=True)
def test_a_first_row_whose_demand_was_forgotten_is_a_bad_row_and_no_other_depot(tmp_path, kind, day):
    learn(tmp_path / "state", day(1), **kind)
    file, said = day(2, (48.55, 11.6)), []
    file.write_text("\n".join(row.rpartition(",")[0] for row in file.read_text().splitlines()))
    state = learn(tmp_path / "state", file, say=said.append)
    assert known(state) == [("2026-01-01", 1), ("2026-01-02", 2)]
    assert state.days[1].stops == state.days[0].stops
    assert any("rows that are left out: 1" in each for each in said)


def test_first_days_without_a_line_for_the_depot_have_that_of_the_first(tmp_path, kind, day):
    """Whether they come in one call or in several."""
    files, said = [day(1), day(2, None), day(3)], []
    state = learn(tmp_path / "state", *files, **kind, say=said.append)
    assert known(state) == [("2026-01-01", 1), ("2026-01-02", 2), ("2026-01-03", 3)]
    assert said[0].startswith(f"{files[0]}: all days of {state.path} start at 48.05,11.1 (marked in line 2).")
    for file in files:
        piecewise = learn(tmp_path / "piecewise", file, **kind)
    assert contents(piecewise) == contents(state)


def test_one_other_depot_among_the_first_days_is_refused_alone(tmp_path, kind, day):
    other = day(2, (48.55, 11.6))
    with pytest.raises(
        RefusedError, match=rf"{other}: 2026-01-02 has its depot at 48\.55,11\.6, 66\.8 km from 48\.05,"
    ):
        learn(tmp_path / "state", day(1), other, day(3), **kind)
    assert known(State.open(tmp_path / "state")) == [("2026-01-01", 1), ("2026-01-03", 2)]


def test_where_most_first_days_have_another_depot_than_the_first_no_state_is_made(tmp_path, kind, day):
    with pytest.raises(
        RefusedError, match=r"^.*/2026-01-02\.csv: .*\n.*/2026-01-03\.csv: .*\nHalf of these days or more do not"
    ):
        learn(tmp_path / "state", day(1, (48.55, 11.6)), day(2), day(3), **kind)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("problem", ["tsp"], indirect=True)
def test_a_depot_where_the_first_day_had_none_is_refused(tmp_path, kind, day):
    state = learn(tmp_path / "state", day(1, None), **kind)
    with pytest.raises(
        RefusedError, match=r"2026-01-02 has a depot, at 48\.05,11\.1, but the first day of .* had none"
    ):
        learn(state.path, day(2))
    assert known(State.open(state.path)) == [("2026-01-01", 1)]


@pytest.mark.parametrize("problem", ["cvrp"], indirect=True)
def test_without_any_depot_vehicles_learn_nothing(tmp_path, kind, day):
    with pytest.raises(RefusedError, match=r"with a capacity, 2026-01-01 needs a depot"):
        learn(tmp_path / "state", day(1, None), **kind)
    assert not (tmp_path / "state").exists()


def test_a_day_far_from_the_depot_of_the_state_is_told_of_its_stops_not_of_an_option(tmp_path, kind, day):
    state = learn(tmp_path / "state", day(1), **kind)
    far = day(2, (-33.05, 11.1))
    far.write_text(far.read_text().replace(",48.0", ",-33.0"))
    with pytest.raises(RefusedError, match=r"The stops of 2026-01-02 are .* km from those of 2026-01-01, a day of"):
        learn(state.path, far)


@pytest.mark.parametrize("problem", ["tsp"], indirect=True)
def test_a_day_to_be_routed_is_held_to_the_depot_too(tmp_path, kind, day):
    state = learn(tmp_path / "state", day(1), **kind)
    for path in (day(2), day(3, None)):
        check_fits(*read_orders(path).days, state)
    with pytest.raises(DreeError, match=r"2026-01-04 has its depot at 48\.55,11\.6"):
        check_fits(*read_orders(day(4, (48.55, 11.6))).days, state)


def test_in_a_plane_a_depot_may_be_rounded_by_a_ten_thousandth_of_the_day(tmp_path):
    day = a_day(geographic=False)
    for away, fits in ((0.003, True), (0.005, False)):
        place = (day.depot[0] + away, day.depot[1])
        settings = Settings("tsp", False, depot=place, network=NETWORK, start="small")
        state = State.create(tmp_path / str(away), settings, small_solver("tsp"), "2026-01-01T00:00:00+00:00")
        if fits:
            check_fits(day, state)
        else:
            with pytest.raises(DreeError, match=r"2026-03-04 has its depot at 6\.0,310\.0, 0\.005 from 6\.005,310\.0,"):
                check_fits(day, state)
