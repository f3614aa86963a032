"""The page of a suite in a real browser: nothing is fetched, nothing fails, and what can be pressed works."""

from __future__ import annotations

import pytest
from browser import Watched
from suite_examples import example_suite

from dree.report.suite_page import write_suite_page

CURVES = "#group-0 [data-plot=curves]"
VISIBLE = f"document.querySelector('{CURVES}').data.map((trace) => trace.visible)"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    return write_suite_page(folder / "page.html", example_suite(folder)).as_uri()


def wait_until(page, expression):
    """Wait for a moment; playwright's own way needs an eval, which the page forbids."""
    for _ in range(100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"never true: {expression}")


class Suite(Watched):
    """The page of a suite, once its curves are drawn."""

    def __init__(self, browser, address, width=1280):
        super().__init__(browser, address, width)
        self.page.wait_for_selector(f"{CURVES} .scatterlayer .trace", state="attached")


@pytest.fixture
def watched(browser, address):
    opened = Suite(browser, address)
    yield opened
    opened.close()


@pytest.fixture
def page(watched):
    return watched.page


def test_every_method_has_a_curve_in_every_panel(page):
    assert page.locator(f"{CURVES} .scatterlayer .trace").count() == 2 * 6  # methods x tasks
    assert page.locator(f"{CURVES} .shapelayer path").count() == 5  # of six tasks the first is over before epoch 1
    assert page.locator("#group-0 [data-plot=numbers] .scatterlayer .trace").count() >= 2
    assert page.locator("#group-1").is_hidden()


def test_the_bar_over_a_plot_offers_nothing_that_leaves_the_page(page):
    titles = page.locator(f"{CURVES} .modebar-btn").evaluate_all("(buttons) => buttons.map((b) => b.dataset.title)")
    first, *others = titles
    assert first.startswith("Download plot as a")
    assert others == ["Zoom", "Pan", "Zoom in", "Zoom out", "Autoscale", "Reset axes"]


def test_a_click_on_the_legend_hides_and_shows_curves(page):
    button = page.locator("#group-0 .legend button").first
    button.click()
    assert page.evaluate(VISIBLE) == [False, True] * 6
    assert page.locator(f"{CURVES} .scatterlayer .trace").count() == 6
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    assert page.evaluate(VISIBLE) == [True] * 12
    assert page.locator(f"{CURVES} .scatterlayer .trace").count() == 12
    assert button.get_attribute("aria-pressed") == "true"


def test_the_legend_works_by_keyboard_and_twice_shows_one_alone(page):
    button = page.locator("#group-0 .legend button").first
    button.focus()
    page.keyboard.press("Enter")
    assert page.evaluate(VISIBLE) == [False, True] * 6
    page.keyboard.press("Enter")
    button.dblclick()
    assert page.evaluate(VISIBLE) == [True, False] * 6
    button.dblclick()
    assert page.evaluate(VISIBLE) == [True] * 12


def test_hovering_shows_epoch_gap_and_tasks(page):
    place = page.locator(CURVES)
    place.scroll_into_view_if_needed()
    point = place.evaluate(
        """(gd) => {
          const trace = gd.data[0], x = gd._fullLayout.xaxis, y = gd._fullLayout.yaxis, last = trace.x.length - 1;
          const box = gd.getBoundingClientRect();
          return [box.left + x._offset + x.d2p(trace.x[last]), box.top + y._offset + y.d2p(trace.y[last])];
        }"""
    )
    page.mouse.move(point[0] - 3, point[1] - 3)
    page.mouse.move(point[0], point[1])
    label = page.locator(f"{CURVES} .hoverlayer .hovertext")
    label.wait_for()
    text = label.text_content()
    for words in ("Explosion, n = 20", "epoch 5, learning ", "gap "):
        assert words in text
    assert any(method in text for method in ("fine-tuning", "dree"))


def test_dragging_zooms_all_panels_and_two_clicks_lead_back(page):
    place = page.locator(CURVES)
    place.scroll_into_view_if_needed()
    box = place.locator(".draglayer .nsewdrag").first.bounding_box()
    ranges = f"['xaxis', 'xaxis4'].map((axis) => document.querySelector('{CURVES}')._fullLayout[axis].range)"
    before = page.evaluate(ranges)
    page.mouse.move(box["x"] + 40, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 140, box["y"] + 100, steps=4)
    page.mouse.up()
    wait_until(page, f"{ranges}[1][1] < {before[1][1] - 0.5}")
    after = page.evaluate(ranges)
    assert after[0] == after[1]
    page.mouse.dblclick(box["x"] + 60, box["y"] + 60)
    wait_until(page, f"{ranges}[1][1] === {before[1][1]}")


def test_the_selectors_change_the_routes(page):
    left, right = (page.locator(f"#group-0 [data-side={side}]") for side in ("left", "right"))
    assert left.locator("figcaption").text_content().startswith("fine-tuning: length ")
    assert right.locator("figcaption").text_content().startswith("dree: length ")
    before = left.locator("svg").inner_html()
    page.select_option("#group-0 [data-choice=left]", label="reference")
    assert left.locator("figcaption").text_content().startswith("reference: length ")
    assert left.locator("svg").inner_html() != before
    assert left.locator("circle").count() == 20
    page.select_option("#group-0 [data-choice=test]", label="Compression, n = 30")
    assert left.locator("circle").count() == right.locator("circle").count() == 30
    assert right.locator("svg").get_attribute("aria-label").startswith("Compression, n = 30, dree: length ")
    page.select_option("#group-0 [data-choice=right]", label="reference")
    page.check("#group-0 [data-choice=fade]")
    lines = right.locator("line")
    faded = lines.evaluate_all("(lines) => lines.map((line) => line.getAttribute('stroke-opacity'))")
    assert set(faded) == {"0.14"}


def test_the_contents_lead_to_their_places_and_show_the_stream(page):
    for name in ("table-1", "runs", "group-1", "figures", "missing", "group-0"):
        page.click(f".contents a[href='#{name}']")
        page.locator(f"[id='{name}']").wait_for()  # shown when the browser has told of the new address
        wait_until(page, f"Math.abs(document.getElementById('{name}').getBoundingClientRect().top) < innerHeight")
    page.select_option("#stream", "1")
    assert page.locator("#group-1").is_visible()
    assert page.locator("#group-0").is_hidden()
    assert page.locator("#group-1 [data-plot=curves] .scatterlayer .trace").count() == 12


def test_a_head_of_a_table_sorts_it_up_down_and_back(page):
    names = "(rows) => rows.map((row) => row.cells[1].firstChild.textContent.split(' ')[0])"
    rows = page.locator("#table-0 tbody tr")
    head = page.locator("#table-0 thead button", has_text="AP")
    assert rows.evaluate_all(names) == ["MT-Ref", "fine-tuning", "DREE"]
    head.click()
    assert rows.evaluate_all(names) == ["MT-Ref", "DREE", "fine-tuning"]
    head.click()
    assert rows.evaluate_all(names) == ["fine-tuning", "DREE", "MT-Ref"]
    head.click()
    assert rows.evaluate_all(names) == ["MT-Ref", "fine-tuning", "DREE"]
    page.locator("#table-0 thead button", has_text="AFB").click()  # dashes stay at the end
    assert rows.evaluate_all(names) == ["fine-tuning", "MT-Ref", "DREE"]


def test_on_a_phone_the_panels_stand_below_one_another_and_nothing_sticks_out(browser, address):
    phone = Suite(browser, address, width=420)
    assert phone.page.locator(CURVES).get_attribute("data-columns") == "1"
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 420
    phone.page.set_viewport_size({"width": 1280, "height": 900})
    phone.page.wait_for_selector(f"{CURVES}[data-columns='3']")
    phone.close()
