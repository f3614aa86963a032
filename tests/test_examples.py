"""The examples do what the documentation says of them."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest
import torch

from conftest import random_instances, small_solver
from dree.data.instance_files import read_problem
from dree.data.orders import read_orders
from dree.errors import DreeError
from dree.experiments import DEMO, Run
from dree.experiments.engines.work import carry_out_one
from dree.lifelong import Learner, LearnerSettings, method_class
from dree.lifelong.checkpoint import load_checkpoint, save_checkpoint
from dree.report.style import law_title
from dree.reproduce import Choice, experiment
from dree.reproduce.plan import make_plan
from dree.reproduce.scales import scale
from dree.reproduce.suite import reproduced
from dree.settings import override
from dree.solvers import make_solver, solver_class
from dree.tasks import LAWS, law_named, make_stream, scenario_class, task_named
from dree.testing import check_method, check_solver, check_stream
from small_runs import SMALL, finish_in_pieces

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def rehearse(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    found = method_class("own_method.Rehearse")
    monkeypatch.setattr(found, "kept", 3)
    return found


def test_both_files_hold_the_same_stops():
    json = read_problem(EXAMPLES / "stops.json")
    (csv,) = read_orders(EXAMPLES / "stops.csv", capacity=Decimal(25)).days
    assert len(json.places) == 12
    assert json.key == csv.key
    assert json.places.tolist() == csv.places.tolist()


def test_the_own_method_is_short_and_keeps_to_what_methods_must(problem, rehearse):
    assert len((EXAMPLES / "own_method.py").read_text().splitlines()) < 40
    check_method(rehearse, problem=problem, within_epochs=problem == "tsp")


def test_the_own_method_keeps_the_newest_batches_without_their_copies(problem, rehearse):
    learner = Learner(small_solver(problem), rehearse(), LearnerSettings())
    batches = [random_instances(problem, 2, 5, seed) for seed in range(5)]
    for batch in batches:
        learner.learn(batch)
    assert len(learner.method.memory) == 3
    for kept, batch in zip(learner.method.memory, batches[-3:], strict=True):
        assert torch.equal(kept.coords, batch.coords)


def test_the_own_method_adds_to_the_loss_from_its_second_batch_on(problem, rehearse):
    first, second = (random_instances(problem, 2, 5, seed) for seed in range(2))
    own = Learner(small_solver(problem), rehearse())
    plain = Learner(small_solver(problem), method_class("fine-tuning")())
    assert own.learn(first).loss.equal(plain.learn(first).loss)
    assert not own.learn(second).loss.equal(plain.learn(second).loss)


def test_the_own_method_goes_on_from_a_checkpoint_as_if_never_stopped(tmp_path, problem, rehearse):
    whole = Learner(small_solver(problem), rehearse())
    batches = [random_instances(problem, 2, 5, seed) for seed in range(4)]
    for batch in batches[:2]:
        whole.learn(batch)
    path = save_checkpoint(tmp_path, 1, whole.state_dict())
    again = Learner(small_solver(problem), rehearse())
    again.load_state_dict(load_checkpoint(path))
    for batch in batches[2:]:
        assert whole.learn(batch).loss.equal(again.learn(batch).loss)


def test_the_own_method_runs_by_its_dotted_path(tmp_path, rehearse):
    tiny = {
        "epochs": 5,
        "batches": 1,
        "batch_size": 2,
        "test_every": 5,
        "test_instances": 1,
        "method": "own_method.Rehearse",
    }
    run = Run.start(tmp_path / "run", override(DEMO, tiny | {"solver.width": 16, "solver.layers": 1}))
    run.finish()
    assert isinstance(run.learner.method, rehearse)
    resumed = Run.resume(tmp_path / "run")
    assert resumed.epoch == 5
    assert len(resumed.learner.method.memory) == 3
    for kept, before in zip(resumed.learner.method.memory, run.learner.method.memory, strict=True):
        assert torch.equal(kept.coords, before.coords)


def test_the_own_solver_is_short_and_keeps_to_what_solvers_must(problem, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    assert len((EXAMPLES / "own_solver.py").read_text().splitlines()) < 80
    check_solver(solver_class("own_solver.Near"), problem)


@pytest.mark.parametrize("method", ["fine-tuning", "dree", "llr-bc", "li"])
def test_every_method_learns_with_the_own_solver(problem, method, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    learner = Learner(
        make_solver(problem, "own_solver.Near"), method_class(method)(), LearnerSettings(learning_rate=0.1)
    )
    before = learner.solver.weights.clone()
    costs = [learner.learn(random_instances(problem, 8, 10, seed)).cost for seed in range(3)]
    assert torch.stack(costs).isfinite().all()
    assert not learner.solver.weights.equal(before)


def test_the_own_scenario_goes_there_and_back_and_keeps_to_what_streams_must(problem, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    stream = make_stream("own_scenario.ThereAndBack", problem, 1, 50)
    names = [stream.task(epoch).name for epoch in range(51)]
    assert names == names[::-1]
    assert names[:26] == [make_stream("drift", problem, 1, 25).task(epoch).name for epoch in range(26)]
    check_stream(stream)
    assert stream.active("C") == [(1, 9), (41, 49)]


def test_a_run_of_the_own_scenario_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    changes = {"scenario": "own_scenario.ThereAndBack", "epochs": 10}
    settings = override(DEMO, {**SMALL, **changes})
    Run.start(tmp_path / "whole", settings).finish()
    finish_in_pieces(tmp_path / "parts", settings, 10)
    whole, parts = (tmp_path / name / "metrics.jsonl" for name in ("whole", "parts"))
    assert whole.read_text() == parts.read_text()
    assert '"task": "GM30"' in whole.read_text().splitlines()[4]


def test_the_own_law_is_drawn_beside_the_papers_and_has_tasks_by_its_name(problem, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    check_stream(make_stream("drift", problem, ["U", "own_scenario.Road"], 10))
    instances = task_named("own_scenario.Road30", problem).sample(50, torch.Generator().manual_seed(0))
    customers = instances.coords[:, -30:]
    assert (customers.std(1)[:, 1] < 0.05).all()  # beside a level road
    assert (customers.std(1)[:, 0] > 0.15).all()  # and all along it
    assert "own_scenario.Road" not in LAWS


@pytest.mark.parametrize("drawn", [(torch.rand(2, 30, 2), None), torch.rand(2, 30, 2), (torch.rand(2, 9, 2),) * 2])
def test_a_law_that_draws_something_else_is_refused(drawn, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(type(law_named("own_scenario.Road")), "draw", lambda *_, **__: drawn)
    with pytest.raises(DreeError, match=r"Law 'own_scenario.Road' must draw coordinates of shape \[2, 30, 2\]"):
        task_named("own_scenario.Road30", "cvrp").sample(2, torch.Generator())


def test_a_scenario_without_its_parts_is_refused():
    with pytest.raises(DreeError, match=r"Scenario 'dree.tasks.SyntheticStream' cannot be made"):
        make_stream("dree.tasks.SyntheticStream", "tsp", 1, 5)


def test_the_own_law_is_called_by_its_title_in_figures(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    assert [law_title(name) for name in ("own_scenario.Road", "U", "06-02", "no.such")] == [
        "Road",
        "Uniform",
        "06-02",
        "no.such",
    ]


@pytest.mark.parametrize(
    ("find", "name", "why"),
    [
        (scenario_class, "own_scenario.Road", "is not a scenario: it must be a class derived from dree.tasks"),
        (law_named, "own_scenario.ThereAndBack", "is not a law: it must be a class derived from dree.tasks.Law"),
        (law_named, "own_scenario.Street", "Law 'own_scenario.Street' cannot be imported"),
        (scenario_class, "drifts", "Unknown scenario 'drifts'. Did you mean 'drift'?"),
        (law_named, "Ring", "Unknown law 'Ring'"),
        (law_named, "own_scenario.Road2", "Law 'own_scenario.Road2' ends in a digit"),
        (law_named, "dree.tasks.laws.Law", "Law 'dree.tasks.laws.Law' cannot be made: the class lacks draw"),
    ],
)
def test_what_is_no_scenario_or_law_is_refused(find, name, why, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    with pytest.raises(DreeError, match=re.escape(why)):
        find(name)


def test_the_own_experiment_is_in_the_documentation_and_makes_its_table(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES.parent)
    code = (EXAMPLES / "own_experiment.py").read_text(encoding="utf-8")
    assert code[code.index("from dree") :] in (EXAMPLES.parent / "docs/reproduce.md").read_text(encoding="utf-8")
    choice = Choice(scale("smoke"), problems=("tsp",), everywhere={"device": "cpu"})
    plan = make_plan([experiment("examples.own_experiment.Rehearsal")], choice)
    outcomes = [carry_out_one(job, tmp_path, lambda _: None) for job in plan.jobs]
    made = reproduced(plan, choice, outcomes, tmp_path)
    assert made.missing == ()
    (table,) = made.tables
    assert [row.keys for row in table.rows] == [("TSP", "Fine-tuning"), ("TSP", "Rehearse"), ("TSP", "DREE")]
    assert all(isinstance(cell.ours, float) for row in table.rows for cell in row.cells)
    assert [row.cells[0].published for row in table.rows] == [1.86, None, 1.12]


def test_what_is_no_experiment_is_refused_in_words(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES.parent)
    with pytest.raises(DreeError, match=r"is not an experiment: .* derived from dree.reproduce.Experiment"):
        experiment("examples.own_method.Rehearse")
    with pytest.raises(DreeError, match="cannot be imported"):
        experiment("examples.nothing.Here")
