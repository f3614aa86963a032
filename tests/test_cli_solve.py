"""`dree solve` as an operator meets it: a file of orders in, routes out, bad input included."""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
import shlex
from pathlib import Path

import pytest

from command_line import cells, invoke, warm_dree
from conftest import small_solver
from dree.errors import DreeError
from dree.service.records import Settings
from dree.service.state import State
from order_days import a_day, kilometres
from run_folders import demo_run

PNG = b"\x89PNG\r\n\x1a\n"
NETWORK = {"width": 16, "heads": 2, "layers": 2, "feed_forward": 32}
STOPS = "x,y,demand\n0,0,0\n1,0,2\n0,1,2\n"


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Two runs, `tsp` and `cvrp`."""
    folder = tmp_path_factory.mktemp("runs")
    for problem in ("tsp", "cvrp"):
        demo_run(folder / problem, problem)
    return folder


def write_orders(path: Path, days=("2026-03-04",), stops=12, **extra) -> Path:
    """A file with the same stops every day, their names, demands and places."""
    orders = a_day(stops, capacity=9)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["date", "order_id", "lat", "lon", "demand"])
        for day in days:
            for name, (lng, lat), demand in zip(orders.names, orders.places, orders.demands, strict=True):
                writer.writerow([day, name, f"{lat:.6f}", f"{lng:.6f}", demand])
        for row in extra.get("more", ()):
            writer.writerow(row)
    return path


def all_outputs(folder: Path) -> list[object]:
    names = {
        "json": "routes.json",
        "csv": "routes.csv",
        "geojson": "routes.geojson",
        "html": "map.html",
        "png": "map.png",
    }
    return [word for option, name in names.items() for word in (f"--{option}", folder / name)]


def test_a_day_becomes_one_round_trip_in_every_format(runs, tmp_path):
    file = write_orders(tmp_path / "orders.csv")
    shown = invoke("solve", file, "--run", runs / "tsp", *all_outputs(tmp_path))
    content = json.loads((tmp_path / "routes.json").read_text())
    (route,) = content["routes"]
    places = [(content["nodes"][node]["lon"], content["nodes"][node]["lat"]) for node in route]
    length = sum(kilometres(a, b) for a, b in zip(places, [*places[1:], places[0]], strict=True))
    assert content["cost"] == pytest.approx(length, rel=1e-9)
    assert (content["problem"], content["unit"], content["day"], content["bad_rows"]) == ("tsp", "km", "2026-03-04", [])
    assert sorted(content["nodes"][node]["name"] for node in route) == sorted(f"stop {k}" for k in range(12))
    assert f"Routes of {length:.2f} km" in shown
    rows = list(csv.DictReader((tmp_path / "routes.csv").read_text().splitlines()))
    assert [row["name"] for row in rows] == [content["nodes"][node]["name"] for node in route]
    points = list(json.loads((tmp_path / "routes.geojson").read_text())["features"][1:])
    assert [each["properties"]["name"] for each in points] == [row["name"] for row in rows]
    assert ">stop 3</th>" in (tmp_path / "map.html").read_text()
    assert (tmp_path / "map.png").read_bytes().startswith(PNG)


def test_with_a_capacity_there_are_several_routes_from_the_depot(runs, tmp_path):
    file = write_orders(tmp_path / "orders.csv")
    options = ("--depot", "52.54,13.48", "--capacity", "12.5", "--run", runs / "cvrp")
    shown = invoke("solve", file, *options, "--json", tmp_path / "routes.json")
    content = json.loads((tmp_path / "routes.json").read_text())
    demands = [node.get("demand", 0) for node in content["nodes"]]
    assert content["loads"] == [sum(demands[node] for node in route) for route in content["routes"]]
    assert max(content["loads"]) <= 12.5 == content["capacity"]
    length = 0.0
    for route in content["routes"]:
        walk = [(content["nodes"][node]["lon"], content["nodes"][node]["lat"]) for node in (0, *route, 0)]
        length += sum(kilometres(a, b) for a, b in itertools.pairwise(walk))
    assert content["cost"] == pytest.approx(length, rel=1e-9)
    numbers = [row for row in cells(shown) if row and row[0].isdigit()]
    assert [int(row[1]) for row in numbers] == [len(route) for route in content["routes"]]
    assert [row[2:5] for row in numbers] == [[f"{load:g}", "of", "12.5"] for load in content["loads"]]


def test_plain_coordinates_are_measured_in_their_own_unit(runs, tmp_path):
    (tmp_path / "stops.csv").write_text(STOPS)
    shown = invoke(
        "solve", tmp_path / "stops.csv", "--capacity", 4, "--run", runs / "cvrp", "--png", tmp_path / "x.png"
    )
    assert "Routes of 3.41421 in" in shown
    assert "4 of 4" in shown


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [("--geojson", "x.geojson", "plain x and y"), ("--png", "x.jpg", "must end in .png")],
)
def test_what_cannot_be_written_is_refused_before_anything_is_solved(
    option, name, message, runs, tmp_path, monkeypatch
):
    monkeypatch.setattr("dree.routing.construct.construct", lambda *_: pytest.fail("it was solved"))
    (tmp_path / "stops.csv").write_text(STOPS)
    with pytest.raises(DreeError, match=message):
        invoke("solve", tmp_path / "stops.csv", "--capacity", 4, "--run", runs / "cvrp", option, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_outputs_that_cannot_be_written_are_all_named_before_anything_is_solved(runs, tmp_path, monkeypatch):
    monkeypatch.setattr("dree.routing.construct.construct", lambda *_: pytest.fail("it was solved"))
    (tmp_path / "stops.csv").write_text(STOPS)
    wrong = ("--json", "/proc/x.json", "--html", tmp_path / "stops.csv" / "x.html")
    words = ("solve", tmp_path / "stops.csv", "--capacity", 4, "--run", runs / "cvrp", "--csv", tmp_path / "new" / "x")
    with pytest.raises(DreeError, match=r"Cannot write /proc/x\.json: .*Cannot write .*stops.csv/x\.html: "):
        invoke(*words, *wrong)
    assert [path.name for path in tmp_path.iterdir()] == ["stops.csv"]


def test_an_output_that_fails_late_does_not_cost_the_others(runs, tmp_path, monkeypatch):
    monkeypatch.setattr("dree.files.check_writable", lambda _: None)
    (tmp_path / "stops.csv").write_text(STOPS)
    words = ("--capacity", 4, "--run", runs / "cvrp", "--csv", tmp_path / "x.csv", "--html", tmp_path / "x.html")
    wrong = ("--json", "/proc/x.json", "--png", tmp_path / "stops.csv" / "x.png")
    with pytest.raises(DreeError, match=r"Cannot write /proc/x\.json: .*Cannot write .*stops.csv/x\.png: "):
        invoke("solve", tmp_path / "stops.csv", *words, *wrong)
    assert {path.name for path in tmp_path.iterdir()} == {"stops.csv", "x.csv", "x.html"}


def test_a_json_problem_is_solved_too(runs, tmp_path):
    problem = {
        "coordinates": [[50, 50], [10, 10], [90, 10], [90, 90], [10, 90]],
        "demands": [0, 3, 4, 3, 4],
        "capacity": 7,
    }
    (tmp_path / "stops.json").write_text(json.dumps(problem))
    invoke("solve", tmp_path / "stops.json", "--run", runs / "cvrp", "--json", tmp_path / "routes.json")
    answer = json.loads((tmp_path / "routes.json").read_text())
    assert sorted(node for route in answer["routes"] for node in route) == [1, 2, 3, 4]
    assert all(load <= 7 for load in answer["loads"])
    walks = [[problem["coordinates"][node] for node in (0, *route, 0)] for route in answer["routes"]]
    assert answer["cost"] == pytest.approx(sum(math.dist(a, b) for w in walks for a, b in itertools.pairwise(w)))


def test_rows_that_cannot_be_routed_are_said_aloud_everywhere(runs, tmp_path):
    more = [["2026-03-04", "nowhere", "", "", 1], ["2026-03-04", "word", "fifty", "13.4", 1]]
    file = write_orders(tmp_path / "orders.csv", more=more)
    shown = invoke("solve", file, "--run", runs / "tsp", "--json", tmp_path / "x.json", "--html", tmp_path / "x.html")
    assert "2 rows are not routed" in shown
    assert f"dree orders check {file}" in shown
    assert [row["line"] for row in json.loads((tmp_path / "x.json").read_text())["bad_rows"]] == [14, 15]
    assert "2 rows of orders.csv could not be used" in (tmp_path / "x.html").read_text()
    assert "word,fifty,13.4,1" in (tmp_path / "x.html").read_text()


def test_the_last_line_says_how_many_rows_are_not_routed(runs, tmp_path):
    file = write_orders(tmp_path / "orders.csv", more=[["2026-03-04", "nowhere", "", "", 1]])
    last = invoke("solve", file, "--run", runs / "tsp", "--json", tmp_path / "x.json").splitlines()[-1]
    assert last == f"Not routed: 1 row of {file}, beside 12 stops. To see each: dree orders check {file} --all"
    assert "line 14: the latitude is missing" in invoke("orders", "check", file, "--all")
    file = write_orders(tmp_path / "good.csv")
    assert "Not routed" not in invoke("solve", file, "--run", runs / "tsp")


def test_how_the_file_was_read_is_told_on_the_terminal_in_the_json_file_and_on_the_map(runs, tmp_path):
    (tmp_path / "stops.csv").write_text("x,y,kg_total\n0,0,0\n1,0,2\n0,1,2\n")
    words = ("--capacity", 4, "--depot", "0,0", "--run", runs / "cvrp")
    outputs = ("--json", tmp_path / "x.json", "--html", tmp_path / "x.html")
    note = "Columns of numbers that are not used: kg_total."
    assert note in invoke("solve", tmp_path / "stops.csv", *words, *outputs)
    assert note in " ".join(json.loads((tmp_path / "x.json").read_text())["notes"])
    assert note in (tmp_path / "x.html").read_text()
    (tmp_path / "first.csv").write_text("name,x,y,kg\nHQ,0,0,\nA,1,0,2\nB,0,1,2\n")
    note = "Line 2 (HQ), the first, has no demand and is taken for the depot"
    assert note in invoke("solve", tmp_path / "first.csv", *words[:2], *words[4:], *outputs)
    assert note in " ".join(json.loads((tmp_path / "x.json").read_text())["notes"])
    assert note in (tmp_path / "x.html").read_text()


def test_an_order_at_the_depot_itself_gets_no_vehicle_and_is_not_lost(runs, tmp_path):
    more = [["2026-03-04", "here", "48.5", "11.5", "8"], ["2026-03-04", "and here", "48.5", "11.5", "9"]]
    file = write_orders(tmp_path / "orders.csv", stops=4, more=more)
    words = ("solve", file, "--run", runs / "cvrp", "--depot", "48.5,11.5", "--capacity", 9, *all_outputs(tmp_path))
    assert "Orders at the depot itself: 2 (here, and here)." in invoke(*words)
    content = json.loads((tmp_path / "routes.json").read_text())
    assert content["at_depot"] == ["here", "and here"]
    assert min(content["lengths"]) > 0
    assert sorted(node for route in content["routes"] for node in route) == [1, 2, 3, 4]
    page = (tmp_path / "map.html").read_text()
    assert page.count("at the depot itself, to be handed over there") == 2
    assert "Orders at the depot itself: 2 (here, and here)." in page


def test_the_command_that_shows_such_rows_reads_the_file_in_the_same_way(runs, tmp_path):
    file = write_orders(tmp_path / "orders.csv", more=[["2026-03-04", "heavy", "52.5", "13.4", 99]])
    shown = invoke("solve", file, "--run", runs / "cvrp", "--capacity", 12.5, "--depot", "52.5,13.4")
    command = re.search(r"with: dree (.*)", shown)[1]
    assert "--capacity=12.5" in command
    assert "over the capacity" in invoke(*shlex.split(command))


def test_so_does_the_command_where_no_row_can_be_routed(runs, tmp_path):
    file = write_orders(tmp_path / "orders.csv")
    with pytest.raises(DreeError, match=r"no stop that can be routed.*--capacity=0.5"):
        invoke("solve", file, "--run", runs / "cvrp", "--capacity", 0.5, "--depot", "52.5,13.4")


def test_parts_of_an_order_are_not_taken_for_the_whole_without_a_word(runs, tmp_path):
    rows = ["id,x,y,demand", "0,0,0,0", "1,1,0,4", "1,1,0,4", "2,0,1,3"]
    (tmp_path / "parts.csv").write_text("\n".join(rows) + "\n")
    shown = invoke("solve", tmp_path / "parts.csv", "--run", runs / "cvrp", "--capacity", 20, "--depot", "0,0")
    assert "If rows with one id are parts of one order, add them up" in shown


def test_of_several_days_one_must_be_named(runs, tmp_path):
    file = write_orders(tmp_path / "orders.csv", days=("2026-03-04", "2026-03-05"))
    with pytest.raises(DreeError, match=r"has 2 days. Say which with --day: 2026-03-04, 2026-03-05"):
        invoke("solve", file, "--run", runs / "tsp")
    with pytest.raises(DreeError, match="Did you mean '2026-03-05'"):
        invoke("solve", file, "--run", runs / "tsp", "--day", "2026-03-15")
    for spelling in ("2026-03-05", "05.03.2026"):
        assert "2026-03-05: " in invoke("solve", file, "--run", runs / "tsp", "--day", spelling)


def test_a_state_brings_its_solver_columns_depot_and_capacity(tmp_path):
    from decimal import Decimal

    settings = Settings("cvrp", True, {"id": "order_id"}, (13.48, 52.54), Decimal(11), network=NETWORK, start="small")
    state = State.create(tmp_path / "state", settings, small_solver("cvrp"), "2026-01-01T00:00:00+00:00")
    file = write_orders(tmp_path / "orders.csv")
    shown = invoke("solve", file, "--state", state.path, "--json", tmp_path / "x.json")
    content = json.loads((tmp_path / "x.json").read_text())
    assert f"by version 0 of {state.path}" in shown
    assert content["capacity"] == 11
    assert content["nodes"][0] == {"name": "depot", "lat": 52.54, "lon": 13.48}
    larger = invoke("solve", file, "--state", state.path, "--capacity", 500, "--json", tmp_path / "x.json")
    assert " of 500" in larger


def test_a_state_of_the_other_problem_says_what_to_do(tmp_path):
    settings = Settings("tsp", True, network=NETWORK, start="small")
    state = State.create(tmp_path / "state", settings, small_solver("tsp"), "2026-01-01T00:00:00+00:00")
    file = write_orders(tmp_path / "orders.csv")
    with pytest.raises(DreeError, match=r"learned days without a capacity, and this is one with a capacity\. Use"):
        invoke("solve", file, "--state", state.path, "--capacity", 9, "--depot", "52.54,13.48")


def test_improved_routes_say_what_each_solver_did(runs, tmp_path):
    pytest.importorskip("fast_tsp")
    file = write_orders(tmp_path / "orders.csv", stops=30)
    shown = invoke("solve", file, "--run", runs / "tsp", "--improve", 0.3, "--json", tmp_path / "x.json")
    first, second = json.loads((tmp_path / "x.json").read_text())["solvers"]
    assert second["length"] < first["length"]
    change = 100 * (second["length"] / first["length"] - 1)
    assert f"Improved to {second['length']:.2f} km ({change:+.1f} %)" in shown
    assert second["by"].startswith("fast-tsp ")


def test_a_search_that_is_stopped_by_ctrl_c_does_not_cost_the_routes(runs, tmp_path, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    pytest.importorskip("fast_tsp")
    monkeypatch.setattr("dree.routing.improve.as_problem", interrupt)
    file = write_orders(tmp_path / "orders.csv", stops=30)
    shown = invoke("solve", file, "--run", runs / "tsp", "--improve", 60, *all_outputs(tmp_path))
    assert "stopped early by Ctrl-C. It gave nothing shorter, and the routes are as they were." in shown
    first, second = json.loads((tmp_path / "routes.json").read_text())["solvers"]
    assert (first["stopped"], second["stopped"]) == (False, True)
    assert "stopped early by Ctrl-C" in (tmp_path / "map.html").read_text()


@pytest.mark.parametrize(("stops", "length"), [(1, 0.0), (2, None)])
def test_hardly_any_stops(runs, tmp_path, stops, length):
    file = write_orders(tmp_path / "orders.csv", stops=stops)
    invoke("solve", file, "--run", runs / "tsp", *all_outputs(tmp_path))
    content = json.loads((tmp_path / "routes.json").read_text())
    places = [(node["lon"], node["lat"]) for node in content["nodes"]]
    expected = 2 * kilometres(*places) if length is None else length
    assert content["cost"] == pytest.approx(expected, abs=1e-9)


def test_one_stop_from_a_depot(runs, tmp_path):
    file = write_orders(tmp_path / "orders.csv", stops=1)
    options = ("--run", runs / "cvrp", "--depot", "52.54,13.48", "--capacity", 9)
    invoke("solve", file, *options, *all_outputs(tmp_path))
    depot, stop = json.loads((tmp_path / "routes.json").read_text())["nodes"]
    there = kilometres((depot["lon"], depot["lat"]), (stop["lon"], stop["lat"]))
    assert json.loads((tmp_path / "routes.json").read_text())["cost"] == pytest.approx(2 * there)


def test_all_stops_at_one_place(runs, tmp_path):
    rows = "".join(f"a{number},52.5,13.4\n" for number in range(5))
    (tmp_path / "orders.csv").write_text("id,lat,lon\n" + rows)
    invoke("solve", tmp_path / "orders.csv", "--run", runs / "tsp", *all_outputs(tmp_path))
    content = json.loads((tmp_path / "routes.json").read_text())
    assert (content["cost"], len(content["nodes"])) == (0.0, 5)


def test_the_shipped_solver_that_fits_is_the_default(tmp_path):
    file = write_orders(tmp_path / "orders.csv")
    assert "by tsp-drift." in invoke("solve", file)
    assert "by cvrp-drift." in invoke("solve", file, "--depot", "52.54,13.48", "--capacity", 20)
    with pytest.raises(DreeError, match="Did you mean 'tsp-drift'"):
        invoke("solve", file, "--solver", "tsp-drit")


def test_square_brackets_in_names_are_not_markup(runs, tmp_path):
    (tmp_path / "orders.csv").write_text("id,lat,lon\n[bold]x,52.5,13.4\n[/],52.6,13.4\n")
    assert "[bold]x  [/]" in invoke("solve", tmp_path / "orders.csv", "--run", runs / "tsp")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.json"], "There is no file missing.json"),
        (["missing.csv"], "missing.csv"),
        (["stops.csv", "--capacity", "9", "--run", "runs/none"], "Train one with: dree demo"),
        (["stops.csv", "--capacity", "9", "--run", "RUNS/cvrp", "--png", "x.gif"], "png"),
        (["stops.csv", "--capacity", "9", "--run", "RUNS/tsp"], "makes one round trip"),
        (["stops.csv", "--capacity", "0"], "capacity must be a number above 0"),
        (["stops.csv", "--run", "RUNS/tsp", "--solver", "tsp-drift"], "Name one solver"),
        (["stops.csv", "--run", "RUNS/tsp", "--improve", "-1"], "seconds above 0"),
        (["stops.csv", "--state", "nowhere"], "is not a state directory"),
        (["stops.csv", "--depot", "here"], "two numbers"),
        (["stops.csv", "--csv", "../{}/stops.csv"], "is the file of orders already"),
        (["stops.csv", "--run", "RUNS/tsp", "--csv", "x", "--json", "x"], "is an output already"),
        (["far.json", "--run", "RUNS/tsp"], "too far apart"),
        (["far.json", "--day", "today"], "belong to CSV files"),
        (["stops.csv", "--html", "."], "it is a folder"),
        (["stops.csv", "--csv", "/dev/null"], "it is no plain file"),
        (["stops.csv", "--solver", "cvrp-drift"], "Add --capacity"),
        (["stops.csv", "--capacity", "lots"], "not 'lots'"),
    ],
)
def test_bad_input_ends_in_a_message_without_traceback_and_writes_nothing(runs, tmp_path, arguments, message):
    (tmp_path / "stops.csv").write_text(STOPS)
    (tmp_path / "far.json").write_text('{"coordinates": [[1e308, 0], [-1e308, 0], [0, 0]]}')
    before = sorted(tmp_path.rglob("*"))
    words = [word.replace("RUNS", str(runs)).replace("{}", tmp_path.name) for word in arguments]
    result = warm_dree("solve", *words, cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "stops.csv").read_text() == STOPS
