"""Files of orders: their days, their depots and demands, and every row that cannot be used."""

from __future__ import annotations

from decimal import Decimal
from functools import partial

import numpy as np
import pytest

from dree.data.orders_options import parse_capacity, parse_depot
from dree.errors import DreeError
from orders_files import read_as_file

STOPS = "A,48.10,11.50,2\nB,48.20,11.60,3\nC,48.15,11.40,1\n"
HEADER = "id,lat,lon,parcels\n"
DEPOT = (48.12, 11.55)


@pytest.fixture
def read(tmp_path):
    return partial(read_as_file, tmp_path)


def bad(file):
    return [(row.line, row.reason) for row in file.bad]


def test_a_good_file_is_a_day_of_stops(read):
    file = read(HEADER + STOPS, name="2022-06-04.csv")
    (day,) = file.days
    assert (day.day, day.names, day.geographic, day.problem) == ("2022-06-04", ("A", "B", "C"), True, "tsp")
    assert day.places.tolist() == [[11.5, 48.1], [11.6, 48.2], [11.4, 48.15]]
    assert (file.bad, file.encoding, file.delimiter, file.decimal) == ((), "UTF-8", ",", ".")
    assert file.columns == {"lat": "lat", "lon": "lon", "demand": "parcels", "id": "id"}
    assert "neither used nor checked: without --capacity" in file.notes[0]


def test_a_file_of_several_dates_is_several_days_in_order(read):
    file = read("ds,lat,lng\n605,31.1,121.5\n604,31.2,121.4\n605,31.3,121.6\n1001,31,121\nxx,31,121\n,31,121\n")
    assert [(day.day, len(day.places)) for day in file.days] == [("06-04", 1), ("06-05", 2), ("10-01", 1)]
    assert file.days[1].names == ("line 2", "line 4")
    assert bad(file) == [(6, "the date is not a date"), (7, "the date is missing")]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("D,,11.5,1", "the latitude is missing"),
        ("D,48.1,,1", "the longitude is missing"),
        ("D,here,11.5,1", "the latitude is not a number"),
        ("D,48.1,nan,1", "the longitude is not a number"),
        ("D,99.5,11.5,1", "the latitude is outside -90 to 90 (latitude and longitude swapped?)"),
        ("D,999,11.5,1", "the latitude is outside -90 to 90"),
        ("D,48.1,181,1", "the longitude is outside -180 to 180"),
        ("D,0,0,1", "the place is (0, 0)"),
        ("D,0.0,-0.000,1", "the place is (0, 0)"),
        ("D,11.5,48.1,1", "more than 1000 km from the middle of all stops (latitude and longitude swapped?)"),
        ("D,40.7,-74,1", "more than 1000 km from the middle of all stops"),
        ("D,48.1,11.5,-1", "the demand is negative"),
        ("D,48.1,11.5,", "the demand is missing"),
        ("D,48.1,11.5,two", "the demand is not a number"),
        ("D,48.1,11.5,11", "the demand is over the capacity"),
        ("D,48.1,11.5,0.1234567", "the demand has more than 6 decimals"),
        ("A,48.3,11.7,1", "the same id as in an earlier row of the day"),
        ("D,48.1", "fewer cells than the header"),
        ("D,48,1,11,5,1", "more cells than the header (a decimal comma, or a delimiter in a text without quotes?)"),
        ("id,lat,lon,parcels", "the header again"),
        ('"D,48.1,11.5,1', "a quote is opened and not closed"),
    ],
)
def test_a_bad_row_is_left_out_with_its_reason_and_costs_no_other(read, row, reason):
    good = read(HEADER + STOPS, depot=DEPOT, capacity=Decimal(10))
    file = read(f"{HEADER}{STOPS}{row}\n", depot=DEPOT, capacity=Decimal(10))
    assert bad(file) == [(5, reason)]
    assert file.bad[0].text == row
    assert file.days[0].key == good.days[0].key


def test_demands_are_not_judged_where_they_are_not_used(read):
    assert len(read(f"{HEADER}{STOPS}D,48.1,11.5,-1\n").days[0].places) == 4


def test_demands_are_whole_numbers_of_the_smallest_unit(read):
    file = read(HEADER + "A,48,11,2.5\nB,48.1,11,0.25\nC,48,11.1,3.000\n", depot=DEPOT, capacity=Decimal("12.5"))
    (day,) = file.days
    assert (day.demands.tolist(), day.capacity, day.units) == ([250, 25, 300], 1250, 100)
    (day,) = read(HEADER + "A,48,11,20\nB,48.1,11,1.0\n", depot=DEPOT, capacity=Decimal(30)).days
    assert (day.demands.tolist(), day.capacity, day.units) == ([20, 1], 30, 1)


def test_a_day_has_the_same_key_alone_and_among_others(read):
    alone = read("date,lat,lon,kg\n2022-06-04,48,11,2\n", depot=DEPOT, capacity=Decimal(5))
    among = read("date,lat,lon,kg\n2022-06-05,48,11,2.5\n2022-06-04,48,11,2\n", depot=DEPOT, capacity=Decimal(5))
    assert alone.days[0].key == among.days[0].key


def test_without_demands_every_stop_counts_one(read):
    file = read("lat,lon\n48,11\n48.1,11.1\n", depot=DEPOT, capacity=Decimal("2.5"))
    assert (file.days[0].demands.tolist(), file.days[0].capacity) == ([10, 10], 25)
    assert file.notes == ("There is no column for demands: every stop counts 1.",)


def test_columns_of_numbers_that_may_be_the_demands_are_named(read):
    text = "id,lat,lon,kg_total,note\nA,48,11,7,5 pm\nB,48.1,11.1,,ring\nC,48.1,11.2,2.5,3\n"
    (note,) = read(text, depot=DEPOT, capacity=Decimal(20)).notes
    assert "not used: kg_total. If one of them is the demand, say it: --map demand=kg_total." in note
    assert read(text, "demand=kg_total", depot=DEPOT, capacity=Decimal(20)).notes == ()
    (note,) = read(text, "demand=", depot=DEPOT, capacity=Decimal(20)).notes
    assert "kg_total" not in note
    (note,) = read(text.replace("note", "floor").replace("5 pm", "5"), depot=DEPOT, capacity=Decimal(20)).notes
    assert "not used: kg_total, floor. If one of them is the demand, say it: --map demand=NAME." in note


def test_columns_of_dates_that_are_not_used_are_named(read):
    text = "id,Tournée,lat,lon,hours\n1,05/03/2026,48,11,8-12\n2,13/03/2026,48.1,11,9-12\n"
    (note,) = read(text).notes
    assert note == (
        "There is no column for dates: all stops are of one day. Columns of dates that are not used: Tournée. "
        "If one of them is the date, say it: --map date=Tournée."
    )
    assert read(text, "date=").notes == ()
    assert [day.day for day in read(text, "date=Tournée").days] == ["2026-03-05", "2026-03-13"]
    assert read(text.replace("hours", "date").replace("8-12", "604").replace("9-12", "605")).notes == ()


def test_bar_codes_that_look_like_dates_are_not_taken_for_any(read):
    text = "barcode,lat,lon\n20240101,48,11\n20240102,48.1,11\n20240103,48.2,11\n"
    file = read(text)
    assert (file.notes, len(file.days), "date" in file.columns) == ((), 1, False)
    (note,) = read(text.replace("20240103", "20240102")).notes  # as dates do, some are there again
    assert "dates that are not used: barcode" in note


@pytest.mark.parametrize(
    ("text", "how", "stops"),
    [
        (HEADER + "Depot,48.12,11.55,\n" + STOPS, "marked in line 2", 3),
        (HEADER + STOPS + "Lager,48.12,11.55,0\n", "marked in line 5", 3),
        ("id,lat,lon,parcels,type\nX,48.12,11.55,,DEPOT\n" + STOPS.replace("\n", ",stop\n"), "marked in line 2", 3),
        ("depot,lat,lon,parcels\nx,48.12,11.55,\n,48.1,11.5,2\n", "marked in line 2", 1),
        (HEADER + ",48.12,11.55,0\n" + STOPS, "line 2, the first, has no demand", 3),
        (HEADER + ",48.12,11.55,\n" + STOPS + "X,48.12,11.55,0.0\n", "line 2, the first, has no demand", 3),
    ],
)
def test_a_depot_is_found_in_the_file(read, text, how, stops):
    file = read(text, capacity=Decimal(10))
    assert (file.depot, file.bad) == (how, ())
    assert file.days[0].depot == (11.55, 48.12)
    assert len(file.days[0].places) == stops
    assert read(text).days[0].depot == (11.55, 48.12)


def test_that_the_first_row_is_taken_for_the_depot_is_always_said(read):
    text = "id,name,lat,lon,parcels\n,HQ,48.12,11.55,0\n" + STOPS.replace(",48", ",,48")
    (note,) = read(text, capacity=Decimal(10)).notes
    assert note.startswith("Line 2 (HQ), the first, has no demand and is taken for the depot, not for a stop.")
    assert "give it with --depot" in note
    assert note in read(text).notes
    (note,) = read(text + "Y,,48.12,11.55,0\n", capacity=Decimal(10)).notes
    assert "no stops (lines: 6)" in note


@pytest.mark.parametrize("demand", ["", "0"])
def test_a_first_row_with_an_id_is_an_order_and_not_the_depot(read, demand):
    text = HEADER + f"A1,48.12,11.55,{demand}\n" + STOPS
    words = r"needs a depot\. Line 2 \(A1\), the first, has no demand but an id.*--depot=48\.12,11\.55\."
    with pytest.raises(DreeError, match=words):
        read(text, capacity=Decimal(10))
    (day,), notes = read(text).days, read(text).notes
    assert (day.depot, day.names) == (None, ("A1", "A", "B", "C"))
    assert "it is an order and not the depot" in notes[0]
    assert read(text, depot=DEPOT, capacity=Decimal(10)).days[0].names == ("A", "B", "C")


def test_a_stop_in_the_middle_may_have_no_demand(read):
    file = read(HEADER + STOPS + "D,48.3,11.5,0\n", depot=DEPOT, capacity=Decimal(10))
    assert file.days[0].demands.tolist() == [2, 3, 1, 0]


def test_only_the_first_row_is_a_depot_unmarked(read):
    file = read(HEADER + "X,48.12,11.55,1\nY,48.12,11.55,0\n" + STOPS)
    assert (file.depot, len(file.days[0].places)) == ("none", 5)


def test_every_day_may_have_a_depot_of_its_own(read):
    text = "date,id,lat,lon\n604,depot,48,11\n605,depot,48.5,11\n604,A,48.1,11\n605,B,48.2,11\n"
    assert [day.depot for day in read(text).days] == [(11, 48), (11, 48.5)]
    one = "date,id,lat,lon\n,depot,48,11\n604,A,48.1,11\n605,B,48.2,11\n"
    assert [day.depot for day in read(one).days] == [(11, 48), (11, 48)]


def test_several_depots_on_one_day_are_refused(read):
    with pytest.raises(DreeError, match=r"several depots \(lines 2, 3\)"):
        read("id,lat,lon\ndepot,48,11\ndepot,48.5,11\nA,48.1,11\n")


def test_a_capacity_needs_a_depot(read):
    with pytest.raises(DreeError, match=r"orders needs a depot\. To say where: give --depot"):
        read(HEADER + STOPS, capacity=Decimal(10))


def test_a_depot_far_from_the_stops_is_refused(read):
    with pytest.raises(DreeError, match=r"\(--depot\) is \d+ km .* swapped it would be \d+ km"):
        read(HEADER + STOPS, depot=(11.55, 48.12))
    with pytest.raises(DreeError, match=r"is not on the earth\. Give the latitude first"):
        read(HEADER + STOPS, depot=(148, 11))


def test_swapped_columns_are_refused_with_the_map_that_helps(read):
    text = "lat,lng\n121.5,31.1\n121.4,31.2\n31.3,121.6\n"
    with pytest.raises(DreeError, match=r"2 of 3 latitudes .* Say it: --map lat=lng,lon=lat\."):
        read(text)
    file = read(text, "lat=lng,lon=lat")
    assert file.days[0].places.tolist() == [[121.5, 31.1], [121.4, 31.2]]
    assert bad(file) == [(4, "the latitude is outside -90 to 90 (latitude and longitude swapped?)")]


def test_what_can_be_no_degrees_is_refused_with_the_map_that_helps(read):
    rows = "1,5339100.5,851000\n2,5339200,851100\n3,48,11\n"
    with pytest.raises(
        DreeError, match=r"no degrees in 2 of 3 rows, such as line 2: 5339100\.5, 851000\. .*--map x=lon,y=lat"
    ):
        read("id,lat,lon\n" + rows)
    assert read("id,lat,lon\n" + rows, "x=lon,y=lat").days[0].places.tolist()[0] == [851000, 5339100.5]
    with pytest.raises(DreeError, match=r"lost their decimal mark, write them with it"):
        read("id,lat,lon\n1,47991930,7854210\n2,47992930,7854310\n")
    assert bad(read("id,lat,lon\n1,47991930,7854210\n2,48,7.8\n")) == [(2, "the latitude is outside -90 to 90")]


@pytest.mark.parametrize("cell", ["47.99N", "N 47.99", "47° 59.5", "47°59′31″", "7.85 w", "7,85 O"])
def test_degrees_in_another_spelling_are_bad_rows_that_say_how_to_write_them(read, cell):
    file = read(f"id;lat;lon\n1;{cell};7.8\n2;48;{cell}\n3;48;7.8\n")
    hint = "is not a number (write degrees such as 47.9919; south and west have a minus)"
    assert bad(file) == [(2, f"the latitude {hint}"), (3, f"the longitude {hint}")]
    assert bad(read(f"x;y\n{cell};1\n2;3\n")) == [(2, "x is not a number")]


def test_a_plane_has_any_coordinates(read):
    file = read("x,y\n0,0\n5000,-300\n1e10,1\n")
    assert file.days[0].places.tolist() == [[0, 0], [5000, -300]]
    assert not file.days[0].geographic
    assert bad(file) == [(4, "x or y is too large")]
    assert file.notes == ()
    assert read("x,y\n0,0\n1,1\n", depot=(3, 4)).days[0].depot == (3, 4)


def test_degrees_in_x_and_y_are_suspected(read):
    assert "--map lon=x,lat=y" in read("x,y\n11.5731,48.1372\n11.6012,48.1401\n").notes[0]


def test_stops_on_both_sides_of_the_180th_meridian_are_near(read):
    file = read("lat,lon\n-17.5,179.9\n-17.6,-179.9\n-17.7,179.8\n-17.6,-179.8\n")
    assert (len(file.days[0].places), file.bad) == (4, ())
    assert file.days[0].frame().extent < 45


def test_a_depot_may_be_called_so_where_there_are_ids_too(read):
    file = read("id,name,lat,lon\n7,Depot,48,11\n8,Smith,48.1,11\n,Miller,48.2,11\n,,48.3,11\n")
    assert (file.depot, file.days[0].names) == ("marked in line 2", ("8", "Miller", "line 5"))


def test_names_are_no_ids(read):
    text = "name,lat,lon,parcels\nSmith,48.1,11.5,1\nSmith,48.2,11.5,1\nSmith,48.1,11.5,2\nSmith,48.1,11.5,1\n"
    file = read(text)
    assert len(file.days[0].places) == 3
    assert bad(file) == [(5, "the same name, place and demand as in an earlier row of the day")]


def test_an_id_may_return_on_another_day_and_a_place_under_another_id(read):
    file = read("date,id,lat,lon\n604,A,48,11\n604,B,48,11\n605,A,48,11\n604,,48,11\n604,,48,11\n")
    assert [day.names for day in file.days] == [("A", "B", "line 5", "line 6"), ("A",)]
    assert file.bad == ()


def test_ids_that_a_spreadsheet_has_rounded_are_told_from_those_that_are_there_twice(read):
    file = read("id;lat;lon\n1.23457E+12;48;11\n1,23457E+12;48;11\n1.23457E+12;48.1;11\n1E5;48;11\n1E5;48;11\n")
    rounded = "the same id as in an earlier row of the day (rounded by a spreadsheet? save ids as text)"
    assert bad(file) == [(4, rounded), (6, "the same id as in an earlier row of the day")]


def test_a_bad_row_does_not_make_a_later_one_a_repeated_one(read):
    file = read("id,lat,lon\nA,,11\nA,48,11\n")
    assert (bad(file), file.days[0].names) == ([(2, "the latitude is missing")], ("A",))


def test_an_excel_file_in_german_is_read(read):
    lines = ["sep=;", "Tour vom 4. Juni;;;;", "", "Auftrag;Breite;Länge;Gewicht (kg);", "1;48,1;11,5;1.250,5;"]
    file = read("\r\n".join([*lines, "2;48,2;11,6;0,5", ";;;;", ""]), depot=DEPOT, capacity=Decimal(2000))
    assert (file.delimiter, file.decimal, file.bad) == (";", ",", ())
    assert file.days[0].places.tolist() == [[11.5, 48.1], [11.6, 48.2]]
    assert (file.days[0].demands.tolist(), file.days[0].units) == ([12505, 5], 10)
    assert "1 line above the header was passed over." in file.notes


def test_where_nothing_is_left_there_are_no_days(read):
    headings, file = read(HEADER), read("lat,lon\n,\n0,0\n")
    assert (headings.days, headings.bad, headings.rows) == ((), (), 0)
    with pytest.raises(DreeError, match="has headings and no rows"):
        headings.days_to_route()
    assert (file.days, bad(file)) == ((), [(3, "the place is (0, 0)")])
    with pytest.raises(DreeError, match=r"has no stop that can be routed. See why with: dree orders check"):
        file.days_to_route()


def test_demands_that_are_no_numbers_at_all_are_refused(read):
    with pytest.raises(DreeError, match="No cell of the column 'weight'"):
        read("lat,lon,weight\n48,11,5 kg\n48,11,3 kg\n", depot=DEPOT, capacity=Decimal(10))


def test_a_file_without_a_header_is_refused(read):
    with pytest.raises(DreeError, match="begins with a row of numbers"):
        read("A,48.1,11.5\nB,48.2,11.6\n")


@pytest.mark.parametrize("encoding", ["cp1251", "shift-jis"])
def test_where_a_header_is_not_understood_the_guess_of_its_encoding_is_said(read, encoding):
    cells = {"cp1251": "Заказ;Имя", "shift-jis": "注文;名前"}[encoding]
    with pytest.raises(
        DreeError, match=r"no columns for the place.*not UTF-8 and was read as Windows-1252 .*as UTF-8\.$"
    ):
        read(f"{cells}\n1;2\n", encoding=encoding)
    with pytest.raises(DreeError, match=r"--map x=NAME,y=NAME\.$"):
        read(f"{cells}\n1;2\n")


def test_any_coordinate_is_read_to_the_last_digit(read):
    numbers = np.random.default_rng(0).uniform((47, 10), (49, 12), (50, 2))
    file = read("lat,lon\n" + "".join(f"{lat!r},{lon!r}\n" for lat, lon in numbers.tolist()))
    assert file.days[0].places.tolist() == numbers[:, ::-1].tolist()


@pytest.mark.parametrize("text", ["48.1", "48.1,11.5,3", "a,b", "nan,1", ""])
def test_a_depot_that_makes_no_sense_is_refused(text):
    with pytest.raises(DreeError, match="give latitude and longitude"):
        parse_depot(text)


def test_a_depot_may_have_decimal_commas():
    assert parse_depot("48,1;11,5") == parse_depot("48.1, 11.5") == (48.1, 11.5)


@pytest.mark.parametrize("text", ["0", "-1", "many", "nan", "inf", "1e12", "0.1234567", ""])
def test_a_capacity_that_makes_no_sense_is_refused(text):
    with pytest.raises(DreeError, match="must be a number above 0"):
        parse_capacity(text)


def test_a_name_beside_an_id_is_the_recipients(read):
    text = "id,name,lat,lon\n7,Bakery,48.1,11.5\n,Kiosk,48.2,11.6\n8,,48.3,11.7\n"
    (day,) = read(text).days
    assert day.names == ("7", "Kiosk", "8")
    assert day.recipients == ("Bakery", "", "")
    (nameless,) = read("id,lat,lon\n7,48.1,11.5\n").days
    assert nameless.recipients is None


def test_a_capacity_is_read_exactly():
    assert (parse_capacity("12,5"), parse_capacity("1e3")) == (Decimal("12.5"), 1000)


@pytest.mark.parametrize("lat", [85, -89.9])
def test_stops_all_around_a_pole_are_not_far_from_each_other(tmp_path, lat):
    rows = "".join(f"S{number},{lat},{12 * number - 180}\n" for number in range(30))
    file = read_as_file(tmp_path, f"id,lat,lon\n{rows}")
    assert (len(file.days[0].places), file.bad) == (30, ())
