"""The multi-task references: which tasks they draw, and when they start again."""

import pytest
import torch

from conftest import random_instances, small_solver
from dree.errors import DreeError
from dree.lifelong import Learner, LearnerSettings, make_method
from dree.tasks import make_stream

STREAM = make_stream("drift", "tsp", 1, 20)


def chosen(method, epoch, count=3000):
    generator = torch.Generator().manual_seed(0)
    return [method.choose(STREAM, epoch, generator) for _ in range(count)]


def test_the_reference_draws_from_the_whole_stream_at_any_time():
    tasks = chosen(make_method("mt-ref"), epoch=1)
    for t in (0, 7, 20):
        assert tasks.count(STREAM.task(t)) == pytest.approx(3000 / 21, abs=50)


@pytest.mark.parametrize(("epoch", "last"), [(1, 4), (4, 4), (5, 8), (20, 20)])
def test_the_cumulative_one_draws_from_what_its_part_of_the_stream_has_seen_at_its_end(epoch, last):
    tasks = chosen(make_method("mt-cumulative"), epoch)
    assert set(tasks) == {STREAM.task(t) for t in range(last + 1)}


def test_the_cumulative_one_starts_again_with_every_part():
    method = make_method("mt-cumulative")
    learner = Learner(small_solver("tsp"), method, LearnerSettings(augmentation=1, learning_rate=1e-2))
    first = [parameter.detach().clone() for parameter in learner.solver.parameters()]
    restarted = []
    for epoch in range(1, 21):
        method.begin(learner, STREAM, epoch)
        if all(a.equal(b) for a, b in zip(learner.solver.parameters(), first, strict=True)):
            restarted.append(epoch)
            assert not learner.optimiser.state  # a new one
        learner.learn(random_instances("tsp", 2, 5, seed=epoch))
    assert restarted == [1, 5, 9, 13, 17]


def test_a_number_of_parts_below_one_is_refused():
    with pytest.raises(DreeError, match="at least 1"):
        make_method("mt-cumulative", {"segments": 0})
