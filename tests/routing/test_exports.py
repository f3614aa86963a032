"""What other programs get of a plan says the same as the plan."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from dree.errors import DreeError
from dree.files import write_csv
from dree.routing import Plan
from dree.routing.exports import as_geojson, as_plain, as_rows
from dree.tasks.orders import Orders
from order_days import a_day, length_of


def a_plan(**settings) -> Plan:
    orders = a_day(7, **settings)
    return Plan.of(orders, [[0, 1], [2, 3, 4], [5, 6]] if settings.get("capacity") else [[3, 1, 0, 2, 6, 5, 4]])


@pytest.mark.parametrize("settings", [{}, {"depot": False}, {"capacity": 99}, {"geographic": False, "capacity": 99}])
def test_plain_values_have_all_that_is_needed_to_drive(settings):
    plan = a_plan(**settings)
    plain = json.loads(json.dumps(as_plain(plan)))
    keys = ("lon", "lat") if plan.orders.geographic else ("x", "y")
    names = [[plain["nodes"][node]["name"] for node in route] for route in plain["routes"]]
    assert names == [[plan.orders.names[stop] for stop in route] for route in plan.routes]
    places = [[[plain["nodes"][node][key] for key in keys] for node in route] for route in plain["routes"]]
    assert places == [plan.orders.places[list(route)].tolist() for route in plan.routes]
    assert plain["cost"] == pytest.approx(length_of(plan), rel=1e-6)
    if plan.orders.demands is not None:
        assert plain["loads"] == [sum(plain["nodes"][node]["demand"] for node in route) for route in plain["routes"]]
        assert plain["nodes"][0] == {"name": "depot", **dict(zip(keys, plan.orders.depot, strict=True))}


def test_a_csv_file_has_a_row_for_each_stop_and_reads_back_as_it_was(tmp_path):
    plan = a_plan(capacity=99)
    path = write_csv(tmp_path / "routes.csv", as_rows(plan))
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["route", "position", "name", "lat", "lon", "demand", "distance"]
    for row, visit in zip(rows, plan.visits, strict=True):
        assert (int(row["route"]), int(row["position"]), row["name"]) == (visit.route, visit.position, visit.name)
        assert (float(row["lon"]), float(row["lat"])) == visit.place
        assert float(row["demand"]) == visit.demand
        assert float(row["distance"]) == pytest.approx(visit.distance, abs=5e-4)


def check_position(position):
    longitude, latitude = position
    assert -180 <= longitude <= 180
    assert -90 <= latitude <= 90


def test_geojson_is_as_the_standard_has_it():
    plan = a_plan(capacity=99)
    content = json.loads(json.dumps(as_geojson(plan)))
    assert content["type"] == "FeatureCollection"
    assert "crs" not in content  # RFC 7946 has none: it is WGS 84
    assert {feature["type"] for feature in content["features"]} == {"Feature"}
    shapes = {"route": "LineString", "stop": "Point", "depot": "Point"}
    for feature in content["features"]:
        geometry = feature["geometry"]
        assert geometry["type"] == shapes[feature["properties"]["kind"]]
        for position in [geometry["coordinates"]] if geometry["type"] == "Point" else geometry["coordinates"]:
            check_position(position)
    lines = [each for each in content["features"] if each["properties"]["kind"] == "route"]
    for line, route in zip(lines, plan.routes, strict=True):
        walk = line["geometry"]["coordinates"]
        assert walk[0] == walk[-1] == pytest.approx(plan.orders.depot)
        assert walk[1:-1] == pytest.approx(plan.orders.places[list(route)].round(7))
    stops = [each["properties"] for each in content["features"] if each["properties"]["kind"] == "stop"]
    assert [each["name"] for each in stops] == [visit.name for visit in plan.visits]


def test_a_line_is_cut_at_the_180th_meridian():
    orders = Orders("d", np.array([[179.0, 10.0], [-178.0, 13.0]]), ("a", "b"), geographic=True)
    geometry = as_geojson(Plan(orders, ((0, 1),)))["features"][0]["geometry"]
    assert geometry == {
        "type": "MultiLineString",
        "coordinates": [
            [[179.0, 10.0], [180.0, 11.0]],
            [[-180.0, 11.0], [-178.0, 13.0], [-180.0, 11.0]],
            [[180.0, 11.0], [179.0, 10.0]],
        ],
    }


def test_a_stop_on_the_180th_meridian_makes_no_line_of_one_place():
    orders = Orders("d", np.array([[180.0, -16.8], [-179.0, -16.8]]), ("a", "b"), geographic=True)
    geometry = as_geojson(Plan(orders, ((0, 1),)))["features"][0]["geometry"]
    assert geometry == {"type": "LineString", "coordinates": [[-180.0, -16.8], [-179.0, -16.8], [-180.0, -16.8]]}


def test_who_is_there_is_said_beside_the_name_where_it_is_known():
    places = np.array([[7.8, 48.0], [7.9, 48.1], [7.7, 48.0]])
    known = Orders("d", places, ("A1", "A2", "kiosk"), geographic=True, recipients=("Bakery", "Café", ""))
    plan = Plan(known, ((2, 0, 1),))
    assert [(row["name"], row["recipient"]) for row in as_rows(plan)] == [
        ("kiosk", ""), ("A1", "Bakery"), ("A2", "Café")
    ]  # fmt: skip
    assert [node["recipient"] for node in as_plain(plan)["nodes"]] == ["Bakery", "Café", ""]
    stops = [each["properties"] for each in as_geojson(plan)["features"] if each["properties"]["kind"] == "stop"]
    assert [stop["recipient"] for stop in stops] == ["", "Bakery", "Café"]
    unknown = Plan(Orders("d", places, ("A1", "A2", "kiosk"), geographic=True), ((2, 0, 1),))
    assert "recipient" not in json.dumps([as_rows(unknown), as_plain(unknown), as_geojson(unknown)])


def test_there_is_one_recipient_for_each_stop():
    with pytest.raises(DreeError, match="2 stops and 1 recipients"):
        Orders("d", np.array([[7.8, 48.0], [7.9, 48.1]]), ("a", "b"), geographic=True, recipients=("Bakery",))


def test_places_nobody_knows_the_place_of_are_no_geojson():
    with pytest.raises(DreeError, match="plain x and y"):
        as_geojson(a_plan(geographic=False))
