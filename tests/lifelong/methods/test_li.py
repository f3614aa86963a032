"""Li: half of the batches are old, and the policy is held to an exemplar."""

from dataclasses import dataclass
from functools import partial

import pytest
import torch

from conftest import random_instances, small_invit, small_solver, without_numba
from dree.errors import DreeError
from dree.lifelong import Learner, LearnerSettings, make_method
from dree.lifelong.methods.li import Li, LiOptions, Remembered
from dree.problems.cvrp import CVRP
from dree.tasks import make_stream
from replayed_operations import Operations, capturing


def learner_with(problem, copies=1, **options):
    method = make_method("li", options)
    return Learner(small_solver(problem), method, LearnerSettings(augmentation=copies, learning_rate=1e-3), seed=3)


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
    assert learner.method.pull(learner) is None
    learner.method.end(learner, stream, 1)
    assert learner.method.exemplar is None
    learner.method.end(learner, stream, 2)
    distance = learner.method.pull(learner)(learner.attempt(batch, "solve"))
    assert float(distance.detach()) == pytest.approx(0, abs=1e-6)
    gradients = torch.autograd.grad(distance, list(learner.solver.parameters()), materialize_grads=True)
    assert max(float(gradient.abs().max()) for gradient in gradients) < 1e-6


def test_the_exemplar_is_the_solver_of_the_last_refresh(problem):
    learner = learner_with(problem, refresh_every=2)
    stream, then = make_stream("drift", problem, 1, 10), {}
    for epoch in range(1, 8):
        learner.learn(random_instances(problem, 3, 6, seed=epoch))
        learner.method.end(learner, stream, epoch)
        then[epoch] = [parameter.clone() for parameter in learner.solver.parameters()]
        if epoch > 1:
            last = then[epoch // 2 * 2]
            assert all(a.equal(b) for a, b in zip(learner.method.exemplar.parameters(), last, strict=True))


def test_its_defaults_are_the_papers():
    assert LiOptions() == LiOptions(alpha=0.5, refresh_every=25, buffer=256)


def test_the_distance_is_the_kl_of_the_policy_from_the_exemplars_summed_over_decisions(problem):
    """By hand from the policies at every state: mean over tours of the sum over decisions of KL(exemplar || policy)."""
    learner = learner_with(problem, alpha=0.25)
    stream = make_stream("drift", problem, 1, 100)
    learner.method.end(learner, stream, 25)
    for number in range(3):
        learner.learn(random_instances(problem, 3, 6, seed=number))
    lesson = learner.attempt(random_instances(problem, 2, 6, seed=9), "solve")
    distance = learner.method.pull(learner)(lesson)
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
    distance = learner.method.pull(learner)(lesson)
    gradients = torch.autograd.grad(distance, list(learner.solver.parameters()), materialize_grads=True)
    length = sum(gradient.square().sum() for gradient in gradients).sqrt()
    with torch.no_grad():
        for parameter, gradient in zip(learner.solver.parameters(), gradients, strict=True):
            parameter -= 1e-3 * gradient / length
        again = learner.solver.imitate(
            lesson.instances, lesson.tours, learner.encode(lesson.instances, learner.method.exemplar)
        )
    assert float(again.weighted) * 0.5 / lesson.tours.costs.numel() < float(distance.detach())


def learn_epochs(learner, problem, epochs):
    """Two batches of each; the losses."""
    stream, losses = make_stream("drift", problem, 1, 10), []
    for epoch in epochs:
        batches = (random_instances(problem, 3, 6, seed=10 * epoch + number) for number in range(2))
        losses += [learner.learn(batch).loss for batch in batches]
        learner.method.end(learner, stream, epoch)
    return torch.stack(losses)


@pytest.fixture
def _equally_long(monkeypatch):
    """On a GPU all tours have as many actions as there can be, and those that end earlier wait at the depot.

    Every operation there is one that can be done again.
    """
    without_numba(monkeypatch)
    monkeypatch.setattr(CVRP, "shortest", CVRP.longest)


@pytest.mark.usefixtures("_equally_long")
def test_captured_or_not_it_learns_the_same_before_and_after_every_refresh(problem, monkeypatch):
    """The exemplar stays where it is: what was captured with it follows a refresh, and nothing is captured again."""
    plain = learner_with(problem, refresh_every=2)
    captured = capturing(learner_with(problem, refresh_every=2), monkeypatch)
    expected = learn_epochs(plain, problem, range(1, 7))
    torch.testing.assert_close(learn_epochs(captured, problem, range(1, 7)), expected, rtol=1e-4, atol=1e-5)
    (lane,) = captured._graphs._lanes
    assert len(lane._captured) == 1


@pytest.mark.usefixtures("_equally_long")
def test_a_pull_towards_another_object_is_captured_anew(problem, monkeypatch):
    """What an own method may well do: a new copy of the solver at every refresh, and a new function at every call."""

    class Careless(Li):
        def pull(self, learner):
            return self._pull and partial(self._distance, learner, self.exemplar)

        def _hold(self, weights, learner):
            self.exemplar = None
            super()._hold(weights, learner)

    def careless():
        settings = LearnerSettings(augmentation=1, learning_rate=1e-3)
        return Learner(small_solver(problem), Careless(LiOptions(refresh_every=2)), settings, seed=3)

    expected = learn_epochs(careless(), problem, range(1, 7))
    captured = learn_epochs(capturing(careless(), monkeypatch), problem, range(1, 7))
    torch.testing.assert_close(captured, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("_equally_long")
@pytest.mark.parametrize("stop", [1, 3])  # before there is an exemplar, and after
def test_captured_work_goes_on_from_a_state(problem, stop, monkeypatch):
    whole, first = (learner_with(problem, refresh_every=2) for _ in range(2))
    expected = learn_epochs(whole, problem, range(1, 6))[2 * stop :]
    learn_epochs(first, problem, range(1, stop + 1))
    second = capturing(learner_with(problem, refresh_every=2), monkeypatch)
    learn_epochs(second, problem, range(11, 14))  # another life, of which nothing may be left
    second.load_state_dict(first.state_dict())
    torch.testing.assert_close(learn_epochs(second, problem, range(stop + 1, 6)), expected, rtol=1e-4, atol=1e-5)


def test_the_distance_never_waits_for_the_device(problem, monkeypatch):
    without_numba(monkeypatch)  # its kernels are for the CPU, which waits for nobody
    learner = learner_with(problem)
    learner.method.end(learner, make_stream("drift", problem, 1, 100), 25)
    lesson = learner.attempt(random_instances(problem, 3, 6, seed=0), "solve")
    with Operations() as operations:
        torch.autograd.grad(learner.method.pull(learner)(lesson), lesson.encoding.tensors)
    assert operations.done
    assert not operations.waits()


def test_with_a_solver_that_captures_itself_it_learns_the_same(problem):
    """There a lesson's gradient is taken at once, and only the best of it is left."""
    losses = []
    for best_only in (False, True):
        settings = LearnerSettings(augmentation=1, learning_rate=1e-3, baseline="greedy", baseline_instances=4)
        learner = Learner(small_invit(problem), make_method("li", {"refresh_every": 1}), settings, seed=3)
        learner.best_only = best_only
        losses.append(learn_epochs(learner, problem, range(1, 4)))
    torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)


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
    for _ in range(20):  # all of it is of the current task
        assert learner.method.choose(stream, 1, generator) == stream.task(1)
    learner.method.begin(learner, stream, 2)
    of_the_first = {batch.coords.sum().item() for batch in learner.method.memory.items}
    learner.method._is_new = True
    for number in range(6, 12):
        learner.method.remember(learner, learner.attempt(random_instances("tsp", 3, 6, seed=number), "solve"))
    assert {batch.coords.sum().item() for batch in learner.method.memory.items} - of_the_first
    tasks = [learner.method.choose(stream, 2, generator) for _ in range(400)]
    old = [task for task in tasks if isinstance(task, Remembered)]
    assert len(old) == pytest.approx(200, abs=40)
    assert all(task == stream.task(2) for task in tasks if not isinstance(task, Remembered))
    assert {task.sample(3, generator).coords.sum().item() for task in old} == of_the_first
    assert (old[0].problem, old[0].size) == ("tsp", 6)
    for _ in range(50):  # what is learned again is not remembered again
        task = learner.method.choose(stream, 2, generator)
        assert learner.method._is_new != isinstance(task, Remembered)
    seen = learner.method.memory.seen
    learner.method._is_new = False
    learner.learn(old[0].sample(3, generator))
    assert learner.method.memory.seen == seen


def test_instances_are_remembered_without_their_copies_and_go_through_the_state():
    learner, other = learner_with("tsp", copies=8, buffer=4), learner_with("tsp", buffer=4)
    for number in range(6):
        learner.method._is_new = True
        learner.learn(random_instances("tsp", 3, 6, seed=number))
    assert [len(instances) for instances in learner.method.memory.items] == [3] * 4
    other.method.load_state_dict(learner.method.state_dict(), other)
    assert other.method.memory.seen == 6
    for ours, theirs in zip(other.method.memory.items, learner.method.memory.items, strict=True):
        assert ours.coords.equal(theirs.coords)


def test_bad_options_are_refused():
    for options in ({"alpha": -0.1}, {"refresh_every": 0}, {"buffer": 0}):
        with pytest.raises(DreeError):
            make_method("li", options)
