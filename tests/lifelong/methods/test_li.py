"""Li: half of the batches are old, and the policy is held to an exemplar."""

from dataclasses import dataclass

import pytest
import torch

from conftest import random_instances, small_solver
from dree.errors import DreeError
from dree.lifelong import Learner, LearnerSettings, make_method
from dree.lifelong.methods.li import Remembered
from dree.tasks import make_stream


def learner_with(problem, **options):
    method = make_method("li", options)
    return Learner(small_solver(problem), method, LearnerSettings(augmentation=1, learning_rate=1e-3), seed=3)


def test_half_of_the_batches_are_of_a_random_earlier_epoch():
    stream = make_stream("drift", "tsp", 1, 100)
    names = {stream.task(t).name: t for t in range(1, 11)}
    generator = torch.Generator().manual_seed(0)
    method = make_method("li")
    chosen = [names[method.choose(stream, 10, generator).name] for _ in range(4000)]
    assert chosen.count(10) == pytest.approx(2000, abs=130)
    for earlier in range(1, 10):
        assert chosen.count(earlier) == pytest.approx(2000 / 9, abs=60)
    assert method.choose(stream, 1, generator).name == stream.task(1).name


def test_there_is_no_distance_before_the_first_exemplar_and_none_right_after_a_refresh(problem):
    learner = learner_with(problem, refresh_every=2)
    stream = make_stream("drift", problem, 1, 5)
    batch = random_instances(problem, 3, 6, seed=0)
    assert learner.method.replay(learner, learner.attempt(batch, "solve")) is None
    learner.method.end(learner, stream, 1)
    assert learner.method.exemplar is None
    learner.method.end(learner, stream, 2)
    distance = learner.method.replay(learner, learner.attempt(batch, "solve"))
    assert float(distance.detach()) == pytest.approx(0, abs=1e-6)
    gradients = torch.autograd.grad(distance, list(learner.solver.parameters()), materialize_grads=True)
    assert max(float(gradient.abs().max()) for gradient in gradients) < 1e-6


def test_the_distance_is_the_kl_of_the_policy_from_the_exemplars_summed_over_decisions(problem):
    """By hand from the policies at every state: mean over tours of the sum over decisions of KL(exemplar || policy)."""
    learner = learner_with(problem, alpha=0.25)
    stream = make_stream("drift", problem, 1, 100)
    learner.method.end(learner, stream, 25)
    for number in range(3):
        learner.learn(random_instances(problem, 3, 6, seed=number))
    lesson = learner.attempt(random_instances(problem, 2, 6, seed=9), "solve")
    distance = learner.method.replay(learner, lesson)
    total, tours = 0.0, lesson.tours.actions
    for tour in range(tours.shape[1]):
        one = type(lesson.tours)(tours[:, tour : tour + 1], lesson.tours.costs[:, tour : tour + 1])
        with torch.no_grad():
            target = learner.method.exemplar.behave(lesson.instances, one)
            policy = learner.solver.behave(lesson.instances, one)
        allowed = target > -torch.inf
        total += float((target.exp() * (target - policy))[allowed].sum())
    assert float(distance.detach()) == pytest.approx(0.25 * total / lesson.tours.costs.numel(), rel=1e-4)
    assert total > 1e-4


def test_the_distance_pulls_back_to_the_exemplar(problem):
    learner = learner_with(problem)
    learner.method.end(learner, make_stream("drift", problem, 1, 100), 25)
    for number in range(3):
        learner.learn(random_instances(problem, 3, 6, seed=number))
    lesson = learner.attempt(random_instances(problem, 2, 6, seed=9), "solve")
    distance = learner.method.replay(learner, lesson)
    gradients = torch.autograd.grad(distance, list(learner.solver.parameters()), materialize_grads=True)
    length = sum(gradient.square().sum() for gradient in gradients).sqrt()
    with torch.no_grad():
        for parameter, gradient in zip(learner.solver.parameters(), gradients, strict=True):
            parameter -= 1e-3 * gradient / length
        again = learner.solver.imitate(
            lesson.instances, lesson.tours, learner.encode(lesson.instances, learner.method.exemplar)
        )
    assert float(again.weighted) * 0.5 / lesson.tours.costs.numel() < float(distance.detach())


def test_where_the_past_cannot_be_sampled_remembered_batches_take_its_place():
    @dataclass(frozen=True)
    class Bygone(type(make_stream("drift", "tsp", 1, 5))):
        can_sample_past = False

    stream = Bygone("tsp", ("E", "C", "G", "U", "R", "GM"), 5)
    learner = learner_with("tsp", buffer=4)
    generator = torch.Generator().manual_seed(0)
    assert learner.method.choose(stream, 2, generator) == stream.task(2)  # nothing remembered yet
    learner.method.begin(learner, stream, 1)
    for number in range(6):
        learner.learn(random_instances("tsp", 3, 6, seed=number))
    assert (len(learner.method.memory), learner.method.memory.seen) == (4, 6)
    tasks = [learner.method.choose(stream, 2, generator) for _ in range(400)]
    old = [task for task in tasks if isinstance(task, Remembered)]
    assert len(old) == pytest.approx(200, abs=40)
    assert all(task == stream.task(2) for task in tasks if not isinstance(task, Remembered))
    assert {task.sample(3, generator).coords.sum().item() for task in old} == {
        batch.coords.sum().item() for batch in learner.method.memory.items
    }
    assert (old[0].problem, old[0].size) == ("tsp", 6)
    for _ in range(50):  # what is learned again is not remembered again
        task = learner.method.choose(stream, 2, generator)
        assert learner.method._is_new != isinstance(task, Remembered)


def test_bad_options_are_refused():
    for options in ({"alpha": -0.1}, {"refresh_every": 0}, {"buffer": 0}):
        with pytest.raises(DreeError):
            make_method("li", options)
