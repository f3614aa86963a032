"""Orders at the depot itself."""

from __future__ import annotations

from decimal import Decimal

from dree.data.orders import read_orders

DEPOT = (48.12, 11.55)


def test_with_vehicles_orders_at_the_depot_itself_are_no_stops_and_that_is_said(tmp_path):
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
    path = tmp_path / "orders.csv"
    path.write_text(text)
    file = read_orders(path, depot=DEPOT, capacity=Decimal(10))
    assert [(day.day, day.names, day.at_depot) for day in file.days] == [
        ("2022-06-04", ("A", "C"), ("B", "line 5")),
        ("2022-06-06", ("F",), ()),
    ]
    assert [(row.line, row.reason) for row in file.bad] == [(6, "the demand is over the capacity")]
    assert file.notes == (
        "Orders at the depot itself: 3 (B, line 5, E). They are handed over there and are on no route.",
    )
    one_tour = read_orders(path, depot=DEPOT)
    assert [(day.names, day.at_depot) for day in one_tour.days][1:] == [(("E",), ()), (("F",), ())]
