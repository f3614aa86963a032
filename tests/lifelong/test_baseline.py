"""The greedy baseline: what it costs, when it is replaced, and that it survives an interruption."""

from __future__ import annotations

import pytest
import torch

from conftest import random_instances, small_invit, small_solver
from dree.errors import DreeError
from dree.lifelong import FineTuning, Learner, LearnerSettings, make_method
from dree.lifelong.baseline import mean_costs
from dree.problems import augment
from dree.randomness import named_generator
from dree.solvers.invit_twin import rollout
from dree.tasks import DriftStream, principal

STREAM = {kind: DriftStream(kind, ("U", "R"), 4, sizes=(("U", 6), ("R", 8))) for kind in ("tsp", "cvrp")}


def learner(problem: str, method: str = "fine-tuning", solver=None, **settings) -> Learner:
    chosen = {"baseline": "greedy", "baseline_instances": 4, "learning_rate": 1e-2, "augmentation": 1, **settings}
    return Learner(solver or small_invit(problem), make_method(method), LearnerSettings(**chosen), seed=7)


def weights(solver) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in solver.parameters()])


def test_the_loss_is_reinforce_against_greedy_tours_of_the_frozen_copy(problem):
    """Worked out from the twin: mean over instances of (cost - the copy's greedy cost) * log-probability."""
    pupil = learner(problem, augmentation=8)
    pupil.learn(random_instances(problem, 2, 6, seed=5))  # now the solver is another than its copy
    batch = random_instances(problem, 3, 7, seed=1)
    lesson = pupil.attempt(batch, "solve")
    every, generator = augment(batch), pupil.generator("solve")
    solved = pupil.solver.solve(every, generator=generator)
    assert lesson.tours.actions.equal(solved.actions)
    with torch.no_grad():
        greedy, _ = rollout(pupil.baseline.solver, every, pupil.solver.starts(every, generator))
    torch.testing.assert_close(lesson.baseline, greedy.costs)
    _, log_prob = rollout(pupil.solver, every, forced=solved.actions)
    expected = ((solved.costs - greedy.costs) * log_prob).mean()
    torch.testing.assert_close(pupil.loss(lesson), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("starts", ["one", "all"])
def test_symmetric_copies_can_share_a_baseline(problem, starts):
    """Worked out from the twin: (cost - the mean over the tours of all copies) * log-probability, on average."""
    pupil = learner(problem, solver=small_invit(problem, starts=starts), baseline="copies", augmentation=8)
    lesson = pupil.attempt(random_instances(problem, 3, 5, seed=1), "solve")
    costs = lesson.tours.costs
    _, log_prob = rollout(pupil.solver, lesson.instances, forced=lesson.tours.actions)
    mean = torch.stack([costs[row::3].mean() for row in range(3)])  # copies of one instance are three rows apart
    expected = ((costs - mean.repeat(8)[:, None]) * log_prob).mean()
    torch.testing.assert_close(pupil.loss(lesson), expected, rtol=1e-4, atol=1e-6)
    assert pupil.baseline is None
    assert pupil.proven is pupil.solver


def test_the_copy_is_tested_on_instances_that_nothing_was_learned_from(monkeypatch):
    pupil, drawn = learner("tsp"), []
    monkeypatch.setattr(pupil.baseline, "test", lambda learner, task, generator: drawn.append((task, generator)))
    for epoch in (1, 2):
        pupil.end(STREAM["tsp"], epoch)
    assert [task.name for task, _ in drawn] == [STREAM["tsp"].task(epoch).name for epoch in (1, 2)]
    learned = [named_generator(7, "instances", epoch, batch) for epoch in (1, 2) for batch in range(9)]
    generators = [*(generator for _, generator in drawn), *learned]
    assert len({int(torch.randint(2**60, (1,), generator=each)) for each in generators}) == len(generators)


def test_the_copy_begins_with_the_first_weights_and_learning_leaves_it_alone(problem):
    pupil = learner(problem)
    first = weights(small_invit(problem))
    pupil.learn(random_instances(problem, 2, 6, seed=1))
    assert weights(pupil.baseline.solver).equal(first)
    assert not weights(pupil.solver).equal(first)
    assert not any(parameter.requires_grad for parameter in pupil.baseline.solver.parameters())


@pytest.mark.parametrize(("margin", "replaced"), [(2e-3, True), (5e-4, False), (-1.0, False)])
def test_it_is_replaced_if_the_solver_is_better_by_more_than_a_thousandth(monkeypatch, margin, replaced):
    pupil = learner("tsp")
    pupil.learn(random_instances("tsp", 2, 6, seed=1))
    costs = {id(pupil.solver): 5 - margin, id(pupil.baseline.solver): 5.0}
    monkeypatch.setattr(
        "dree.lifelong.baseline.mean_costs", lambda learner, solvers, instances: [costs[id(each)] for each in solvers]
    )
    places = [parameter.data_ptr() for parameter in pupil.baseline.solver.parameters()]
    pupil.end(STREAM["tsp"], 1)
    assert weights(pupil.baseline.solver).equal(weights(pupil.solver)) == replaced
    assert [parameter.data_ptr() for parameter in pupil.baseline.solver.parameters()] == places  # as captures need


def test_it_is_compared_on_new_instances_of_the_epochs_task(problem, monkeypatch):
    pupil, seen = learner(problem), []
    monkeypatch.setattr(
        "dree.lifelong.baseline.mean_costs", lambda learner, solvers, instances: seen.append(instances) or [1.0, 1.0]
    )
    for epoch in (1, 3):
        pupil.end(STREAM[problem], epoch)
    sizes = [STREAM[problem].task(epoch).size for epoch in (1, 3)]
    assert [each.customers for each in seen] == sizes
    assert len(seen[0]) == 4


def test_costs_are_the_best_over_copies_and_starts_on_average(problem, monkeypatch):
    pupil = learner(problem, solver=small_invit(problem, starts="all"), augmentation=8)
    instances = random_instances(problem, 5, 6, seed=2)
    solvers = [pupil.solver, small_invit(problem, seed=1, starts="all")]
    costs = [solver.solve(augment(instances)).costs.view(8, 5, 6) for solver in solvers]
    expected = [each.amin((0, 2)).mean().item() for each in costs]
    assert mean_costs(pupil, solvers, instances) == pytest.approx(expected, rel=1e-6)
    monkeypatch.setattr("dree.lifelong.baseline.TESTED_AT_ONCE", {"cpu": 1})
    assert mean_costs(pupil, solvers, instances) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("replaced", [True, False])
def test_it_survives_an_interruption(problem, monkeypatch, replaced):
    monkeypatch.setattr("dree.lifelong.baseline.CLEARLY", -100.0 if replaced else 100.0)
    whole, first = learner(problem), learner(problem)
    batches = [random_instances(problem, 2, 6, seed) for seed in range(4)]
    for batch in batches[:2]:
        whole.learn(batch)
        first.learn(batch)
    whole.end(STREAM[problem], 1)
    first.end(STREAM[problem], 1)
    second = learner(problem)
    second.load_state_dict(first.state_dict())
    for batch in batches[2:]:
        assert whole.learn(batch).loss.equal(second.learn(batch).loss)
    assert weights(whole.solver).equal(weights(second.solver))
    assert weights(whole.baseline.solver).equal(weights(second.baseline.solver))
    assert weights(whole.baseline.solver).equal(weights(small_invit(problem))) != replaced


def test_a_restart_takes_it_back_to_the_first_weights(problem, monkeypatch):
    monkeypatch.setattr("dree.lifelong.baseline.CLEARLY", -100.0)
    pupil = learner(problem)
    pupil.learn(random_instances(problem, 2, 6, seed=1))
    pupil.end(STREAM[problem], 1)
    assert not weights(pupil.baseline.solver).equal(weights(small_invit(problem)))
    pupil.restart()
    assert weights(pupil.baseline.solver).equal(weights(small_invit(problem)))


def test_any_solver_can_have_it(problem):
    """POMO's frozen copy starts everywhere too, and each tour is compared with the one from its own start."""
    pupil = learner(problem, solver=small_solver(problem))
    batch = random_instances(problem, 2, 5, seed=1)
    lesson = pupil.attempt(batch, "solve")
    torch.testing.assert_close(lesson.baseline, small_solver(problem).solve(batch).costs)
    assert pupil.learn(batch).loss.isfinite()


def test_a_solver_with_one_tour_of_each_instance_cannot_share_a_baseline(problem):
    with pytest.raises(
        DreeError, match=r"to copies with learner\.augmentation 8; or, for INViT, solver\.starts to all"
    ):
        learner(problem, baseline="shared").learn(random_instances(problem, 2, 5, seed=1))
    everywhere = learner(problem, solver=small_invit(problem, starts="all"), baseline="shared")
    assert everywhere.learn(random_instances(problem, 2, 5, seed=1)).loss.isfinite()


def test_invit_learns_its_own_way_unless_told_otherwise():
    settings = Learner(small_invit("tsp"), FineTuning()).settings
    assert (settings.baseline, settings.optimiser, settings.weight_decay) == ("greedy", "adamw", 0.01)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"baseline": "gredy"}, "Did you mean 'greedy'"),
        ({"baseline": "copies", "augmentation": 1}, r"Set learner\.augmentation to 8"),
        ({"baseline_instances": 0}, "at least one instance"),
    ],
)
def test_settings_that_make_no_baseline_are_refused(wrong, message):
    with pytest.raises(DreeError, match=message):
        LearnerSettings(**wrong)


@pytest.mark.parametrize(("baseline", "starts"), [("greedy", "one"), ("copies", "one"), ("shared", "all")])
def test_invit_learns_what_it_practises(problem, baseline, starts):
    """The same instances again and again: tours become clearly shorter."""
    solver = small_invit(problem, starts=starts)
    copies = 8 if baseline == "copies" else 1
    pupil = learner(problem, solver=solver, baseline=baseline, learning_rate=3e-3, augmentation=copies)
    batch = principal("U", problem, 8).sample(8, torch.Generator().manual_seed(0))

    def cost() -> float:
        ten = [solver.solve(batch, generator=torch.Generator().manual_seed(seed)).costs for seed in range(10)]
        return torch.stack(ten).mean().item()

    before = cost()
    for _ in range(30):
        pupil.learn(batch)
    assert cost() < 0.9 * before
