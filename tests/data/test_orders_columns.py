"""Which column means what: by its name, or as a person says."""

from __future__ import annotations

from pathlib import Path

import pytest

from dree.data.orders_columns import GROUPS, find_columns, marks_depot, normalised, recognised
from dree.data.orders_options import parse_columns
from dree.errors import DreeError

PATH = Path("orders.csv")
LADE = (
    "order_id,region_id,city,courier_id,lng,lat,aoi_id,aoi_type,accept_time,accept_gps_time,accept_gps_lng,"
    "accept_gps_lat,delivery_time,delivery_gps_time,delivery_gps_lng,delivery_gps_lat,ds"
)


def found(header, given="", filled=None, marked=()):
    names = header.split(",")
    columns = find_columns(PATH, names, range(len(names)) if filled is None else filled, marked, parse_columns(given))
    return {meaning: column.name for meaning, column in columns.items()}


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("Order_ID", "orderid"),
        ("  Längengrad ", "langengrad"),
        ("Weight (kg)", "weight"),
        ("Gewicht [t]", "gewicht"),
        ("Szerokość", "szerokosc"),
        ("Długość", "dlugosc"),
        ("(x)", "x"),
        ("ШИРОТА", "широта"),
    ],
)
def test_spelling_does_not_matter(name, plain):
    assert normalised(name) == plain


def test_no_name_has_two_meanings():
    names = [name for groups in GROUPS.values() for group in groups for name in group]
    assert len(names) == len(set(names))
    assert [name for name in names if normalised(name) != name] == []


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("id,lat,lng", {"id": "id", "lat": "lat", "lon": "lng"}),
        (LADE, {"id": "order_id", "lat": "lat", "lon": "lng", "date": "ds"}),
        ("Name,Breite,Länge,Pakete", {"name": "Name", "lat": "Breite", "lon": "Länge", "demand": "Pakete"}),
        ("fecha,latitud,longitud,peso", {"date": "fecha", "lat": "latitud", "lon": "longitud", "demand": "peso"}),
        ("X,Y,Demand", {"x": "X", "y": "Y", "demand": "Demand"}),
        ("id,name,stop,address,lat,lon", {"id": "id", "name": "name", "lat": "lat", "lon": "lon"}),
        ("address,customer,lat,lon", {"name": "customer", "lat": "lat", "lon": "lon"}),
        ("date,timestamp,lat,lon", {"date": "date", "lat": "lat", "lon": "lon"}),
        ("日期,纬度,经度,数量", {"date": "日期", "lat": "纬度", "lon": "经度", "demand": "数量"}),
        ("latitude,lon,y", {"lat": "latitude", "lon": "lon"}),
        ("Van ID,lat,lon,demand,name", {"lat": "lat", "lon": "lon", "demand": "demand", "name": "name"}),
        ("id,Van load,lat,lon", {"id": "id", "lat": "lat", "lon": "lon"}),
        ("lat,lon,Fecha de la entrega", {"lat": "lat", "lon": "lon", "date": "Fecha de la entrega"}),
        ("lat,lon,Date de livraison", {"lat": "lat", "lon": "lon", "date": "Date de livraison"}),
        ("lat,lon,Fecha_de_la_entrega", {"lat": "lat", "lon": "lon", "date": "Fecha_de_la_entrega"}),
        ("lat,lon,Datum der Lieferung", {"lat": "lat", "lon": "lon", "date": "Datum der Lieferung"}),
        ("lat,lon,delivery_day", {"lat": "lat", "lon": "lon", "date": "delivery_day"}),
        ("lat,lon,Leverdatum", {"lat": "lat", "lon": "lon", "date": "Leverdatum"}),
        ("lat,lon,date_of_birth,de,of the", {"lat": "lat", "lon": "lon"}),
        ("N° de commande,lat,lon,units", {"id": "N° de commande", "lat": "lat", "lon": "lon", "demand": "units"}),
        ("Nº commande,lat,lon", {"id": "Nº commande", "lat": "lat", "lon": "lon"}),
        ("Número de pedido,lat,lon", {"id": "Número de pedido", "lat": "lat", "lon": "lon"}),
        ("Sendung,Geogr. Breite,Geogr. Länge", {"id": "Sendung", "lat": "Geogr. Breite", "lon": "Geogr. Länge"}),
        ("Szer. geogr.,Dł. geogr.", {"lat": "Szer. geogr.", "lon": "Dł. geogr."}),
    ],
)
def test_columns_are_guessed_by_their_names(header, columns):
    assert found(header) == columns


def test_what_is_said_goes_before_what_is_guessed():
    header = "lat,lon,delivery_gps_lat,delivery_gps_lng,weight,parcels,x,y"
    said = "lat=delivery_gps_lat,lng=Delivery GPS LNG,demand=parcels"
    assert found(header, said) == {"lat": "delivery_gps_lat", "lon": "Delivery GPS LNG", "demand": "parcels"}
    assert found("lat,lon,x,y", "x=x,y=y") == {"x": "x", "y": "y"}
    assert found("lat,lon,day", "date=") == {"lat": "lat", "lon": "lon"}
    assert found("lat,lng", "lat=lng,lon=lat") == {"lat": "lng", "lon": "lat"}


def test_empty_columns_and_kinds_without_depots_are_passed_over():
    assert found("lat,lon,weight,qty", filled=[0, 1, 3]) == {"lat": "lat", "lon": "lon", "demand": "qty"}
    assert "depot" not in found("lat,lon,type")
    assert found("lat,lon,type,kind", marked=[3])["depot"] == "kind"


@pytest.mark.parametrize(
    ("header", "given", "message"),
    [
        ("lat,latitude,lon", "", r"may be the latitude: lat, latitude\. Say which: --map lat=lat\."),
        ("lat,lon,weight,parcels", "", r"--map demand=weight, or --map demand= if none of them is\."),
        ("lat,lon,date,day", "", "may be the date: date, day"),
        ("lat,lon,lat", "", "has the column 'lat' twice"),
        ("lat,lon,x,y", "", "places twice: lat, lon and x, y"),
        ("lat,name", "", r"for anything but the latitude\..*--map lat=NAME,lon=NAME"),
        ("a,b", "", "no columns for the place of a stop. .* here it is: a, b"),
        ("lat,lon,ds", "date=dss", "Unknown column in orders.csv 'dss'. Did you mean 'ds'"),
        ("lat,lon,w,w", "demand=w", "has 2 columns 'w'"),
    ],
)
def test_what_is_not_clear_is_refused_with_what_to_say(header, given, message):
    with pytest.raises(DreeError, match=message):
        found(header, given)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lat", "'lat' must be a meaning and a column"),
        ("place=x", "Unknown meaning in --map 'place'"),
        ("lat=a,latitude=b", "lat is there twice"),
    ],
)
def test_a_map_that_makes_no_sense_is_refused(text, message):
    with pytest.raises(DreeError, match=message):
        parse_columns(text)


@pytest.mark.parametrize(("cells", "count"), [("id,lat,lng", 3), ("id,name,date", 0), ("lat,x", 0), ("a,b", 0)])
def test_a_header_is_known_by_its_places(cells, count):
    assert recognised(cells.split(","), {}) == count


def test_names_that_are_said_make_a_header():
    assert recognised(["a", "b", "id"], {"lat": "A", "lon": "b"}) == 3


def test_a_yes_marks_a_depot_only_in_a_column_for_depots():
    columns = find_columns(PATH, ["lat", "lon", "is_depot"], range(3), (), {})
    assert [marks_depot(cell, columns["depot"]) for cell in ("1", "Yes", "Dépôt", "0", "stop")] == [
        True, True, True, False, False,
    ]  # fmt: skip
    columns = find_columns(PATH, ["lat", "lon", "type"], range(3), (2,), {})
    assert [marks_depot(cell, columns["depot"]) for cell in ("1", "Lager")] == [False, True]
