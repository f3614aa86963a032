"""The map: complete in one file, and harmless whatever the stops are called."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_page import Page

from dree.data.orders import OrderFile, read_orders
from dree.report.map_page import MOST_ROWS, map_data, write_map
from dree.routing import Plan, Share
from dree.tasks.orders import Orders
from order_days import a_day, kilometres

EVIL = "</script><script>alert(1)</script>"


def a_plan(**settings) -> Plan:
    orders = a_day(9, **settings)
    return Plan.of(orders, [[0, 1, 2], [3, 4, 5, 6], [7, 8]] if orders.demands is not None else [range(9)])


def a_file(folder: Path) -> OrderFile:
    """A file with three stops and two rows that cannot be routed."""
    rows = ["A,52.5,13.4,1", "B,52.6,13.4,2", "C,52.5,13.5,3", "D,,13.4,4", f"{EVIL},here,13.4,5"]
    (folder / "orders.csv").write_text("\n".join(["id,lat,lon,kg", *rows]))
    return read_orders(folder / "orders.csv")


def test_every_stop_is_in_the_tables_in_the_order_of_visits(tmp_path):
    plan = a_plan(capacity=99)
    page = Page(write_map(tmp_path / "map.html", plan).read_text())
    names = [word for word in page.words if word.startswith("stop ")]
    assert names == [visit.name for visit in plan.visits]


def test_names_cannot_break_out_of_the_page(tmp_path):
    places = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 2.0]])
    plan = Plan.of(
        Orders(f"day {EVIL}", places, (EVIL, "<img src=x onerror=alert(2)>", "&amp; '\""), False), [[0, 1, 2]]
    )
    source = replace(a_file(tmp_path), notes=(EVIL,), path=tmp_path / EVIL)
    text = write_map(tmp_path / "map.html", plan, [Share(EVIL, 1.0, 1.0)], source).read_text()
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 2  # the data and the map's own
    assert "img" not in {tag for tag, _ in page.tags}
    data = json.loads(re.search(r'id="plan">(.*?)</script>', text, re.DOTALL).group(1))
    assert [stop["name"] for stop in data["routes"][0]["stops"]] == list(plan.orders.names)


@pytest.mark.parametrize("geographic", [True, False])
def test_the_map_is_to_scale(geographic):
    plan = a_plan(geographic=geographic)
    data = map_data(plan)
    points = [np.array(stop["at"]) for stop in data["routes"][0]["stops"]]
    places = [visit.place for visit in plan.visits]
    for one in range(3):
        drawn = np.linalg.norm(points[one] - points[one + 1]) * data["extent"]
        true = (
            kilometres(places[one], places[one + 1])
            if geographic
            else np.linalg.norm(np.subtract(*places[one : one + 2]))
        )
        assert drawn == pytest.approx(true, rel=1e-4)
    north = max(range(9), key=lambda index: places[index][1])
    assert min(range(9), key=lambda index: points[index][1]) == north


def test_what_each_solver_did_and_what_is_missing_stand_at_the_top(tmp_path):
    shares = [Share("version 3 of state", 84.2, 1.31), Share("pyvrp 0.14.1", 81.9, 5.0)]
    page = Page(write_map(tmp_path / "map.html", a_plan(), shares, a_file(tmp_path)).read_text())
    words = " ".join(page.words)
    assert "Routes of 84.20 km in 1.3 s by version 3 of state." in words
    assert "Improved to 81.90 km (-2.7 %) in 5.0 s by pyvrp 0.14.1." in words
    assert "2 rows of orders.csv could not be used; what they order is on no route: see the table below." in words
    assert "The demands (kg) are neither used nor checked: without --capacity there is one tour for all." in words


def test_what_is_on_no_route_is_listed_with_line_reason_and_content(tmp_path):
    plan = a_plan(capacity=99)
    plan = Plan(replace(plan.orders, at_depot=("here", "and here")), plan.routes)
    words = Page(write_map(tmp_path / "map.html", plan, source=a_file(tmp_path)).read_text()).words
    begin = words.index("On no route")
    assert words[begin + 4 : begin + 14] == [
        *("at the depot itself, to be handed over there", "here"),
        *("at the depot itself, to be handed over there", "and here"),
        *("5", "the latitude is missing", "D,,13.4,4"),
        *("6", "the latitude is not a number", f"{EVIL},here,13.4,5"),
    ]
    assert "On no route" not in write_map(tmp_path / "map.html", a_plan()).read_text()


def test_of_very_many_rows_on_no_route_the_first_are_listed(tmp_path):
    source = a_file(tmp_path)
    many = tuple(replace(source.bad[0], line=line) for line in range(2, 1533))
    page = Page(write_map(tmp_path / "map.html", a_plan(), source=replace(source, bad=many)).read_text())
    assert page.words.count("the latitude is missing") == MOST_ROWS
    assert f"and {1531 - MOST_ROWS} more rows, which --json lists" in page.words


def test_large_numbers_keep_their_digits(tmp_path):
    places = np.array([[4468123.5, 5334567.25], [4468999.5, 5335567.75]])
    demands = np.array([12500005, 2500000])
    plan = Plan.of(Orders("day", places, ("a", "b"), False, (0.0, 0.0), demands, 20000000, 10), [[0, 1]])
    words = Page(write_map(tmp_path / "map.html", plan).read_text()).words
    assert {"4468123.5, 5334567.25", "1250000.5", "1500000.5", f"{plan.length:.0f}"} <= set(words)
    assert f"2 stops, load 1500000.5 of 2000000, {plan.length:.0f}" in words
