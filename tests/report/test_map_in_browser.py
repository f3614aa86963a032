"""The map in a real browser: nothing is fetched, nothing fails, and what can be pressed works."""

from __future__ import annotations

import numpy as np
import pytest
from browser import Watched

from dree.report.map_page import write_map
from dree.routing import Plan
from dree.tasks.orders import Orders
from order_days import a_day

EVIL = "</script><script>document.title='broken'</script>"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    orders = a_day(9, capacity=99)
    named = Orders(orders.day, orders.places, (EVIL, *orders.names[1:]), True, orders.depot, orders.demands, 99)
    plan = Plan.of(named, [[0, 1, 2], [3, 4, 5, 6], [7, 8]])
    return write_map(tmp_path_factory.mktemp("map") / "map.html", plan).as_uri()


@pytest.fixture
def page(browser, address):
    opened = Watched(browser, address)
    yield opened.page
    opened.close()


def shown(page):
    return [page.locator(f"#map polyline[data-route='{number}']").is_visible() for number in range(3)]


FIND = "routes.flatMap((route) => route.stops).find((stop) => stop.name === name)"
MIDDLE = "const box = found.dot.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]"


def dot(page, name):
    """The middle of a stop's dot on the screen."""
    return page.evaluate(f"(name) => {{ const found = {FIND}; {MIDDLE} }}", name)


def at(page, name):
    """Where a stop is on the map, in pixels."""
    return page.evaluate(f"(name) => {FIND}.screen", name)


def test_all_routes_and_stops_are_drawn_inside_the_map(page):
    assert shown(page) == [True, True, True]
    box = page.locator("#map").bounding_box()
    dots = [each.bounding_box() for each in page.locator("#map .dot").all()]
    assert len(dots) == 9
    for each in dots:
        assert box["x"] < each["x"] < box["x"] + box["width"]
        assert box["y"] < each["y"] < box["y"] + box["height"]
    assert page.locator("#map .depot").count() == 1


def test_the_legend_switches_routes_on_and_off(page):
    button = page.locator(".legend [data-route='1']")
    button.click()
    assert shown(page) == [True, False, True]
    assert button.get_attribute("aria-pressed") == "false"
    page.get_by_text("Hide all").click()
    assert shown(page) == [False, False, False]
    page.get_by_text("Show all").click()
    assert shown(page) == [True, True, True]
    button.focus()
    page.keyboard.press("Enter")
    assert shown(page) == [True, False, True]


def test_pointing_at_a_stop_says_its_name_and_more(page):
    page.mouse.move(*dot(page, EVIL))
    tip = page.locator("#tip")
    assert tip.is_visible()
    words = tip.inner_text()
    assert EVIL in words
    assert "demand" in words
    assert "km from the depot" in words
    assert page.title() == "Routes of 2026-03-04"
    page.mouse.move(5, 5)
    assert tip.is_hidden()


def test_it_can_be_zoomed_and_moved(page):
    before, scale = at(page, "stop 4"), page.locator("#scale-text").inner_text()
    x, y = dot(page, "stop 4")
    page.mouse.move(x, y)
    page.mouse.wheel(0, -300)
    assert page.locator("#scale-text").inner_text() != scale
    zoomed = at(page, "stop 4")
    assert zoomed == pytest.approx(before, abs=3)  # the place under the pointer stays, to a pixel before it was zoomed
    page.mouse.down()
    page.mouse.move(x + 50, y + 30)
    page.mouse.up()
    assert at(page, "stop 4") == pytest.approx([zoomed[0] + 50, zoomed[1] + 30], abs=1)
    page.locator("[data-zoom='0']").click()
    assert at(page, "stop 4") == pytest.approx(before, abs=1)


def test_it_works_by_keyboard(page):
    before = at(page, "stop 4")
    page.locator("#map").focus()
    page.keyboard.press("ArrowRight")
    assert at(page, "stop 4") == pytest.approx([before[0] - 60, before[1]], abs=1)
    page.keyboard.press("+")
    assert at(page, "stop 4") != pytest.approx([before[0] - 60, before[1]], abs=1)
    page.keyboard.press("0")
    assert at(page, "stop 4") == pytest.approx(before, abs=1)


def test_the_scale_bar_is_as_long_as_it_says(page):
    number, unit = page.locator("#scale-text").inner_text().split()
    kilometres = float(number) / (1000 if unit == "m" else 1)
    bar = page.locator("#scale-bar").bounding_box()["width"]
    per_pixel = page.evaluate("plan.extent / view.zoom")
    assert bar * per_pixel == pytest.approx(kilometres, rel=0.05)
    assert 60 <= bar <= 151


def test_a_tap_says_the_name_too(browser, address):
    opened = Watched(browser, address, width=420, has_touch=True, is_mobile=True)
    opened.page.locator("#map").scroll_into_view_if_needed()
    opened.page.touchscreen.tap(*dot(opened.page, "stop 4"))
    assert "stop 4" in opened.page.locator("#tip").inner_text()
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 420
    opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_routes_stand_out_from_the_page_by_day_and_by_night(browser, address, scheme):
    opened = Watched(browser, address, color_scheme=scheme)
    script = """() => {
      const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
      const light = (colour) => {
        canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
        const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((v) => linear(v / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const back = light(getComputedStyle(document.querySelector(".view")).backgroundColor);
      return [...document.querySelectorAll("#map .line")].map((line) => {
        const own = light(getComputedStyle(line).stroke);
        return (Math.max(own, back) + 0.05) / (Math.min(own, back) + 0.05);
      });
    }"""
    assert min(opened.page.evaluate(script)) > 2.9  # contrast; 3 is what graphics should have
    opened.close()


@pytest.mark.parametrize("places", [[[13.0, 52.0]], [[13.0, 52.0], [13.1, 52.0]], [[13.0, 52.0]] * 4])
def test_hardly_any_places_are_a_map_too(browser, tmp_path, places):
    orders = Orders("d", np.array(places), tuple("abcd"[: len(places)]), True)
    opened = Watched(browser, write_map(tmp_path / "map.html", Plan.of(orders, [range(len(places))])).as_uri())
    opened.page.mouse.move(*dot(opened.page, "a"))
    assert opened.page.locator("#tip").is_visible()
    opened.close()


def test_every_digit_of_a_number_is_inside_its_circle_and_no_circle_covers_another(browser, tmp_path):
    places = [[13.4 + number % 33 * 0.01, 52.5 + number // 33 * 0.006] for number in range(1020)]
    orders = Orders("d", np.array(places), tuple(map(str, range(1020))), True)
    opened = Watched(browser, write_map(tmp_path / "map.html", Plan.of(orders, [range(1020)])).as_uri(), width=1400)
    opened.page.locator("[data-zoom='1.6']").click()
    stops = opened.page.evaluate(
        "routes[0].stops.filter((stop) => stop.label.textContent).map((stop) => "
        "[...stop.screen, Number(stop.dot.getAttribute('r')), stop.label.getBBox().width, stop.label.textContent])"
    )
    assert {len(label) for *_, label in stops} == {1, 2, 3, 4}
    for x, y, r, width, _ in stops:
        assert width < 2 * r
        near = [(a, b, c) for a, b, c, *_ in stops if 0 < abs(a - x) + abs(b - y) < 60]
        assert all(np.hypot(a - x, b - y) >= r + c for a, b, c in near)
    opened.close()


def test_a_thousand_stops_are_drawn(browser, tmp_path):
    plan = Plan.of(a_day(1000, depot=False), [range(1000)])
    opened = Watched(browser, write_map(tmp_path / "map.html", plan).as_uri())
    assert opened.page.locator("#map .dot").count() == 1000
    opened.page.locator("[data-zoom='1.6']").click()
    opened.close()
