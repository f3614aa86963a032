"""Going back undoes days, which may be learned again; going forward again brings them back."""

from __future__ import annotations

import json

import pytest
import torch

from dree.errors import DreeError
from dree.lifelong.checkpoint import load_checkpoint
from dree.service import learning, rollback
from dree.service.rollback import roll_back
from dree.service.state import State
from small_days import contents, learn, small_start, write_day

pytest.importorskip("hygese")
pytestmark = pytest.mark.usefixtures("shared_references")


@pytest.fixture
def days(tmp_path):
    return [write_day(tmp_path / "days", number) for number in range(1, 5)]


@pytest.fixture
def state(tmp_path, days):
    """A state that has learned three days, each of them put to use."""
    return learn(tmp_path / "state", *days[:3], start=small_start(tmp_path / "start"), margin=100)


def learned(state: State) -> list[tuple[str, int | None]]:
    return [(day.name, day.version) for day in state.seen]


def kept(state: State) -> list[tuple[str, int]]:
    return [(past.day, past.version) for past in state.reservoir]


def test_going_back_puts_a_version_to_use_and_learns_on_from_it(state, days):
    back = roll_back(state.path, 1)
    assert State.open(state.path) == back
    assert (back.in_use, back.learner.version, len(back.versions)) == (1, 1, 4)
    assert [(each.left, each.to) for each in back.rollbacks] == [(3, 1)]
    then = load_checkpoint(state.path / "files" / state.learner.file.name)["learner"]
    now = load_checkpoint(back.path / "files" / back.learner.file.name)["learner"]
    wanted = back.solver_of(back.versions[1]).state_dict()
    assert all(torch.equal(now["solver"][name], wanted[name]) for name in wanted)
    assert now["optimiser"]["state"] == {}
    assert now["batches"] == then["batches"] == 3
    assert len(now["method"]["buffer"]["items"]) == len(then["method"]["buffer"]["items"]) == 3
    (past,) = back.reservoir
    assert past.gaps[-1] == (1, state.past[0].gaps[0][1])
    after = learn(state.path, days[3])
    assert [(version.number, version.parent) for version in after.versions[1:]] == [(1, 0), (2, 1), (3, 2), (4, 1)]
    assert after.versions[4].past.before == past.gaps[-1][1]
    with pytest.raises(DreeError, match=r"There is no version 9.*The newest is 4"):
        roll_back(state.path, 9)


def test_days_that_were_gone_back_from_are_learned_again_corrected_or_not(tmp_path, state, days):
    said: list[str] = []
    back = roll_back(state.path, 1, said.append)
    assert said[-1].startswith("Not learned any more: 2026-01-02, 2026-01-03.")
    assert learned(back) == kept(back) == [("2026-01-01", 1)]
    corrected = write_day(tmp_path / "days", 2, seed=99)
    after = learn(state.path, days[0], corrected, days[2], margin=100)
    assert learned(after) == kept(after) == [("2026-01-01", 1), ("2026-01-02", 4), ("2026-01-03", 5)]
    with pytest.raises(DreeError, match=r"2026-01-02 was learned before as version 4, with other stops"):
        learn(state.path, days[1])


def test_going_forward_again_brings_back_the_days_of_that_version(tmp_path, state, days):
    roll_back(state.path, 1)
    after = learn(state.path, write_day(tmp_path / "days", 2, seed=99), margin=100)
    said: list[str] = []
    forward = roll_back(state.path, 3, said.append)
    assert said == ["Learned again, as they were: 2026-01-02, 2026-01-03."]
    assert learned(forward) == learned(state)
    assert sorted(kept(forward)) == kept(state)
    assert all(past.gaps[-1][0] == 3 for past in forward.reservoir)
    assert forward.damaged() == {}
    learn(state.path, *days[:3], say=said.append)
    assert said[-1] == "2026-01-03 was learned before as version 3. Skipped."
    assert learned(roll_back(state.path, 4)) == learned(after)


def test_only_days_that_do_not_count_any_more_are_said_to_be_learned_no_more(state, days):
    roll_back(state.path, 2)
    learn(state.path, *days, margin=100)
    said: list[str] = []
    roll_back(state.path, 3, said.append)
    assert said == [
        "Not learned any more: 2026-01-04. Given again, corrected or not, such a day is learned again.",
        "Learned again, as they were: 2026-01-03.",
    ]


def test_a_rollback_that_fails_leaves_no_file_behind(state, monkeypatch):
    there = sorted((state.path / "files").iterdir())
    monkeypatch.setattr(rollback, "without_old_solvers", refuse)
    with pytest.raises(DreeError, match="Make room"):
        roll_back(state.path, 1)
    assert sorted((state.path / "files").iterdir()) == there


def refuse(*_):
    raise DreeError("Make room.")


def test_past_days_are_kept_aside_only_while_there_is_a_version_to_go_to(tmp_path, state, monkeypatch):
    monkeypatch.setattr(learning, "KEPT", 3)
    roll_back(state.path, 1)
    files = [write_day(tmp_path / "days", number) for number in range(11, 16)]
    after = learn(state.path, *files, margin=100)
    assert [version.number for version in after.versions if version.solver] == [6, 7, 8]
    assert after.past == after.reservoir
    with pytest.raises(DreeError, match=r"version 3 is no longer kept. There are: 6, 7, 8"):
        roll_back(state.path, 3)


def test_a_day_seen_too_early_still_counts_as_seen(tmp_path, state):
    small = write_day(tmp_path / "days", 5, stops=9)
    learn(state.path, small)
    back = roll_back(state.path, 1)
    assert learned(back) == [("2026-01-01", 1), ("2026-01-05", None)]


def test_a_state_of_before_versions_had_parents_can_be_gone_back_in(tmp_path, state, days):
    content = json.loads((state.path / "state.json").read_text())
    for version in content["versions"]:
        del version["parent"]
    for past in content["past"]:
        del past["version"]
    (state.path / "state.json").write_text(json.dumps(content))
    assert contents(State.open(state.path)) == contents(state)
    assert [version.parent for version in State.open(state.path).versions] == [None, 0, 1, 2]
    assert learned(roll_back(state.path, 2)) == [("2026-01-01", 1), ("2026-01-02", 2)]
    after = learn(state.path, write_day(tmp_path / "days", 3, seed=99), margin=100)
    assert learned(after) == kept(after) == [("2026-01-01", 1), ("2026-01-02", 2), ("2026-01-03", 4)]


def test_in_a_state_of_before_versions_had_parents_what_was_gone_back_from_is_left_out(state, days):
    """Its rollbacks say when somebody went back."""
    roll_back(state.path, 1)
    after = learn(state.path, days[3], margin=100)
    content = json.loads((state.path / "state.json").read_text())
    for number, version in enumerate(content["versions"]):
        del version["parent"]
        version["when"] = f"2026-01-0{1 + 2 * number}T00:00:00+00:00"
    content["rollbacks"][0]["when"] = "2026-01-08T00:00:00+00:00"  # between the third version and the fourth
    (state.path / "state.json").write_text(json.dumps(content))
    opened = State.open(state.path)
    assert [version.parent for version in opened.versions] == [None, 0, 1, 2, 1]
    assert learned(opened) == learned(after) == [("2026-01-01", 1), ("2026-01-04", 4)]
