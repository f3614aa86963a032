"""What cannot be learned is refused by itself, and all else is learned."""

from __future__ import annotations

import re

import pytest

from dree.errors import DreeError
from dree.service import learning
from dree.service.days import RefusedError, UnlearnableError
from dree.service.state import State
from small_days import learn, small_start, write_day

pytest.importorskip("hygese")


@pytest.fixture
def start(tmp_path):
    return small_start(tmp_path / "start")


@pytest.fixture
def days(tmp_path):
    return [write_day(tmp_path / "days", number) for number in range(1, 5)]


@pytest.fixture
def planar(tmp_path):
    """A day in other coordinates than all others."""
    path = tmp_path / "planar.csv"
    path.write_text("date,x,y\n" + "".join(f"2026-01-08,{i * 1000},{i * i}\n" for i in range(12)))
    return path


@pytest.fixture
def bad(tmp_path):
    """A file without orders."""
    path = tmp_path / "bad.csv"
    path.write_text("nothing here\n")
    return path


def test_what_is_refused_keeps_no_other_day_from_being_learned(tmp_path, start, days, planar):
    state = learn(tmp_path / "state", days[0], start=start)
    corrected = write_day(tmp_path / "days", 1, seed=99)
    twice = [days[2], write_day(tmp_path / "days", 3, seed=99)]
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    reasons = [
        rf"{empty} is empty",
        rf"{planar}: 2026-01-08: as coordinates it has x and y, but the first day had longitude and latitude",
        rf"{corrected}: 2026-01-01 was learned before as version 1, with other stops",
        *(rf"{path}: 2026-01-03 is there twice in these files, with other stops" for path in twice),
    ]
    said: list[str] = []
    with pytest.raises(RefusedError, match=r"^Refused, while all else was learned:\n" + r".*\n".join(reasons)):
        learn(state.path, *days, corrected, empty, planar, twice[1], say=said.append)
    for words, reason in zip([words for words in said if words.startswith("Refused")], reasons, strict=True):
        assert re.match(f"Refused: {reason}", words)
    assert [day.name for day in State.open(state.path).days] == ["2026-01-01", "2026-01-02", "2026-01-04"]


def test_a_new_state_is_made_of_the_files_that_can_be_read(tmp_path, start, days, bad):
    with pytest.raises(RefusedError, match=r"while all else was learned:\n.*bad\.csv"):
        learn(tmp_path / "state", bad, days[0], start=start)
    assert [day.name for day in State.open(tmp_path / "state").days] == ["2026-01-01"]


def test_a_day_whose_samples_are_all_at_one_place_counts_as_seen(tmp_path, start, days, monkeypatch):
    real = learning.draw_sample

    def drawn(task, *words):
        if task.orders.day == "2026-01-01":
            raise UnlearnableError("2026-01-01 has nearly all of its stops at one place.")
        return real(task, *words)

    monkeypatch.setattr(learning, "draw_sample", drawn)
    state = learn(tmp_path / "state", *days[:2], start=start)
    assert [(day.name, day.version) for day in state.days] == [("2026-01-01", None), ("2026-01-02", 1)]


def test_nothing_is_made_where_no_file_can_be_read(tmp_path, start, bad):
    with pytest.raises(RefusedError, match=r"bad\.csv"):
        learn(tmp_path / "state", bad, start=start)
    assert not (tmp_path / "state").exists()


def test_first_days_of_several_kinds_make_no_state(tmp_path, start, days, planar):
    """Nobody knows which of them is right."""
    with pytest.raises(DreeError, match=r"as coordinates it has x and y, but the first day had longitude and latitude"):
        learn(tmp_path / "state", days[0], planar, start=start)
    assert not (tmp_path / "state").exists()
