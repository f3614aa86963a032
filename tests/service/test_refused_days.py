"""What cannot be learned is refused by itself, and all else is learned."""

from __future__ import annotations

import re

import pytest

from dree.errors import DreeError
from dree.service import learning
from dree.service.days import Given, RefusedError, UnlearnableError
from dree.service.state import State
from small_days import learn, small_start, write_day

pytest.importorskip("hygese")
pytestmark = pytest.mark.usefixtures("shared_references")


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
        rf"{planar}: 2026-01-08 has x and y, but the days of {state.path} have latitude and longitude",
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
    with pytest.raises(
        RefusedError, match=rf"^{planar}: 2026-01-08 has x and y, but .*\nHalf of these days or more do not fit"
    ):
        learn(tmp_path / "state", days[0], planar, start=start)
    assert not (tmp_path / "state").exists()


def test_one_odd_file_among_the_first_is_refused_alone_and_named(tmp_path, start, days, planar):
    with pytest.raises(RefusedError, match=rf"^Refused, while all else was learned:\n{planar}: 2026-01-08 has x and y"):
        learn(tmp_path / "state", days[0], planar, days[1], start=start)
    assert [day.name for day in State.open(tmp_path / "state").days] == ["2026-01-01", "2026-01-02"]


def test_of_first_days_too_those_of_another_continent_are_refused(tmp_path, start, days):
    days[1].write_text(days[1].read_text().replace("48.0", "-33.0"))
    with pytest.raises(RefusedError, match=rf"{days[1]}: The stops of 2026-01-02 are .* km from those of 2026-01-01"):
        learn(tmp_path / "state", *days[:3], start=start)
    assert [day.name for day in State.open(tmp_path / "state").days] == ["2026-01-01", "2026-01-03"]


def test_a_corrected_day_is_told_the_very_command_that_undoes_the_wrong_one(tmp_path, start, days, monkeypatch):
    state = learn(tmp_path / "state", *days[:3], start=start)
    corrected = write_day(tmp_path / "days", 2, seed=99)
    with pytest.raises(RefusedError, match=rf"then learn these days again \(dree history {state.path} --rollback 1\)"):
        learn(state.path, corrected)
    monkeypatch.setattr(learning, "KEPT", 1)
    learn(state.path, days[3])
    with pytest.raises(RefusedError, match=r"as version 2, with other stops\. It cannot be undone any more"):
        learn(state.path, corrected)


def test_days_without_dates_are_learned_in_the_order_of_the_numbers_in_their_names(tmp_path, start, days):
    files = []
    for number, day in zip((10, 2, 11, 1), days, strict=True):
        lines = [line.partition(",")[2] for line in day.read_text().splitlines()]
        files.append(tmp_path / f"tour{number}.csv")
        files[-1].write_text("\n".join(lines))
    said: list[str] = []
    state = learn(tmp_path / "state", *files, start=start, say=said.append)
    assert [day.name for day in state.days] == ["tour1", "tour2", "tour10", "tour11"]
    assert not [words for words in said if "older than" in words]


def test_what_a_day_too_small_to_be_learned_has_fixed_is_said_truly(tmp_path, start, days):
    state = learn(tmp_path / "state", write_day(tmp_path / "days", 5, stops=3), start=start)
    told = (
        r"the first day that came to this state, 2026-01-05, fixed it: it has none\. .*you may also remove .* and begin"
    )
    with pytest.raises(DreeError, match=told):
        learn(state.path, days[0], given=Given(depot=(48.0, 11.0)))
    learn(state.path, days[0])
    with pytest.raises(DreeError, match=r"fixed it: it has none\. Leave it out, or learn in another folder\.$"):
        learn(state.path, days[1], given=Given(depot=(48.0, 11.0)))
