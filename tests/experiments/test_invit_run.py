"""A whole run with INViT: by its name, with its own way to learn, stopped and resumed."""

from __future__ import annotations

from dree.evaluation.evaluate import best_tours
from dree.experiments import Run, load_solver
from dree.experiments.configuration import changed_preset
from dree.problems.check import check_cvrp
from dree.solvers import INViT
from small_runs import SMALL, finish_in_pieces

CHANGES = {**SMALL, "epochs": 5, "base": "invit", "method": "dree", "learner.baseline_instances": 4}


def test_a_run_of_invit_that_is_stopped_after_every_epoch_ends_with_the_same_bytes(tmp_path):
    settings = changed_preset("demo", {**CHANGES, "solver.state_views": [20, 25]})
    assert settings.learning.baseline == "greedy"
    whole = Run.start(tmp_path / "whole", settings)
    whole.finish()
    finish_in_pieces(tmp_path / "pieces", settings, 5)
    for name in ("metrics.jsonl", "gaps.csv"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "pieces" / name).read_bytes()
    solver = load_solver(tmp_path / "pieces")
    assert isinstance(solver, INViT)
    assert solver.settings.state_views == (20, 25)
    instances = whole.tests["GM"].instances[:2]
    tours = best_tours(solver, instances, copies=8)
    for row, actions in enumerate(tours.actions[:, 0].tolist()):
        coords, demands = instances.coords[row].numpy(), instances.demands[row].numpy()
        cost = check_cvrp(coords, demands, int(instances.capacity[row]), actions)
        assert abs(cost - tours.costs[row].item()) < 1e-4


def test_what_is_tested_and_used_is_the_frozen_copy(tmp_path):
    """A rate at which the network only becomes worse: its copy is never replaced."""
    settings = changed_preset("demo", {**CHANGES, "method": "fine-tuning", "learner.learning_rate": 1.0})
    run = Run.start(tmp_path / "run", settings)
    first = {name: tensor.clone() for name, tensor in run.learner.solver.state_dict().items()}
    run.finish()
    assert all(gaps == run.matrix[0] for gaps in run.matrix)
    used = load_solver(tmp_path / "run").state_dict()
    assert all(used[name].equal(first[name]) for name in first)
    learned = run.learner.solver.state_dict()
    assert not any(learned[name].equal(first[name]) for name in first if name.endswith("query.weight"))
