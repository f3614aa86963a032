"""What is remembered of a batch is its best tours and the policy that found them."""

from dataclasses import replace

import pytest
import torch

from conftest import random_instances, small_solver
from dree.errors import DreeError
from dree.lifelong import Learner, LearnerSettings, Method
from dree.lifelong.experience import Experience, ExperienceBuffer
from dree.lifelong.replay import behaviour_loss
from dree.problems import Instances


def attempt(problem, batch=3, customers=6, seed=1, augmentation=8):
    learner = Learner(small_solver(problem), Method(), LearnerSettings(augmentation=augmentation), seed=seed)
    return learner, learner.attempt(random_instances(problem, batch, customers, seed=seed), "solve")


def hand_made(costs, tours, depth):
    """Two-customer CVRPs whose behaviours are all `depth`, so that it can be seen where they come from."""
    length = len(tours[0])
    instances = random_instances("cvrp", len(costs), 2, seed=depth, capacity=30)
    behaviour = torch.full((len(costs), length - 1, 3), float(-depth))
    return Experience(instances, torch.tensor(costs), torch.tensor(tours), behaviour)


def test_an_experience_is_the_best_tour_over_copies_and_starts(problem):
    learner, lesson = attempt(problem)
    experience = Experience.of(learner.solver, lesson)
    costs = lesson.tours.costs.view(8, 3, -1)
    torch.testing.assert_close(experience.costs, costs.amin((0, 2)))
    torch.testing.assert_close(
        learner.solver.rules.cost(experience.instances, experience.actions[:, None])[:, 0], experience.costs
    )
    assert len({tuple(row) for row in experience.instances.coords.flatten(1).tolist()} - {
        tuple(row) for row in lesson.instances.coords.flatten(1).tolist()
    }) == 0  # fmt: skip


def test_its_behaviour_is_the_policy_that_solved_the_batch_without_gradient(problem):
    learner, lesson = attempt(problem)
    experience = Experience.of(learner.solver, lesson)
    with torch.no_grad():
        expected = learner.solver.behave(experience.instances, experience.tours)
    torch.testing.assert_close(experience.behaviour, expected)
    assert not experience.behaviour.requires_grad
    taken = experience.behaviour.gather(-1, experience.actions[:, 1:, None])
    assert (taken > -torch.inf).all()


def test_padding_that_no_kept_tour_needs_is_dropped():
    learner, lesson = attempt("cvrp", batch=2, customers=8, seed=5)
    whole = Experience.of(learner.solver, lesson)
    experience = whole.cut(int(whole.needed()))
    assert (experience.actions[:, -2] != 0).any()
    assert (experience.actions[:, -1] == 0).all()
    assert experience.actions.shape[1] <= lesson.tours.actions.shape[2]


def test_enhancing_replaces_exactly_the_instances_that_improved():
    old = hand_made([3.0, 2.0, 1.0], [[1, 2, 0]] * 3, depth=1)
    new = hand_made([2.5, 2.0, 1.5], [[2, 0, 1, 0]] * 3, depth=2)
    both = old.enhanced(new)
    assert both.costs.tolist() == [2.5, 2.0, 1.0]
    assert both.actions.tolist() == [[2, 0, 1, 0], [1, 2, 0, 0], [1, 2, 0, 0]]
    assert both.instances.coords[0].equal(new.instances.coords[0])
    assert both.instances.coords[1:].equal(old.instances.coords[1:])
    assert both.instances.demands[0].equal(new.instances.demands[0])
    assert both.behaviour[0].tolist() == [[-2.0] * 3] * 3
    assert both.behaviour[1, :2].tolist() == [[-1.0] * 3] * 2
    assert both.behaviour[1, 2].exp().tolist() == [1, 0, 0]  # it stays at the depot


def test_a_tie_changes_nothing_and_a_shorter_tour_is_padded():
    old = hand_made([2.0, 9.0], [[2, 0, 1, 0]] * 2, depth=1)
    new = hand_made([2.0, 1.0], [[1, 2, 0]] * 2, depth=2)
    both = old.enhanced(new)
    assert both.actions.tolist() == [[2, 0, 1, 0], [1, 2, 0, 0]]
    assert both.behaviour[0].equal(old.behaviour[0])


def test_padding_that_is_no_longer_needed_goes_with_the_tour_that_needed_it():
    old = hand_made([2.0, 9.0], [[1, 2, 0, 0], [2, 0, 1, 0]], depth=1)
    both = old.enhanced(hand_made([3.0, 1.0], [[1, 2, 0]] * 2, depth=2))
    assert both.needed() == 3
    both = both.cut(3)
    assert both.actions.tolist() == [[1, 2, 0], [1, 2, 0]]
    assert both.behaviour.shape == (2, 2, 3)


def test_rounding_is_no_improvement():
    """One tour costs 10 on a copy and 9.999998 on another, its mirror image being rounded."""
    old = hand_made([10.0, 10.0], [[1, 2, 0]] * 2, depth=1)
    new = hand_made([9.999998, 9.9999], [[2, 1, 0]] * 2, depth=2)
    assert old.improved_by(new).tolist() == [False, True]
    assert old.enhanced(new).actions.tolist() == [[1, 2, 0], [2, 1, 0]]


def test_bytes_are_those_of_all_tensors():
    experience = hand_made([2.0, 9.0], [[1, 2, 0]] * 2, depth=1)
    per_instance = 3 * 2 * 4 + 3 * 8 + 8 + 4 + 3 * 8 + 2 * 3 * 4  # coords, demands, capacity, cost, tour, behaviour
    assert experience.bytes == 2 * per_instance


def test_a_budget_in_bytes_limits_what_is_held():
    size = hand_made([1.0], [[1, 2, 0]], depth=1).bytes
    buffer = ExperienceBuffer(10, budget=3 * size + 1)
    generator = torch.Generator().manual_seed(0)
    for item in range(20):
        slot = buffer.offer(generator)
        if slot is not None:
            buffer.put(slot, hand_made([float(item)], [[1, 2, 0]], depth=1))
        buffer.settle(generator)
        assert buffer.bytes <= 3 * size
    assert len(buffer) == buffer.capacity == 3
    assert buffer.seen == 20
    with pytest.raises(DreeError, match=f"one experience takes {size}"):
        ExperienceBuffer(10, budget=size - 1).put(0, hand_made([1.0], [[1, 2, 0]], depth=1))


def test_as_many_are_held_as_fit_if_all_were_as_large_as_the_largest(problem):
    learner, lesson = attempt(problem)
    small = Experience.of(learner.solver, lesson)
    large = replace(small, behaviour=torch.cat([small.behaviour] * 3, dim=1))
    buffer = ExperienceBuffer(9, budget=2 * large.bytes + small.bytes)
    generator = torch.Generator().manual_seed(0)
    for each in (large, small, small):
        buffer.put(buffer.offer(generator), each)
    assert buffer.bytes <= buffer.budget
    buffer.settle(generator)
    assert (len(buffer), buffer.capacity) == (2, 2)


def test_a_buffer_goes_through_its_state_unchanged(problem):
    learner, lesson = attempt(problem)
    buffer = ExperienceBuffer(4, budget=10**6)
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        buffer.put(buffer.offer(generator), Experience.of(learner.solver, lesson))
    buffer.shrink(3, generator)
    other = ExperienceBuffer(4, budget=10**6)
    other.load_state_dict(buffer.state_dict(), torch.device("cpu"))
    assert (other.seen, other.capacity, other.largest, other.bytes) == (3, 3, buffer.largest, buffer.bytes)
    for one, two in zip(buffer.items, other.items, strict=True):
        assert one.behaviour.equal(two.behaviour)
        assert isinstance(two.instances, Instances)
        assert one.instances.coords.equal(two.instances.coords)


def test_rounding_its_length_up_changes_no_loss(problem):
    """Nor any gradient, so that few lengths need be captured."""
    learner, lesson = attempt(problem, customers=7)
    whole = Experience.of(learner.solver, lesson)
    experience = whole.cut(int(whole.needed()))
    longer = experience.rounded(16)
    assert longer.actions.shape[1] == (16 if problem == "cvrp" else 7)
    other = small_solver(problem, seed=3)
    results = []
    for each in (experience, longer):
        loss = behaviour_loss(other.behave(each.instances, each.tours), each.behaviour, "literal")
        results.append((loss, torch.autograd.grad(loss, list(other.parameters()), materialize_grads=True)))
    assert results[0][0] > 0
    torch.testing.assert_close(results[0], results[1])
