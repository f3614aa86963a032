"""The page about a solver that keeps learning says what an operator wants to know, in words and numbers."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest
from test_page import Page

from command_line import invoke
from conftest import small_solver
from dree.report.watch_figures import drift_curve, quality_curves
from dree.report.watch_page import days_in_order, past_gap, summary, versions_table, watch_drift, write_watch_page
from dree.service.records import Day, Gaps, LearnerAt, Past, Rollback, Settings, Version
from dree.service.state import State, store

NETWORK = {"width": 16, "heads": 2, "layers": 2, "feed_forward": 32}
WHEN = "2026-01-01T00:00:00+00:00"


def a_state(folder, names, refused=(), spread=lambda number: 0.1) -> State:
    """A state with a version for each day; the gap on past days falls from 2 % by 0.01 a day."""
    state = State.create(folder, Settings("tsp", True, network=NETWORK, start="small"), small_solver("tsp"), WHEN)
    generator = np.random.default_rng(0)
    versions, days, in_use = list(state.versions), [], 0
    for number, name in enumerate(names, start=1):
        promoted = number not in refused
        places = np.array([13.0, 52.0]) + generator.normal(0, spread(number), (15, 2))
        sample = tuple((float(x), float(y)) for x, y in places)
        days.append(Day(name, f"k{number}", 15 + number, WHEN, number, 5.0, (13.0, 52.0), None, sample))
        past = None if number == 1 else Gaps(2.0 - 0.01 * (number - 1), 2.0 - 0.01 * number)
        reason = "better" if promoted else "it is 1.00 points worse on past days"
        gaps = Gaps(3.0 + number / 10, 2.5)
        versions.append(
            Version(number, WHEN, promoted, None, name, 15 + number, 8, 9.0, gaps, past, reason, number - 1)
        )
        in_use = number if promoted else in_use
    learner = LearnerAt(len(days), None)
    more = replace(state, versions=tuple(versions), days=tuple(days), in_use=in_use, learner=learner)
    more.commit()
    return more


def dates(count):
    return [str(np.datetime64("2026-03-01") + number) for number in range(count)]


def words_of(path) -> str:
    return " ".join(Page(path.read_text()).words)


def test_it_says_how_good_the_solver_is_and_was_a_month_ago(tmp_path):
    state = a_state(tmp_path / "state", dates(40))
    assert summary(state) == [
        "The solver has learned 40 days, 2026-03-01 to 2026-04-09.",
        "On past days its routes are 1.6 % longer than the reference; a month ago 1.9 %.",
        "Version 40 is in use.",
    ]


def test_refused_versions_are_named_and_marked(tmp_path):
    state = a_state(tmp_path / "state", dates(5), refused=(3, 5))
    assert summary(state)[-1] == "Version 4 is in use. Of 5 that were learned, versions 3, 5 were refused."
    rows = {row.name: row for row in versions_table(state).rows}
    assert list(rows) == ["5 (refused)", "4 (in use)", "3 (refused)", "2", "1", "0"]
    assert rows["3 (refused)"].cells == ("18", "3.30", "2.50", "1.98", "1.97")
    assert "1.00 points worse" in rows["3 (refused)"].note


def test_the_gap_on_past_days_is_that_of_the_version_in_use(tmp_path):
    state = a_state(tmp_path / "state", dates(3))
    assert past_gap(state) == pytest.approx(1.97)
    file = store(state.path, "day", {})
    past = (Past("2026-03-01", 1, file, ((1, 4.0), (2, 1.0))), Past("2026-03-02", 2, file, ((2, 2.0),)))
    rolled = replace(state, past=past, in_use=2, rollbacks=(Rollback(WHEN, 3, 2),))
    assert past_gap(rolled) == pytest.approx(1.5)


def test_days_are_shown_by_date_whatever_order_they_were_learned_in(tmp_path):
    first, *others = dates(9)
    state = a_state(tmp_path / "state", [*others[1:], first, others[0]])
    assert summary(state)[0] == "The solver has learned 9 days, 2026-03-01 to 2026-03-09."
    assert [day.name for day in days_in_order(state)] == [first, *others]
    assert [day.name for day in days_in_order(a_state(tmp_path / "names", ["b", "a"]))] == ["b", "a"]


def test_going_back_is_said_and_its_days_do_not_count(tmp_path):
    state = a_state(tmp_path / "state", dates(5))
    rolled = replace(state, in_use=3, learner=LearnerAt(3, None), rollbacks=(Rollback(WHEN, 5, 3),))
    said = summary(rolled)
    assert said[0] == "The solver has learned 3 days, 2026-03-01 to 2026-03-03."
    assert said[-1] == (
        "On 2026-01-01 somebody went back from version 5 to version 3. "
        "Undone, and not learned again since: 2026-03-04, 2026-03-05."
    )
    assert [row.name for row in versions_table(rolled).rows][:3] == ["5 (undone)", "4 (undone)", "3 (in use)"]
    (axes,) = quality_curves(rolled).axes
    assert len(axes.lines[0].get_xdata()) == 3
    page = words_of(write_watch_page(tmp_path / "page.html", rolled, None))
    assert "somebody went back from version 5 to version 3" in page


def test_a_day_too_small_to_be_compared_is_named_and_breaks_the_line(tmp_path):
    pytest.importorskip("ot")
    state = a_state(tmp_path / "state", dates(8))
    small = replace(state.days[2], sample=state.days[2].sample[:11])
    state = replace(state, days=(*state.days[:2], small, *state.days[3:]))
    drift = watch_drift(state)
    page = words_of(write_watch_page(tmp_path / "page.html", state, drift))
    assert "Days with fewer stops than that are left out: 2026-03-03." in page
    heights = drift_curve(days_in_order(state), True, drift).axes[0].lines[-1].get_ydata()
    assert np.isnan(heights).tolist() == [number == 2 for number in range(8)]


def test_drift_is_said_once_there_are_days_after_the_first_month(tmp_path):
    pytest.importorskip("ot")
    drifted = a_state(tmp_path / "one", dates(40), spread=lambda number: 0.1 if number <= 30 else 0.3)
    page = words_of(write_watch_page(tmp_path / "one.html", drifted, watch_drift(drifted)))
    assert "% more than its days from one another" in page
    still = a_state(tmp_path / "two", dates(40))
    page = words_of(write_watch_page(tmp_path / "two.html", still, watch_drift(still)))
    assert "no drift" in page
    young = a_state(tmp_path / "three", dates(10))
    page = words_of(write_watch_page(tmp_path / "three.html", young, watch_drift(young)))
    assert "Whether the days drift can be said after the first month." in page
    assert "from one another: no drift" not in page


def test_without_the_package_all_else_is_there(tmp_path, monkeypatch):
    state = a_state(tmp_path / "state", dates(5))
    spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "ot" else spec(name, *rest))
    said = invoke("watch", state.path, "--out", tmp_path / "page.html")
    assert "pip install 'dree[drift]'" in said
    page = words_of(tmp_path / "page.html")
    assert "pip install 'dree[drift]'" in page
    assert "The solver has learned 5 days" in page


def test_a_state_without_days_is_a_page_too(tmp_path):
    state = a_state(tmp_path / "state", [])
    invoke("watch", state.path, "--out", tmp_path / "page.html")
    assert "has not learned any day yet" in words_of(tmp_path / "page.html")


def test_names_of_days_are_harmless(tmp_path):
    state = a_state(tmp_path / "state", ["<b>$x$</b>", r"\frac{", "c", "d"])
    page = Page(write_watch_page(tmp_path / "page.html", state, watch_drift(state)).read_text())
    assert "b" not in {tag for tag, _ in page.tags}
    assert "<b>$x$</b>" in " ".join(page.words)
