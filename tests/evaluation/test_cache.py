"""Solved instances are kept: nothing is solved twice, and another way of solving is another entry."""

import sqlite3

import pytest
import torch

from dree.errors import DreeError
from dree.evaluation import reference
from dree.evaluation.cache import Cache, key_of
from dree.evaluation.classical import HGS, Problem
from dree.evaluation.reference import reference_costs
from dree.files import cache_folder
from dree.tasks import principal

pytest.importorskip("hygese")
QUICK = HGS(iterations=50)
MADE = {"name": "hygese", "version": "0.1.0", "iterations": 2000, "seed": 1}


def draw(count=5):
    return principal("U", "cvrp", 6).sample(count, torch.Generator().manual_seed(1))


@pytest.fixture
def solved(monkeypatch):
    """The rows that a solver was asked for, in order."""
    rows, solve = [], reference._solve
    monkeypatch.setattr(reference, "_solve", lambda row, *rest: rows.append(row) or solve(row, *rest))
    return rows


@pytest.mark.parametrize("workers", [1, 2])
def test_what_was_interrupted_goes_on_and_solves_nothing_twice(solved, workers):
    def interrupt(done, _):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reference_costs(draw(), QUICK, workers=workers, progress=interrupt)
    before = set(solved)
    assert {0, 1, 2} <= before
    solved.clear()
    heard = []
    whole = reference_costs(draw(), QUICK, workers=workers, progress=lambda *now: heard.append(now))
    assert set(solved) <= {3, 4}  # the first three were kept
    assert heard[-1] == (5, 5)
    solved.clear()
    assert reference_costs(draw(), QUICK) == whole
    assert solved == []


@pytest.mark.parametrize("other", [HGS(51), HGS(50, seed=2)])
def test_another_setting_is_solved_anew(solved, other):
    reference_costs(draw(2), QUICK)
    reference_costs(draw(2), other)
    assert solved == [0, 1, 0, 1]


def test_another_instance_is_another_key():
    points, demands = torch.rand(3, 2).double().numpy(), torch.tensor([0, 1, 2]).numpy()
    problems = [Problem(points, demands, 5), Problem(points, demands, 6), Problem(points, None, 0)]
    assert len({key_of(problem.content(), MADE) for problem in problems}) == 3


def test_the_key_is_the_one_it_always_was():
    # sha256 of the settings as sorted JSON, a zero byte, and the content; computed once with sha256sum.
    key = key_of(b"content", MADE)
    assert key.hex() == "b35d1694f10f7a023eb07d6efc55f99a5c2f71873e5accd871d8eca736a05f93"
    assert key_of(b"content", dict(reversed(MADE.items()))) == key
    assert HGS().made() | {"version": ""} == MADE | {"version": ""}


def test_a_cache_returns_what_was_put(tmp_path):
    with Cache(tmp_path / "new" / "tours.sqlite") as cache:
        assert cache.get(b"a") is None
        cache.put(b"a", [1, 0, 2, 0])
        cache.put(b"b", [3])
        cache.put(b"b", [4])
    with Cache(tmp_path / "new" / "tours.sqlite") as cache:
        assert (cache.get(b"a"), cache.get(b"b")) == ([1, 0, 2, 0], [4])


def test_two_processes_may_share_a_cache(tmp_path):
    with Cache(tmp_path / "tours.sqlite") as one, Cache(tmp_path / "tours.sqlite") as other:
        one.put(b"a", [1])
        other.put(b"b", [2])
        assert (other.get(b"a"), one.get(b"b")) == ([1], [2])


def test_a_damaged_file_is_refused_by_name(tmp_path):
    path = tmp_path / "tours.sqlite"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(DreeError, match=r"tours\.sqlite, cannot be used \(file is not a database\)\. Delete it"):
        Cache(path)


def test_a_file_damaged_inside_is_refused_by_name(tmp_path):
    path = tmp_path / "tours.sqlite"
    with Cache(path) as cache:
        for number in range(200):
            cache.put(bytes([number]), list(range(100)))
    content = bytearray(path.read_bytes())
    content[8192:] = b"x" * (len(content) - 8192)
    path.write_bytes(content)
    with Cache(path) as cache, pytest.raises(DreeError, match=r"cannot be used .*Delete it"):
        _ = [cache.get(bytes([number])) for number in range(200)]


@pytest.mark.parametrize("actions", ["nonsense", "[1, null]", "7"])
def test_an_entry_that_is_no_tour_is_refused(tmp_path, actions):
    path = tmp_path / "tours.sqlite"
    with Cache(path) as cache:
        cache.put(b"a", [1])
    with sqlite3.connect(path) as file:
        file.execute("UPDATE tours SET actions = ?", (actions,))
    file.close()
    with Cache(path) as cache, pytest.raises(DreeError, match="cannot be used"):
        cache.get(b"a")


def test_a_kept_tour_of_another_instance_is_noticed():
    reference_costs(draw(1), QUICK)
    file = sqlite3.connect(cache_folder() / "references.sqlite")
    with file:
        file.execute("UPDATE tours SET actions = '[1, 2, 0]'")
    file.close()
    with pytest.raises(
        DreeError, match=r"Instance 0, tour from the cache .*references\.sqlite \(delete it\): .*missing"
    ):
        reference_costs(draw(1), QUICK)
