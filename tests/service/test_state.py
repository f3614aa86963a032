"""A state directory says what it holds, notices damage, and is never half written."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from decimal import Decimal

import pytest
import torch

from conftest import small_solver
from dree.errors import DreeError
from dree.service.lock import locked
from dree.service.records import Day, Gaps, LearnerAt, Past, Rollback, Settings, Version
from dree.service.state import State, check_new, store

NETWORK = {"width": 16, "heads": 2, "layers": 2, "feed_forward": 32}
WHEN = "2026-01-01T00:00:00+00:00"


@pytest.fixture
def state(tmp_path):
    settings = Settings("tsp", geographic=True, network=NETWORK, start="small")
    return State.create(tmp_path / "state", settings, small_solver("tsp"), WHEN)


def with_version(state: State, seed: int, promoted: bool = True) -> State:
    """The state with one more version, of random weights."""
    file = store(state.path, "solver", {"solver": small_solver("tsp", seed).state_dict()})
    version = Version(
        len(state.versions), WHEN, promoted, file, day=f"d{seed}", today=Gaps(3.0, 2.5), parent=len(state.versions) - 1
    )
    more = replace(state, versions=(*state.versions, version), in_use=version.number if promoted else state.in_use)
    more.commit()
    return more


def same_weights(one, other) -> bool:
    theirs = other.state_dict()
    return all(torch.equal(weights, theirs[name]) for name, weights in one.state_dict().items())


def test_a_new_state_solves_with_what_it_started_from(state):
    opened = State.open(state.path)
    assert opened == state
    assert same_weights(opened.solver(), small_solver("tsp"))


def test_everything_is_read_as_it_was_written(tmp_path):
    settings = Settings(
        "cvrp", False, {"demand": "kg"}, (0.5, -1.0), Decimal("12.5"), network=NETWORK, options={"buffer": 3}
    )
    state = State.create(tmp_path / "state", settings, small_solver("cvrp"), WHEN)
    file = store(state.path, "day", {"references": torch.ones(2)})
    day = Day("2026-01-02", "ab", 12, WHEN, 1, 3.5, (1.0, 2.0), 7.5, ((1.0, 2.0), (3.0, 4.0)))
    more = replace(
        state,
        days=(day, replace(day, name="x", version=None, demand=None)),
        past=(Past("2026-01-02", 1, file, ((0, 2.0), (1, 1.5))),),
        rollbacks=(Rollback(WHEN, 1, 0),),
        learner=LearnerAt(0, file),
    )
    more.commit()
    opened = State.open(state.path)
    assert opened == more
    assert opened.days[0].places.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert opened.past[0].first == 2.0


def damage(state: State, number: int) -> None:
    """Change one byte of a version's solver."""
    path = state.path / "files" / state.versions[number].solver.name
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_where_the_version_in_use_is_damaged_the_newest_good_one_before_it_answers(state):
    state = with_version(with_version(with_version(state, 1), 2, promoted=False), 3)
    damage(state, 3)
    said: list[str] = []
    version, solver = State.open(state.path).answering(said.append)
    assert version.number == 1  # 2 was never put to use
    assert same_weights(solver, small_solver("tsp", 1))
    assert len(said) == 1
    assert "damaged" in said[0]
    assert "Version 3" in said[0]


def test_a_version_that_was_gone_back_from_answers_only_where_no_other_can(state):
    state = with_version(with_version(with_version(state, 1), 2), 3)
    state = with_version(state, 4)
    state = replace(state, versions=(*state.versions[:4], replace(state.versions[4], parent=1)))
    state.commit()
    damage(state, 4)
    assert State.open(state.path).answering(lambda _: None)[0].number == 1
    damage(state, 1)
    damage(state, 0)
    assert State.open(state.path).answering(lambda _: None)[0].number == 3


def test_a_version_that_comes_of_itself_is_damage(state):
    state = with_version(state, 1)
    replace(state, versions=(state.versions[0], replace(state.versions[1], parent=1))).commit()
    with pytest.raises(DreeError, match="version 1 cannot come of version 1"):
        State.open(state.path)


def test_a_missing_file_is_noticed_too(state):
    state = with_version(state, 1)
    (state.path / "files" / state.versions[1].solver.name).unlink()
    said: list[str] = []
    assert State.open(state.path).answering(said.append)[0].number == 0
    assert "is missing" in said[0]
    assert len(state.damaged()) == 1


def test_where_all_are_damaged_a_backup_is_asked_for(state):
    damage(state, 0)
    with pytest.raises(DreeError, match="Restore the folder from a backup"):
        State.open(state.path).solver(lambda _: None)


def test_a_newer_format_asks_for_an_update(state):
    content = json.loads((state.path / "state.json").read_text())
    (state.path / "state.json").write_text(json.dumps(content | {"format": 2}))
    with pytest.raises(DreeError, match=r"newer dree.*format is 2.*Update dree"):
        State.open(state.path)


@pytest.mark.parametrize(
    "change",
    [
        {"versions": 3},
        {"in_use": 5},
        {"in_use": "x"},
        {"format": None},
        {"days": [{}]},
        {"settings": {}},
        {"past": [{"day": "x", "version": 0, "file": ["day", "0", 1], "gaps": []}]},
    ],
)
def test_a_state_that_makes_no_sense_is_damaged(state, change):
    content = json.loads((state.path / "state.json").read_text())
    (state.path / "state.json").write_text(json.dumps(content | change))
    with pytest.raises(DreeError, match=r"is damaged.*Restore it from a backup"):
        State.open(state.path)


def test_half_a_file_cannot_be_read(state):
    text = (state.path / "state.json").read_text()
    (state.path / "state.json").write_text(text[: len(text) // 2])
    with pytest.raises(DreeError, match="cannot be read"):
        State.open(state.path)


def test_a_folder_without_a_state_says_how_to_make_one(tmp_path):
    with pytest.raises(DreeError, match=r"is not a state directory.*dree learn"):
        State.open(tmp_path)


def test_no_state_is_made_where_there_is_something_else(tmp_path, state):
    (tmp_path / "mine.txt").write_text("")
    with pytest.raises(DreeError, match=r"not empty.*mine.txt"):
        check_new(tmp_path)
    store(state.path, "learner", {"batches": 1})
    (state.path / "state.json").unlink()
    with pytest.raises(DreeError, match=r"has lost its state.json"):
        check_new(state.path)


def test_a_state_that_has_come_to_be_in_the_meantime_is_called_so(state):
    with pytest.raises(DreeError, match=r"Another process has just made .*\. Give the same command again\."):
        check_new(state.path)


def test_a_creation_that_was_killed_is_begun_again(state):
    (state.path / "state.json").rename(state.path / ".state.json.123")
    (state.path / "lock").touch()
    (state.path / "files" / ".solver-0123.safetensors.123").write_text("half")
    check_new(state.path)


def test_work_that_fails_before_its_commit_leaves_no_file_behind(state):
    def fail():
        store(state.path, "solver", {"solver": state.solver().state_dict()})  # the very content that is there already
        store(state.path, "day", {"references": torch.ones(2)})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), state.unharmed():
        fail()
    assert [path.name for path in (state.path / "files").iterdir()] == [state.versions[0].solver.name]
    assert state.damaged() == {}


def test_of_work_that_fails_after_its_commit_what_was_committed_stays(state):
    def fail():
        store(state.path, "day", {"references": torch.ones(2)})
        with_version(state, 1)
        raise OSError("too late")

    with pytest.raises(OSError, match="too late"), state.unharmed():
        fail()
    after = State.open(state.path)
    assert len(after.versions) == 2
    assert after.damaged() == {}
    assert {path.name for path in (state.path / "files").iterdir()} == {file.name for file in after.files()}


def test_what_cannot_be_removed_does_no_harm(state):
    (state.path / "files" / "a folder").mkdir()
    left = store(state.path, "learner", {"batches": 1})
    state.clean(state)
    assert {path.name for path in (state.path / "files").iterdir()} == {"a folder", state.versions[0].solver.name}
    assert left.name not in {file.name for file in state.files()}


def test_a_drive_without_locks_is_not_called_busy(state, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(DreeError, match="cannot be locked: No locks available"), locked(state.path, "a test"):
        pass


def test_what_no_state_names_is_removed_but_not_what_a_reader_may_have_in_hand(state):
    older = with_version(state, 1)
    newer = replace(older, versions=(older.versions[0], replace(older.versions[1], solver=None)), in_use=0)
    left = store(state.path, "learner", {"batches": 1})
    (state.path / ".state.json.123").write_text("half")
    newer.commit()
    newer.clean(older)
    assert {file.name for file in (state.path / "files").iterdir()} == {file.name for file in older.files()}
    assert left.name not in {file.name for file in older.files()}
    newer.clean(newer)
    assert {file.name for file in (state.path / "files").iterdir()} == {file.name for file in newer.files()}
    assert sorted(path.name for path in state.path.iterdir()) == ["files", "state.json"]
