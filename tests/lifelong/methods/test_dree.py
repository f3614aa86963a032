"""DREE's mechanisms, each on a case small enough to check."""

import math
from dataclasses import replace

import pytest
import torch

from conftest import random_instances, small_solver
from dree.errors import DreeError
from dree.lifelong import DREE, FineTuning, Learner, LearnerSettings, make_method
from dree.lifelong.experience import Experience
from dree.lifelong.methods.dree import ABLATIONS
from dree.lifelong.replay import behaviour_loss
from dree.tasks import make_stream


def learner_with(problem="cvrp", copies=1, **options):
    method = make_method("dree", options)
    return Learner(small_solver(problem), method, LearnerSettings(augmentation=copies, learning_rate=1e-3), seed=3)


def batch(problem="cvrp", seed=0):
    return random_instances(problem, 4, 6, seed=seed)


def gradient_of(learner, seed=0):
    """The gradient of the loss of one more batch, without a step."""
    lesson = learner.attempt(batch(seed=seed), "solve")
    replayed = learner.method.replay(learner, lesson)
    return None if replayed is None else torch.autograd.grad(replayed, learner.solver.parameters(), allow_unused=True)


def remember(learner, costs, seen=10**9):
    """Put a batch into a buffer of one as if its tours had these costs; after so many, the reservoir takes no more."""
    old = Experience.of(learner.solver, learner.attempt(batch(learner.solver.rules.name), "first"))
    learner.method.buffer.seen = seen
    learner.method.buffer.put(0, replace(old, costs=torch.tensor(costs)))
    learner.batches = 3  # instance replay is due with the next batch


def test_the_first_batch_is_learned_as_fine_tuning_learns_it(problem):
    ours = learner_with(problem)
    plain = Learner(small_solver(problem), FineTuning(), ours.settings, seed=3)
    for learner in (ours, plain):
        learner.learn(batch(problem))
    assert all(a.equal(b) for a, b in zip(ours.solver.parameters(), plain.solver.parameters(), strict=True))
    assert len(ours.method.buffer) == 1


def test_what_is_kept_is_the_policy_before_the_step(problem):
    learner = learner_with(problem)
    before = small_solver(problem)
    learner.learn(batch(problem))
    (kept,) = learner.method.buffer.items
    with torch.no_grad():
        torch.testing.assert_close(kept.behaviour, before.behave(kept.instances, kept.tours))
        changed = learner.solver.behave(kept.instances, kept.tours)
    assert not torch.allclose(changed.exp(), kept.behaviour.exp(), atol=1e-6)


@pytest.mark.parametrize("kind", ["literal", "softened"])
def test_behaviour_replay_is_nought_at_the_remembered_policy_and_pulls_back_to_it(problem, kind):
    learner = learner_with(problem, divergence=kind)
    old = Experience.of(learner.solver, learner.attempt(batch(problem), "solve"))
    method = learner.method
    assert float(method.behaviour_replay(learner, old).detach()) == pytest.approx(0, abs=1e-9)
    with torch.no_grad():
        for parameter in learner.solver.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    distance = method.behaviour_replay(learner, old)
    current = learner.solver.behave(old.instances, old.tours)
    torch.testing.assert_close(distance, behaviour_loss(current, old.behaviour, kind))
    gradients = torch.autograd.grad(distance, learner.solver.parameters(), allow_unused=True)
    with torch.no_grad():
        for parameter, gradient in zip(learner.solver.parameters(), gradients, strict=True):
            if gradient is not None:
                parameter -= 1e-3 * gradient / sum(g.square().sum() for g in gradients if g is not None).sqrt()
    nearer = method.behaviour_replay(learner, old)
    assert 0 < float(nearer.detach()) < float(distance.detach())


@pytest.mark.parametrize(
    ("problem", "alpha", "weight"), [("cvrp", 7.0, 7), ("cvrp", None, 100), ("tsp", 0.0, 0), ("tsp", None, 10)]
)
def test_the_loss_is_alpha_times_behaviour_replay_plus_beta_times_instance_replay(problem, alpha, weight):
    """Alpha is the paper's unless given."""
    learner = learner_with(problem, alpha=alpha, beta=3.0, lower=1.0, upper=1.0)
    learner.learn(batch(problem))
    lesson = learner.attempt(batch(problem, seed=1), "solve")
    (old,) = learner.method.buffer.items
    current = learner.solver.behave(old.instances, old.tours)
    expected = weight * behaviour_loss(current, old.behaviour, "softened")
    expected = expected + 3 * learner.loss(learner.attempt(old.instances, "replay"))
    torch.testing.assert_close(learner.method.replay(learner, lesson), expected)


def purposes_of(learner, monkeypatch):
    """What random numbers of a batch are for, as they are asked for."""
    asked = []
    for name in ("generator", "chance"):
        make = getattr(learner, name)
        monkeypatch.setattr(learner, name, lambda purpose, make=make: asked.append(purpose) or make(purpose))
    return asked


def test_no_two_random_choices_of_a_batch_share_their_numbers(monkeypatch):
    learner = learner_with(lower=1.0, upper=1.0)
    learner.learn(batch())
    asked = purposes_of(learner, monkeypatch)
    learner.learn(batch(seed=1))
    assert learner.method.report()["replays"] == 1
    asked.remove("")  # of behaviour replay, which draws nothing
    assert sorted(asked) == ["experience", "replay", "reservoir", "shrink", "solve"]


def test_one_remembered_batch_serves_both_replays_and_is_solved_in_all_symmetric_copies():
    """Which one is a matter of chance; whichever it is, the loss is that of its behaviour and of its instances."""
    learner = learner_with(copies=8, alpha=7.0, beta=3.0, lower=1.0, upper=1.0)
    for number in range(2):
        learner.learn(batch(seed=number))
    chosen = []
    for learner.batches in range(2, 12):
        expected = []
        for old in learner.method.buffer.items:
            current = learner.solver.behave(old.instances, old.tours)
            again = learner.attempt(old.instances, "replay")
            assert len(again.instances) == 8 * 4
            expected.append(7 * behaviour_loss(current, old.behaviour, "softened") + 3 * learner.loss(again))
        loss = learner.method.replay(learner, learner.attempt(batch(seed=9), "solve"))
        (which,) = (number for number, each in enumerate(expected) if torch.isclose(loss, each, rtol=1e-4))
        chosen.append(which)
    assert set(chosen) == {0, 1}


def test_what_differs_by_rounding_is_no_improvement():
    learner = learner_with(buffer=1)
    remember(learner, [100.0] * 4)
    (old,) = learner.method.buffer.items
    found = Experience.of(learner.solver, learner.attempt(old.instances, "replay"))
    learner.method.buffer.put(0, replace(old, costs=found.costs * (1 + 4e-7)))
    assert (found.costs < learner.method.buffer.items[0].costs).any()
    learner.learn(batch(seed=1))
    assert learner.method.report()["improved"] == 0


def test_instance_replay_goes_by_its_interval_over_epochs():
    """At a fixed 4, batches 4, 8, 12, ...; the count goes on from one epoch to the next."""
    learner = learner_with(lower=4.0, upper=4.0)
    stream = make_stream("drift", "cvrp", 1, 5)
    replays = []
    for epoch in (1, 2):
        learner.method.begin(learner, stream, epoch)
        for number in range(6):
            learner.learn(batch(seed=number))
        replays.append(learner.method.report()["replays"])
    assert replays == [1, 2]


@pytest.mark.parametrize(
    ("costs", "share", "due"),
    [([100.0, 100.0, 100.0, 0.0], 0.75, 5.75), ([0.0] * 4, 0.0, 8.0), ([100.0] * 4, 1.0, 5.0)],
)
def test_the_more_instances_improve_the_sooner_the_next_are_replayed(costs, share, due):
    """No tour is shorter than 0, any is shorter than 100; from 4 on, an interval of 4 less the share of 3."""
    learner = learner_with(buffer=1, lower=1.0, upper=4.0)
    remember(learner, costs)
    learner.learn(batch(seed=1))
    assert learner.method.report()["improved"] == share
    assert learner.method.interval.due == due


def test_enhancement_keeps_the_best_tour_ever_found(problem):
    learner = learner_with(problem, buffer=1, lower=1.0, upper=1.0)
    learner.method.buffer.seen = 10**9  # from now on the reservoir takes nothing more
    learner.method.buffer.put(0, Experience.of(learner.solver, learner.attempt(batch(problem), "first")))
    history = [learner.method.buffer.items[0].costs.sum()]
    for number in range(12):
        before = learner.method.buffer.items[0]
        learner.learn(batch(problem, seed=number + 1))
        after = learner.method.buffer.items[0]
        assert (after.costs <= before.costs).all()
        same = after.costs == before.costs
        length = min(before.actions.shape[1], after.actions.shape[1])
        assert after.actions[same, :length].equal(before.actions[same, :length])
        torch.testing.assert_close(
            learner.solver.rules.cost(after.instances, after.actions[:, None])[:, 0], after.costs
        )
        history.append(after.costs.sum())
    assert history[-1] < history[0]


def test_without_enhancement_the_buffer_stays_as_it_is(problem):
    learner = learner_with(problem, buffer=1, without="ee")
    learner.method.buffer.seen = 10**9
    old = Experience.of(learner.solver, learner.attempt(batch(problem), "first"))
    learner.method.buffer.put(0, old)
    for number in range(12):
        learner.learn(batch(problem, seed=number + 1))
    assert learner.method.buffer.items == [old]


def test_without_instance_replay_no_loss_comes_from_it():
    learner = learner_with(without="pir", alpha=0.0)
    learner.learn(batch())
    learner.batches = 10  # instance replay is due
    gradients = gradient_of(learner)
    assert all(gradient is None or not gradient.any() for gradient in gradients)


def test_without_instance_replay_there_is_still_enhancement():
    learner = learner_with(without="pir", buffer=1)
    remember(learner, [100.0, 0.0, 100.0, 0.0])
    learner.learn(batch(seed=1))
    (kept,) = learner.method.buffer.items
    assert (kept.costs < 100).all()
    assert (kept.costs > 0).tolist() == [True, False, True, False]


def test_without_behaviour_replay_only_instance_replay_is_left():
    learner = learner_with(without="br")
    learner.learn(batch())
    assert gradient_of(learner) is None  # batch 2: instance replay is not due
    learner.batches = 10
    assert any(gradient.any() for gradient in gradient_of(learner))


@pytest.mark.parametrize("without", ["pir", "br", "ee"])
def test_ablations_replay_at_the_papers_fixed_interval(without):
    interval = learner_with(without=without).method.interval
    assert (interval.lower, interval.upper, interval.due) == (3.56, 3.56, 3.56)


def test_dree_itself_begins_with_its_longest_interval():
    interval = learner_with().method.interval
    assert (interval.lower, interval.upper, interval.due) == (1, 4, 4)


@pytest.mark.parametrize(("without", "alpha", "beta"), [("pir", 7, 0), ("br", 0, 3), ("ee", 7, 3)])
def test_an_ablation_leaves_out_its_part_alone(problem, without, alpha, beta):
    """The policy is no longer the remembered one."""
    given = {name: value for name, value in (("alpha", 7.0), ("beta", 3.0)) if name not in ABLATIONS[without]}
    learner = learner_with(problem, without=without, buffer=1, **given)
    remember(learner, [100.0] * 4)
    (old,) = learner.method.buffer.items
    with torch.no_grad():
        for parameter in learner.solver.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    current = learner.solver.behave(old.instances, old.tours)
    again = learner.attempt(old.instances, "replay")
    gone = behaviour_loss(current, old.behaviour, "softened")
    assert gone > 1e-6
    expected = alpha * gone + beta * learner.loss(again)
    torch.testing.assert_close(learner.method.replay(learner, learner.attempt(old.instances, "solve")), expected)
    learner.learn(batch(problem, seed=1))
    (kept,) = learner.method.buffer.items
    assert (kept.costs < 100).all() == (without != "ee")


def test_the_new_batch_may_take_the_place_of_the_one_that_is_replayed():
    """Then what instance replay found belongs to nothing any more."""
    learner = learner_with(buffer=1)
    remember(learner, [100.0] * 4, seen=0)  # the reservoir takes the next batch
    new = batch(seed=1)
    learner.learn(new)
    assert learner.method.report()["improved"] == 1
    (kept,) = learner.method.buffer.items
    assert kept.instances.coords.equal(new.coords)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lower": 5.0}, "lower 5.0 and upper 4.0"),
        ({"lower": 0.5}, "1 <= lower"),
        ({"alpha": -1.0}, "alpha must be a number that is not negative"),
        ({"beta": math.nan}, "beta must be"),
        ({"buffer": 0}, "at least 1 batch, not 0"),
        ({"buffer_bytes": 0}, "at least some bytes"),
        ({"divergence": "litteral"}, "literal"),
        ({"without": "be"}, "br"),
        ({"alfa": 1.0}, "alpha"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(DreeError, match=message):
        make_method("dree", options)


@pytest.mark.parametrize(
    ("without", "options"),
    [
        ("pir", {"beta": 2.0, "lower": 2.0, "upper": 8.0}),
        ("br", {"alpha": 5.0, "divergence": "literal", "lower": 2.0, "upper": 8.0}),
        ("ee", {"lower": 2.0, "upper": 8.0}),
    ],
)
def test_options_that_have_no_effect_on_an_ablation_are_refused(without, options):
    for name, value in options.items():
        message = f"^{name} has no effect on DREE without {without}. Leave out {name} or 'without'.$"
        with pytest.raises(DreeError, match=message):
            make_method("dree", {"without": without, name: value})


@pytest.mark.parametrize(
    "options",
    [
        {"without": "pir", "alpha": 5.0, "divergence": "literal"},
        {"without": "br", "beta": 2.0},
        {"without": "ee", "alpha": 5.0, "beta": 2.0, "divergence": "literal"},
        {"without": "br", "alpha": None, "divergence": "softened", "lower": 1.0, "upper": 4.0},  # as a manifest has it
    ],
)
def test_the_other_options_of_an_ablation_are_as_they_are_given(options):
    method = make_method("dree", options)
    assert {name: getattr(method.options, name) for name in options} == options


def test_a_budget_too_small_for_one_batch_is_refused_when_that_shows():
    learner = learner_with(buffer_bytes=100)
    learner.learn(batch())
    with pytest.raises(DreeError, match="budget of 100 bytes is too small"):
        learner.learn(batch())


def test_a_byte_budget_shrinks_the_buffer_while_it_is_replayed_and_enhanced():
    """Batches that grow, so that again and again fewer fit than are there."""
    learner = learner_with(buffer_bytes=20_000, lower=1.0, upper=1.0)
    for number in range(40):
        learner.learn(random_instances("cvrp", 4, 4 + number // 4, seed=number))
        assert learner.method.buffer.bytes <= 20_000
    assert 1 <= len(learner.method.buffer) < 20
    assert learner.method.buffer.seen == 40


def test_what_is_kept_is_whole_whatever_the_sizes_of_both_batches():
    """Of a new batch and an enhanced one that are kept together, each is as long as its own tours."""
    learner = learner_with(lower=1.0, upper=1.0)
    for number in range(12):
        learner.learn(random_instances("cvrp", 2, 4 if number % 2 else 9, seed=number))
        for each in learner.method.buffer.items:
            costs = learner.solver.rules.cost(each.instances, each.actions[:, None])[:, 0]
            torch.testing.assert_close(costs, each.costs)
            for tour in each.actions:
                assert (torch.bincount(tour, minlength=each.instances.nodes)[1:] == 1).all()


def test_the_buffer_and_when_instances_are_due_go_through_its_state():
    ours, other = (learner_with(lower=1.0, upper=4.0) for _ in range(2))
    for number in range(5):
        ours.learn(batch(seed=number))
    other.method.load_state_dict(ours.method.state_dict(), other)
    assert other.method.interval.due == ours.method.interval.due > 4
    assert len(other.method.buffer) == other.method.buffer.seen == 5
    for one, two in zip(ours.method.buffer.items, other.method.buffer.items, strict=True):
        assert one.behaviour.equal(two.behaviour)
        assert one.costs.equal(two.costs)


def test_its_report_counts_bytes_and_improvements():
    learner = learner_with()
    for number in range(5):
        learner.learn(batch(seed=number))
    report = learner.method.report()
    assert report["buffered"] == 5
    assert report["buffer_bytes"] == sum(each.bytes for each in learner.method.buffer.items)
    assert report["replays"] == 1
    assert 0 <= report["improved"] <= 1
    assert isinstance(learner.method, DREE)
