"""Where vehicles start, which rows are no stops for it, and orders at the depot itself."""

from __future__ import annotations

from decimal import Decimal
from functools import partial

import pytest

from dree.errors import DreeError
from orders_files import read_as_file

DEPOT = (48.12, 11.55)
TEN = Decimal(10)
HEADER = "id,lat,lon,parcels\n"
STOPS = "A,48.10,11.50,2\nB,48.20,11.60,3\nC,48.15,11.40,1\n"
KINDS = (  # warehouses among the customers
    "id,customer,type,lat,lon,kg\n1,Shop A,retail,48.00,11.80,2\n2,ACME,warehouse,48.10,11.90,3\n"
    "3,Foo,warehouse,48.12,11.85,1\n4,Bar,office,48.05,11.82,4\n"
)
WITHOUT = "id,type,lat,lon\n1,shop,48,11\n{}2,warehouse,48.1,11\n3,warehouse,48.2,11\n"  # no column for demands
NOT_USED = "not used, for another one is given. If"


@pytest.fixture
def read(tmp_path):
    return partial(read_as_file, tmp_path)


def test_with_vehicles_orders_at_the_depot_itself_are_no_stops_and_that_is_said(read):
    text = "date,id,lat,lon,kg\n" + "".join(
        f"2022-06-0{day},{name},{place},{kg}\n"
        for day, name, place, kg in [
            (4, "A", "48.10,11.50", 2),
            (4, "B", "48.12,11.55", 3),
            (4, "C", "48.12,11.5500001", 1),
            (4, "", "48.12,11.55", 10),
            (4, "D", "48.12,11.55", 11),
            (5, "E", "48.12,11.55", 1),
            (6, "F", "48.10,11.50", 1),
        ]
    )
    file = read(text, depot=DEPOT, capacity=TEN)
    assert [(day.day, day.names, day.at_depot) for day in file.days] == [
        ("2022-06-04", ("A", "C"), ("B", "line 5")),
        ("2022-06-06", ("F",), ()),
    ]
    assert [(row.line, row.reason) for row in file.bad] == [(6, "the demand is over the capacity")]
    assert file.notes == (
        "Orders at the depot itself: 3 (B, line 5, E). They are handed over there and are on no route.",
    )
    one_tour = read(text, depot=DEPOT)
    assert [(day.names, day.at_depot) for day in one_tour.days][1:] == [(("E",), ()), (("F",), ())]


def test_orders_without_a_demand_at_the_depot_that_is_said_are_orders_like_others(read):
    file = read(HEADER + STOPS + "D,48.12,11.55,\nE,48.12,11.55,0\n", depot=DEPOT, capacity=TEN)
    assert (file.days[0].names, file.days[0].at_depot) == (("A", "B", "C"), ("E",))
    assert [(row.line, row.reason) for row in file.bad] == [(5, "the demand is missing")]
    assert "Orders at the depot itself: 1 (E)." in file.notes[0]


@pytest.mark.parametrize("demand", ["", "0", "0.0"])
def test_a_row_without_id_and_demand_at_the_depot_that_is_said_is_no_stop_and_that_is_said(read, demand):
    text = f"{HEADER},48.12,11.55,{demand}\n{STOPS}"
    said, found = (read(text, depot=depot, capacity=TEN) for depot in (DEPOT, None))
    assert (said.days[0].key, said.bad, found.bad) == (found.days[0].key, (), ())
    assert said.notes == ("Line 2 is taken for the depot, not for a stop.",)


def test_a_depot_that_is_said_goes_before_one_in_the_file(read):
    file = read(HEADER + "Depot,48.5,11.5,\n" + STOPS, depot=DEPOT, capacity=TEN)
    assert (file.depot, file.days[0].depot, file.days[0].names) == ("--depot", (11.55, 48.12), ("A", "B", "C"))


def test_every_depot_that_is_not_used_is_named(read):
    one = HEADER + STOPS + "Depot,48.5,11.5,\n"
    assert read(one, depot=DEPOT, capacity=TEN).notes == (
        f"The depot in line 5 is {NOT_USED} it is an order: --map depot=",
    )
    many = one + "Hub,48.5,11.5,0\n" * 7 + "Lager,48.12,11.55,\n"
    assert read(many, depot=DEPOT, capacity=TEN).notes == (
        "Line 13 (Lager) is taken for the depot, not for a stop.",
        f"The depots in lines 5, 6, 7, 8, 9, 10, 11, 12 are {NOT_USED} they are orders: --map depot=",
    )


def test_that_a_row_is_taken_for_the_depot_by_its_mark_is_said(read):
    assert read(HEADER + STOPS + "Lager,48.12,11.55,\n", capacity=TEN).notes == (
        "Line 5 (Lager) is taken for the depot, not for a stop.",
    )
    twice = read("type,lat,lon\ndepot,48.12,11.55\n,48.1,11.5\ndepot,48.12,11.55\n")
    assert twice.notes == ("Lines 2, 4 are taken for the depot, not for stops.",)


def test_customers_that_are_called_warehouses_are_stops_where_they_have_a_demand(read):
    file = read(KINDS, depot=(48.03, 11.88), capacity=TEN)
    assert (file.days[0].names, file.days[0].demands.tolist()) == (("1", "2", "3", "4"), [2, 3, 1, 4])
    assert file.notes == ("Lines 3, 4 (2, 3) are called depots, but each has a demand, so they are orders.",)
    (day,) = read(KINDS).days
    assert (day.depot, len(day.places)) == (None, 4)
    marked = read(KINDS + ",HQ,depot,48.03,11.88,0\n", capacity=TEN)
    assert (marked.depot, marked.days[0].key) == ("marked in line 6", file.days[0].key)
    many = read(HEADER + STOPS + "".join(f"Hub,48.{i},11.5,1\n" for i in range(11, 17)), depot=DEPOT, capacity=TEN)
    assert "Lines 5, 6, 7, 8, 9, ... (Hub, Hub, Hub, Hub, Hub, ...) are called depots" in many.notes[0]


@pytest.mark.parametrize("demand", ["2", "0.5", "-2", "3 kg"])
def test_a_customer_called_lager_with_a_demand_is_never_the_depot(read, demand):
    text = f"id,customer,lat,lon,kg\n1,Lager,48.12,11.55,{demand}\n2,B,48.1,11.5,3\n"
    words = r"needs a depot\. Line 2 \(1\) is called a depot but has a demand, so it is an order and not the depot\."
    with pytest.raises(DreeError, match=rf"{words} If it is the depot: --depot=48\.12,11\.55\."):
        read(text, capacity=TEN)
    file = read(text, depot=(48.2, 11.5), capacity=TEN)
    assert {"1", "2"} == {*file.days[0].names, *(row.text[0] for row in file.bad)}
    assert "so it is an order and not the depot." in file.notes[0]


@pytest.mark.parametrize("demand", ["", "0", "0,0", "-", "n/a"])
def test_a_marked_row_that_has_no_demand_is_the_depot_whatever_its_id(read, demand):
    file = read(f"id;name;lat;lon;kg\n0;Depot;48.12;11.55;{demand}\n2;B;48.1;11.5;3\n", capacity=TEN)
    assert (file.depot, file.days[0].names, file.bad) == ("marked in line 2", ("2",), ())


@pytest.mark.parametrize("depot", [None, DEPOT])
def test_without_demands_several_marked_rows_of_a_day_with_ids_of_their_own_are_orders(read, depot):
    file = read(WITHOUT.format(""), depot=depot)
    assert file.days[0].names == ("1", "2", "3")
    assert file.notes == (
        "Lines 3, 4 (2, 3) are called depots, but each has an id of its own, as others of the day have, "
        "so they are orders.",
    )
    again = read(WITHOUT.format("0,depot,48.12,11.55\n"), depot=depot)
    assert (again.days[0].names, again.days[0].depot) == (("1", "2", "3"), (11.55, 48.12))


def test_a_single_marked_row_of_a_day_is_its_depot_where_there_are_no_demands(read):
    text = "date,id,type,lat,lon\n604,D1,hub,48,11\n605,D2,hub,48.5,11\n604,A,,48.1,11\n605,B,,48.2,11\n"
    assert [(day.names, day.depot) for day in read(text).days] == [(("A",), (11, 48)), (("B",), (11, 48.5))]


def test_a_map_can_say_that_no_row_is_marked(read):
    text = HEADER + STOPS + "Hub,48.5,11.5,0\n"
    assert read(text, "depot=", depot=DEPOT, capacity=TEN).days[0].names == ("A", "B", "C", "Hub")
    two = "type,lat,lon\nhub,48,11\nhub,48.5,11\n,48.1,11\n"
    with pytest.raises(DreeError, match=r"several depots \(lines 2, 3\).* If none of them is a depot: --map depot="):
        read(two)
    assert len(read(two, "depot=").days[0].places) == 3


def test_a_start_and_an_end_at_one_place_are_the_depot_whatever_their_ids(read):
    text = "seq,lat,lon,name,type\n1,48.1,7.9,Hof,depot\n2,48.2,7.8,A,\n3,48.3,7.7,B,\n4,48.1,7.9,Hof,depot\n"
    file = read(text, "id=seq")
    (day,) = file.days
    assert day.depot == (7.9, 48.1)
    assert len(day.places) == 2
