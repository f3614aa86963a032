"""Days are learned once, in order, by one learner, and what becomes of them is told truly."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from decimal import Decimal

import pytest
import torch

from dree.data.orders import read_orders
from dree.errors import DreeError
from dree.evaluation.evaluate import best_tours, gaps
from dree.experiments import load_solver
from dree.lifelong import Method
from dree.lifelong.checkpoint import load_checkpoint
from dree.service import learning, past, samples
from dree.service.days import Given
from dree.service.gate import Verdict
from dree.service.lock import locked
from dree.service.rollback import roll_back
from dree.service.samples import Sample
from dree.service.state import State
from dree.tasks.orders import OrdersTask
from small_days import contents, learn, small_start, write_day

pytest.importorskip("hygese")
pytestmark = pytest.mark.usefixtures("shared_references")


@pytest.fixture
def start(tmp_path):
    return small_start(tmp_path / "start")


@pytest.fixture
def days(tmp_path):
    return [write_day(tmp_path / "days", number) for number in range(1, 5)]


def tree(path) -> dict[str, bytes]:
    """Every file of a folder with its content."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_one_call_for_each_day_is_the_same_to_the_bit_as_one_for_all(tmp_path, start, days):
    whole = learn(tmp_path / "whole", *days, start=start, batches=3)
    for day in days:
        piecewise = learn(tmp_path / "piecewise", day, start=start, batches=3)
    assert contents(piecewise) == contents(whole)
    assert [version.batches for version in whole.versions] == [0, 3, 3, 3, 3]


def test_several_files_are_learned_in_order_of_their_dates(tmp_path, start, days):
    state = learn(tmp_path / "state", *reversed(days), start=start)
    assert [day.name for day in state.days] == ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"]
    assert [version.day for version in state.versions] == [None, *(day.name for day in state.days)]


def test_of_a_loss_that_is_not_finite_a_users_method_may_be_the_cause(tmp_path, start, days, monkeypatch):
    mine = type("Mine", (Method,), {"replay": lambda _, learner, lesson: learner.loss(lesson) * float("nan")})()
    monkeypatch.setattr(learning, "make_method", lambda *_: mine)
    with pytest.raises(DreeError, match=r"not learned, .* A loss of test_learning\.Mine, from 'pull' or 'replay'"):
        learn(tmp_path / "state", days[0], start=start)


def test_a_new_state_starts_from_the_given_solver(tmp_path, start, days):
    state = learn(tmp_path / "state", days[0], start=start)
    theirs = load_solver(start).state_dict()
    ours = state.solver_of(state.versions[0]).state_dict()
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs)
    learned = state.solver_of(state.versions[1]).state_dict()
    assert not all(torch.equal(theirs[name], learned[name]) for name in theirs)


def test_gaps_are_what_the_solvers_do_on_the_samples(tmp_path, start, days):
    state = learn(tmp_path / "state", *days[:2], start=start, margin=100)
    _, second = (Sample.from_state(state.load(each.file)) for each in state.past)
    parts, whole = second.tests
    assert (len(parts.instances), parts.instances.nodes) == (4, 11)
    assert (len(whole.instances), whole.instances.nodes) == (1, 12)
    for number, told in ((1, state.versions[2].today.before), (2, state.versions[2].today.after)):
        solver = state.solver_of(state.versions[number])
        each = [gaps(best_tours(solver, test.instances, 8).costs[:, 0], test.references) for test in second.tests]
        assert told == pytest.approx(float(torch.cat(each).mean()), abs=1e-5)
    first = state.past[0]
    assert first.gaps == ((1, state.versions[1].today.after), (2, state.versions[2].past.after))
    assert state.versions[2].past.before == state.versions[1].today.after


def test_what_is_worse_on_the_past_is_not_put_to_use_but_learned_on_from(tmp_path, start, days, monkeypatch):
    state = learn(tmp_path / "state", days[0], start=start)
    monkeypatch.setattr(learning, "judge", lambda *_: Verdict(False, "it is worse"))
    after = learn(tmp_path / "state", days[1])
    assert (after.in_use, after.learner.version) == (state.in_use, 2)
    assert (after.versions[2].promoted, after.versions[2].reason) == (False, "it is worse")
    assert after.past[0].gaps == state.past[0].gaps
    assert after.past[1].gaps == ((state.in_use, after.versions[2].today.before),)
    weights = load_checkpoint(after.path / "files" / after.learner.file.name)["learner"]["solver"]
    newest = after.solver_of(after.versions[2]).state_dict()
    assert all(torch.equal(weights[name], newest[name]) for name in newest)


def test_a_day_is_never_learned_twice(tmp_path, start, days):
    state = learn(tmp_path / "state", *days[:2], start=start)
    before = tree(state.path)
    said: list[str] = []
    copied = tmp_path / "copy.csv"
    copied.write_text(days[1].read_text().replace("2026-01-02", "2026-01-09"))
    learn(state.path, *days[:2], copied, say=said.append)
    assert said == [
        "2026-01-01 was learned before as version 1. Skipped.",
        "2026-01-02 was learned before as version 2. Skipped.",
        "2026-01-09 has the very stops of 2026-01-02, which was learned before as version 2. Skipped.",
    ]
    assert tree(state.path) == before


def test_many_days_that_were_learned_before_are_told_in_short(tmp_path, start):
    files = [write_day(tmp_path / "days", number) for number in range(1, 7)]
    state = learn(tmp_path / "state", *files, start=start)
    said: list[str] = []
    learn(state.path, *files, say=said.append)
    assert said == [
        "2026-01-01 was learned before as version 1. Skipped.",
        "4 more days were skipped too.",
        "2026-01-06 was learned before as version 6. Skipped.",
    ]


def test_a_date_that_comes_again_with_other_stops_is_refused(tmp_path, start, days):
    state = learn(tmp_path / "state", days[0], start=start)
    before = tree(state.path)
    other = write_day(tmp_path / "days", 1, seed=99)
    with pytest.raises(DreeError, match=r"-99.csv: 2026-01-01 was learned before as version 1, with other stops"):
        learn(state.path, days[0], other)
    assert tree(state.path) == before
    with pytest.raises(DreeError, match=r"2026-01-01 is there twice in these files, with other stops"):
        learn(tmp_path / "new", days[0], other, start=start)
    assert not (tmp_path / "new").exists()


def test_an_older_day_is_learned_and_said(tmp_path, start, days):
    learn(tmp_path / "state", days[2], start=start)
    said: list[str] = []
    state = learn(tmp_path / "state", days[0], say=said.append)
    assert "2026-01-01 is older than 2026-01-03" in said[0]
    assert [day.version for day in state.days] == [1, 2]


@pytest.mark.parametrize(("stops", "place", "reason"), [(9, False, "9 of the 10 stops"), (12, True, "fewer than 4")])
def test_too_small_a_day_counts_as_seen(tmp_path, start, days, stops, place, reason):
    small = write_day(tmp_path / "days", 5, stops=stops)
    if place:
        small.write_text("date,lat,lon\n" + "2026-01-05,48.1,11.5\n2026-01-05,48.2,11.5\n" * 6)
    said: list[str] = []
    state = learn(tmp_path / "state", days[0], small, start=start, say=said.append)
    assert reason in said[-1]
    assert [day.version for day in state.days] == [1, None]
    assert len(state.versions) == 2
    said.clear()
    learn(state.path, small, say=said.append)
    assert said == ["2026-01-05 was seen before, with too little to learn from. Skipped."]


def test_a_day_seen_too_early_is_learned_once_it_is_whole(tmp_path, start, days):
    learn(tmp_path / "state", days[0], write_day(tmp_path / "days", 5, stops=9), start=start)
    state = learn(tmp_path / "state", write_day(tmp_path / "days", 5, stops=14))
    assert [(day.name, day.stops, day.version) for day in state.days] == [("2026-01-01", 12, 1), ("2026-01-05", 14, 2)]


def test_a_state_with_vehicles_keeps_their_capacity_and_the_depot(tmp_path):
    start = small_start(tmp_path / "start", "cvrp")
    files = [write_day(tmp_path / "days", number, demands=True) for number in (1, 2)]
    given = Given(depot=(48.05, 11.1), capacity=Decimal("12.5"))
    learn(tmp_path / "state", files[0], start=start, given=given)
    state = learn(tmp_path / "state", files[1])
    assert (state.settings.problem, state.settings.capacity) == ("cvrp", Decimal("12.5"))
    assert state.settings.depot == (11.1, 48.05)
    assert len(state.versions) == 3
    assert state.days[1].demand == sum(int(line.split(",")[3]) for line in files[1].read_text().splitlines()[1:])
    learn(state.path, files[1], given=given)
    with pytest.raises(DreeError, match=r"--capacity says 9, but the first day.*fixed it: it has 12.5"):
        learn(state.path, files[1], given=Given(capacity=Decimal(9)))
    with pytest.raises(DreeError, match=r"--depot says 48.0500001,11.1, but.*it has 48.05,11.1"):
        learn(state.path, files[1], given=Given(depot=(48.0500001, 11.1)))


def test_what_contradicts_how_the_state_began_is_refused(tmp_path, start, days):
    state = learn(tmp_path / "state", days[0], start=start, method="fine-tuning")
    learn(state.path, days[1], start=start, method="fine-tuning")
    with pytest.raises(DreeError, match=r"--method says dree, but this state began with fine-tuning"):
        learn(state.path, days[2], method="dree")
    other = small_start(tmp_path / "other", seed=5)
    with pytest.raises(DreeError, match=r"--start says other .*, but this state began with start "):
        learn(state.path, days[2], start=other)
    with pytest.raises(DreeError, match="is for cvrp, and these orders are a tsp"):
        learn(tmp_path / "new", days[0], start=small_start(tmp_path / "vehicles", "cvrp"))


@pytest.mark.parametrize("method", ["fine-tuning", "llr-bc", "li"])
def test_other_methods_learn_days_too(tmp_path, start, days, method):
    state = learn(tmp_path / "state", *days[:2], start=start, method=method)
    assert (state.settings.method, len(state.versions)) == (method, 3)


def test_methods_that_need_all_days_at_once_are_refused(tmp_path, start, days):
    with pytest.raises(DreeError, match="needs the orders of all days"):
        learn(tmp_path / "state", days[0], start=start, method="mt-ref")
    assert not (tmp_path / "state").exists()


def test_a_second_learn_is_refused_and_told_who_is_at_it(tmp_path, start, days):
    state = learn(tmp_path / "state", days[0], start=start)
    with locked(state.path, "dree learn"):
        before = tree(state.path)
        with pytest.raises(DreeError, match=r"is in use by dree learn \(process \d+ on .*, since 20"):
            learn(state.path, days[1])
        with pytest.raises(DreeError, match="is in use by dree learn"):
            roll_back(state.path, 0)
        assert tree(state.path) == before
        assert State.open(state.path).solver()
    assert len(learn(state.path, days[1]).versions) == 3


def test_the_lock_of_a_dead_process_holds_nobody_up(tmp_path, start, days):
    state = learn(tmp_path / "state", days[0], start=start)
    (state.path / "lock").write_text(json.dumps({"purpose": "dree learn", "pid": 1, "host": "x", "since": "y"}))
    assert len(learn(state.path, days[1]).versions) == 3


def test_a_damaged_memory_of_the_learner_says_how_to_go_on(tmp_path, start, days):
    state = learn(tmp_path / "state", *days[:2], start=start, margin=100)
    (state.path / "files" / state.learner.file.name).write_bytes(b"nothing")
    with pytest.raises(DreeError, match=r"is damaged.*dree history .* --rollback 2"):
        learn(state.path, days[2])
    assert len(State.open(state.path).versions) == 3
    said: list[str] = []
    roll_back(state.path, 2, said.append)
    assert "begins without memory" in said[0]
    assert len(learn(state.path, days[2]).versions) == 4


def test_a_damaged_sample_of_the_past_is_left_out_aloud(tmp_path, start, days):
    state = learn(tmp_path / "state", *days[:2], start=start)
    (state.path / "files" / state.past[0].file.name).write_bytes(b"nothing")
    said: list[str] = []
    after = learn(state.path, days[2], say=said.append)
    assert "What was kept of 2026-01-01 is lost" in said[0]
    assert [each.day for each in after.past] == ["2026-01-02", "2026-01-03"]


def test_where_the_version_in_use_is_damaged_the_one_before_it_is_compared_with(tmp_path, start, days):
    state = learn(tmp_path / "state", *days[:2], start=start, margin=100)
    (state.path / "files" / state.versions[2].solver.name).write_bytes(b"nothing")
    after = learn(state.path, days[2], margin=0.0)
    gap = Sample.from_state(after.load(after.past[2].file)).gap(after.solver_of(after.versions[1]))
    assert after.versions[3].today.before == gap
    assert after.in_use in (1, 3)


def test_the_reservoir_is_limited_and_older_solvers_are_not_kept(tmp_path, start, monkeypatch):
    monkeypatch.setattr(past, "DAYS", 3)
    monkeypatch.setattr(learning, "KEPT", 2)
    files = [write_day(tmp_path / "days", number) for number in range(1, 8)]
    state = learn(tmp_path / "state", *files, start=start, margin=100)
    assert [version.number for version in state.versions if version.solver] == [6, 7]
    assert len(state.past) == 3
    assert len({each.day for each in state.past}) == 3
    with pytest.raises(DreeError, match=r"version 3 is no longer kept. There are: 6, 7"):
        roll_back(state.path, 3)
    named = {file.name for file in state.files()}
    left = {file.name for file in (state.path / "files").iterdir()}
    assert named <= left
    assert len(left - named) <= 3  # what the state before it named


def test_a_loss_that_is_not_finite_leaves_the_state_as_it_was(tmp_path, start, days, monkeypatch):
    state = learn(tmp_path / "state", days[0], start=start)
    real = learning.learn_epoch
    monkeypatch.setattr(learning, "learn_epoch", lambda *words: replace(real(*words), broken=1))
    with pytest.raises(DreeError, match=r"2026-01-02 on, so that day was not learned"):
        learn(state.path, days[1])
    assert State.open(state.path) == state


@pytest.mark.parametrize("last", ["day", "learner"])
def test_a_full_disk_is_not_made_fuller_night_by_night(tmp_path, start, days, monkeypatch, last):
    state = learn(tmp_path / "state", days[0], start=start)
    before, real = tree(state.path), learning.store

    def full(path, kind, content):
        if kind == last:
            raise DreeError("Cannot write: No space left on device.")
        return real(path, kind, content)

    monkeypatch.setattr(learning, "store", full)
    for _ in range(2):
        with pytest.raises(DreeError, match="No space left"):
            learn(state.path, days[1])
        assert tree(state.path) == before
    monkeypatch.setattr(learning, "store", real)
    assert len(learn(state.path, days[1]).versions) == 3


def test_a_state_that_another_process_makes_in_the_meantime_is_called_so(tmp_path, start, days, monkeypatch):
    real = learning.read_days

    def while_another_learns(*words):
        monkeypatch.setattr(learning, "read_days", real)
        learn(tmp_path / "state", days[0], start=start)
        return real(*words)

    monkeypatch.setattr(learning, "read_days", while_another_learns)
    with pytest.raises(DreeError, match=r"Another process has just made .*\. Give the same command again\."):
        learn(tmp_path / "state", days[0], start=start)
    assert len(State.open(tmp_path / "state").versions) == 2


def test_without_the_reference_solver_nothing_is_begun(tmp_path, start, days, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(DreeError, match=r"need the package hygese: pip install 'dree\[reference\]'"):
        learn(tmp_path / "state", days[0], start=start)
    assert not (tmp_path / "state").exists()


def test_a_state_can_be_moved(tmp_path, start, days):
    learn(tmp_path / "state", days[0], start=start)
    shutil.move(tmp_path / "state", tmp_path / "elsewhere")
    assert len(learn(tmp_path / "elsewhere", days[1]).versions) == 3


def test_stops_at_one_place_have_no_part_in_a_sample(start, days, monkeypatch):
    (day,) = read_orders(days[0]).days
    real = samples.reference_costs

    def some_cost_nothing(instances, *words, **named):
        found = real(instances, *words, **named)
        return [one._replace(cost=0.0) if row % 2 or len(found) == 1 else one for row, one in enumerate(found)]

    monkeypatch.setattr(samples, "reference_costs", some_cost_nothing)
    (parts,) = samples.draw_sample(OrdersTask(day), seed=0).tests
    assert len(parts.instances) == 2
    assert (parts.references > 0).all()
