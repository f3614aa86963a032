"""A day of another city is learned, with a warning; days of one city are learned without a word."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from conftest import small_solver
from dree.service.days import record_of
from dree.service.records import Settings
from dree.service.region import far_away
from dree.service.state import State
from order_days import BERLIN, a_day
from small_days import learn, small_start, write_day

pytestmark = pytest.mark.usefixtures("shared_references")

NETWORK = {"width": 16, "heads": 2, "layers": 2, "feed_forward": 32}
WHEN = "2026-01-01T00:00:00+00:00"


@pytest.fixture
def state(tmp_path):
    settings = Settings("tsp", geographic=True, network=NETWORK, start="small")
    return State.create(tmp_path / "state", settings, small_solver("tsp"), WHEN)


def moved(day, east, north=0.0):
    """The day at another place; its depot stays."""
    return replace(day, places=day.places + np.array([east, north]))


def seen(state, *days):
    return replace(state, days=tuple(record_of(day, WHEN, state.in_use) for day in days))


def test_a_day_of_another_city_is_warned_of(state):
    state = seen(state, a_day(seed=1), a_day(seed=2))
    munich = moved(a_day(), 11.6 - BERLIN[0], 48.1 - BERLIN[1])
    warning = far_away(munich, state)
    assert "Look at 2026-03-04: its stops are at least 4" in warning
    assert f"dree history {state.path} --rollback 0" in warning
    assert far_away(a_day(seed=3), state) is None
    assert far_away(munich, seen(state, a_day(seed=1), munich)) is None


def test_a_day_too_small_to_be_learned_does_not_make_another_city_known(state):
    munich = moved(a_day(), 11.6 - BERLIN[0], 48.1 - BERLIN[1])
    state = seen(state, a_day(seed=1))
    state = replace(state, days=(*state.days, record_of(munich, WHEN, None)))
    assert far_away(munich, state) is not None


def test_a_day_in_one_street_nearby_is_not_far(state):
    street = replace(a_day(), places=np.array(BERLIN) + np.linspace(0, 0.001, 12)[:, None] + (0.25, 0.0))
    assert far_away(street, seen(state, a_day(seed=1))) is None


def test_the_first_day_is_held_to_its_depot(state):
    assert far_away(a_day(), state) is None
    assert "from the depot, and a day spans" in far_away(moved(a_day(), 3.0), state)
    assert far_away(moved(a_day(depot=False), 3.0), state) is None


def test_in_a_plane_there_are_no_kilometres(state):
    state = seen(state, a_day(geographic=False))
    assert "at least 36" in far_away(moved(a_day(geographic=False), 400.0), state)


def test_it_is_said_and_the_day_is_learned(tmp_path):
    pytest.importorskip("hygese")
    here, there = (write_day(tmp_path / "days", number) for number in (1, 2))
    there.write_text(there.read_text().replace("48.0", "52.0"))
    said: list[str] = []
    state = learn(tmp_path / "state", here, there, start=small_start(tmp_path / "start"), say=said.append)
    assert [words for words in said if words.startswith("Look at 2026-01-02: its stops are at least 4")]
    assert [day.version for day in state.days] == [1, 2]
