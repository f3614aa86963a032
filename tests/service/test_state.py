"""A state directory says what it holds, notices damage, and is never half written."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
import torch

from conftest import small_solver
from dree.service.records import Day, Gaps, LearnerAt, Past, Rollback, Settings, Version
from dree.service.state import State, store

NETWORK = {"width": 16, "heads": 2, "layers": 2, "feed_forward": 32}
WHEN = "2026-01-01T00:00:00+00:00"


@pytest.fixture
def state(tmp_path):
    settings = Settings("tsp", geographic=True, network=NETWORK, start="small")
    return State.create(tmp_path / "state", settings, small_solver("tsp"), WHEN)


def with_version(state: State, seed: int, promoted: bool = True) -> State:
    """The state with one more version, of random weights."""
    file = store(state.path, "solver", {"solver": small_solver("tsp", seed).state_dict()})
    version = Version(len(state.versions), WHEN, promoted, file, day=f"d{seed}", today=Gaps(3.0, 2.5))
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
        past=(Past("2026-01-02", file, ((0, 2.0), (1, 1.5))),),
        rollbacks=(Rollback(WHEN, 1, 0),),
        learner=LearnerAt(0, file),
    )
    more.commit()
    opened = State.open(state.path)
    assert opened == more
    assert opened.days[0].places.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert opened.past[0].best == 1.5
