"""Inner and outer steps of meta-learning against the same written out with autograd, optimisers and copies."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn
from torch.func import functional_call

from dree.lifelong.flat import FlatParameters
from dree.lifelong.learner import shared_baseline
from dree.lifelong.meta import MetaLearner, MetaSettings, Share
from dree.lifelong.meta.adam import Moments, adam
from dree.lifelong.meta.curvature import curvature
from dree.solvers import Omni, make_solver
from dree.solvers.pomo_twin import log_probability
from dree.tasks.omni import DISTRIBUTIONS, OmniTask

NETWORK = {"width": 8, "heads": 2, "layers": 1, "feed_forward": 12}
RATE, DECAY = 1e-2, 1e-3  # large, so that every part of a step shows


@dataclass(frozen=True)
class Double(OmniTask):
    """A task in double precision, so that a difference is a mistake and not rounding."""

    def sample(self, batch, generator):
        instances = super().sample(batch, generator)
        return replace(instances, coords=instances.coords.double())


def shares(problem, *weights):
    return [Share(Double(problem, DISTRIBUTIONS[2 * index], 6), weight) for index, weight in enumerate(weights)]


def learner(problem, **changes):
    solver = make_solver(problem, "omni", NETWORK, seed=1).double()
    assert isinstance(solver, Omni)
    settings = MetaSettings(**{"batch_size": 3, "learning_rate": RATE, "weight_decay": DECAY, **changes})
    return Recorded(solver, settings, seed=5)


class Recorded(MetaLearner):
    """Keeps the batches and tours that it has learned from."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.slopes = []

    def _slope(self, *arguments):
        slope = super()._slope(*arguments)
        self.slopes.append(slope)
        return slope


class Loss(nn.Module):
    """The loss of given tours, by plain operations."""

    def __init__(self, solver):
        super().__init__()
        self.solver = solver

    def forward(self, slope):
        return (
            log_probability(self.solver, slope.instances, slope.tours.actions) * shared_baseline(slope.tours)
        ).mean()

    def at(self, weights, slope):
        return functional_call(self, {f"solver.{name}": tensor for name, tensor in weights.items()}, (slope,))


def literal_second_order(problem, iterations, weights_of_tasks, **changes):
    """Meta-learning as it is described, with one graph from the weights to the outer loss."""
    tested = learner(problem, **changes)
    loss = Loss(copy.deepcopy(tested.solver))
    theta = {name: value.detach().clone() for name, value in tested.solver.named_parameters()}
    first, second = ({name: torch.zeros_like(value) for name, value in theta.items()} for _ in range(2))
    steps = 0

    def adam_step(start, gradients):
        nonlocal steps
        steps += 1
        result = {}
        for name, value in start.items():
            gradient = gradients[name] + DECAY * value
            m, v = 0.9 * first[name] + 0.1 * gradient, 0.999 * second[name] + 0.001 * gradient**2
            result[name] = value - RATE / (1 - 0.9**steps) * m / ((v / (1 - 0.999**steps)).sqrt() + 1e-8)
            first[name], second[name] = m.detach(), v.detach()
        return result

    for _ in range(iterations):
        tested.slopes.clear()
        tested.learn(shares(problem, *weights_of_tasks))
        leaves = {name: value.clone().requires_grad_() for name, value in theta.items()}
        slopes = iter(tested.slopes)
        total = {name: torch.zeros_like(value) for name, value in theta.items()}
        for weight in weights_of_tasks:
            adapted = leaves
            for _ in range(tested.settings.inner_steps):
                found = torch.autograd.grad(loss.at(adapted, next(slopes)), list(adapted.values()), create_graph=True)
                gradients = dict(zip(adapted, found, strict=True))
                if steps == 0:
                    adapted = {name: value - RATE * gradients[name] for name, value in adapted.items()}
                else:
                    adapted = adam_step(adapted, gradients)
            outer = 0.9 * weight * loss.at(adapted, next(slopes))
            for name, part in zip(leaves, torch.autograd.grad(outer, list(leaves.values())), strict=True):
                total[name] += part
        theta = adam_step(theta, total)
    return tested, theta, first, second, steps


def without_still_biases(tensors):
    """Biases before a norm have no gradient but for rounding, of which a step of Adam makes anything."""
    return {name: value for name, value in tensors.items() if not name.endswith(("contract.bias", ".combine.bias"))}


@pytest.mark.parametrize(
    ("weights", "changes"),
    [((1.0,), {}), ((0.7, 0.3), {}), ((1.0,), {"inner_steps": 3}), ((1.0,), {"second_order_bytes": 1})],
)
def test_second_order_is_autograd_through_the_adam_step(problem, weights, changes):
    tested, theta, first, second, steps = literal_second_order(problem, 3, weights, **changes)
    own = dict(tested.solver.named_parameters())
    flat = FlatParameters(copy.deepcopy(tested.solver))
    moments = [dict(zip(own, flat.views(each), strict=True)) for each in (tested.moments.first, tested.moments.second)]
    assert tested.moments.steps == steps
    for ours, theirs in ((own, theta), (moments[0], first), (moments[1], second)):
        for name, value in without_still_biases(theirs).items():
            torch.testing.assert_close(
                ours[name].detach(), value, rtol=1e-6, atol=1e-9, msg=lambda m, n=name: f"{n}: {m}"
            )


def test_second_order_is_the_slope_of_the_adapted_loss(problem):
    """By finite differences: the loss of fixed tours after the inner step, as a function of where that begins."""
    tested = learner(problem)
    tested.learn(shares(problem, 1.0))
    tested.slopes.clear()
    begin, moments = tested.weights.clone(), tested.moments
    tested.learn(shares(problem, 1.0))
    support, query = tested.slopes
    after = tested.moments.first  # 0.9 of the moments after the inner step, and 0.1 of the outer gradient with decay
    inner = adam(begin, support.gradient.detach(), moments, RATE, DECAY)[1]
    outer = (after - 0.9 * inner.first) / 0.1 - DECAY * begin
    direction = torch.randn(begin.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def slope_of(batch):
        return torch.autograd.grad(Loss(tested.solver)(batch), tested._flat.parameters, materialize_grads=True)

    def adapted_loss(weights):
        tested.weights.copy_(weights)
        gradient = torch.zeros_like(weights)
        tested._flat.gather(slope_of(support), gradient)
        tested.weights.copy_(adam(weights, gradient, moments, RATE, DECAY)[0])
        return 0.9 * Loss(tested.solver)(query).item()

    step = 1e-6
    for still in ("layers.0.combine.bias", "layers.0.contract.bias"):
        names = [name for name, _ in tested.solver.named_parameters()]
        tested._flat.views(direction)[names.index(still)].zero_()
    slope = (adapted_loss(begin + step * direction) - adapted_loss(begin - step * direction)) / (2 * step)
    assert (outer @ direction).item() == pytest.approx(slope, rel=1e-4)
    first_order = 0.9 * query.gradient @ direction
    assert first_order.item() != pytest.approx(slope, rel=1e-2)  # so the second derivatives matter here


@pytest.mark.parametrize("inner_steps", [1, 2])
def test_first_order_is_copies_and_optimisers(problem, inner_steps):
    tested = learner(problem, order="first", inner_steps=inner_steps)
    model = copy.deepcopy(tested.solver)
    options = {"lr": RATE, "weight_decay": DECAY}
    meta = torch.optim.Adam(model.parameters(), **options)
    for _ in range(3):
        tested.slopes.clear()
        tested.learn(shares(problem, 1.0))
        *support, query = tested.slopes
        adapted = copy.deepcopy(model)
        inner = torch.optim.Adam(adapted.parameters(), **options)
        for slope in support:
            inner.zero_grad()
            Loss(adapted)(slope).backward()
            inner.step()
        adapted.zero_grad()
        (0.9 * Loss(adapted)(query)).backward()
        for parameter, other in zip(model.parameters(), adapted.parameters(), strict=True):
            parameter.grad = other.grad
        meta.step()
    theirs, ours = dict(model.named_parameters()), dict(tested.solver.named_parameters())
    for name, value in without_still_biases(theirs).items():
        torch.testing.assert_close(ours[name], value, rtol=1e-6, atol=1e-9)


def test_our_adam_is_the_librarys():
    weights = torch.randn(20, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    theirs = nn.Parameter(weights.clone())
    library = torch.optim.Adam([theirs], lr=RATE, weight_decay=DECAY)
    moments = Moments.none(weights)
    for seed in range(5):
        gradient = torch.randn(20, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + 1))
        gradient[3] = 0
        theirs.grad = gradient.clone()
        library.step()
        weights, moments = adam(weights, gradient, moments, RATE, DECAY)
        torch.testing.assert_close(weights, theirs.detach(), rtol=1e-12, atol=1e-12)


def test_adam_has_a_slope_where_nothing_was_ever_learned():
    zero = torch.zeros(2, requires_grad=True)
    changed, _ = adam(zero, zero * 0, Moments.none(zero), RATE, DECAY)
    (slope,) = torch.autograd.grad(changed.sum(), zero)
    assert slope.isfinite().all()


@pytest.mark.parametrize(
    ("order", "steps"), [("second", [1, 3, 5, 7]), ("first", [1, 2, 3, 4]), ("second-then-first", [1, 3, 4, 5])]
)
def test_second_order_advances_the_shared_moments_twice_but_for_the_first_iteration(order, steps):
    tested = learner("tsp", order=order, second_order_iterations=2)
    found = []
    for _ in steps:
        tested.learn(shares("tsp", 1.0))
        found.append(tested.moments.steps)
    assert found == steps


def test_biases_before_a_norm_feel_nothing_but_the_decay():
    tested = learner("tsp", weight_decay=0.0)
    before = {name: value.detach().clone() for name, value in tested.solver.named_parameters()}
    for _ in range(3):
        tested.learn(shares("tsp", 1.0))
    after = dict(tested.solver.named_parameters())
    still = [name for name in before if name.startswith("layers.") and name.endswith(("contract.bias", "combine.bias"))]
    assert len(still) == 2
    assert all(before[name].equal(after[name]) for name in still)
    assert not before["embed.weight"].equal(after["embed.weight"])


@pytest.mark.parametrize("budget", [1, 20_000, 10**9])
def test_curvature_is_the_hessian_times_the_direction_in_any_chunks(problem, budget):
    solver = make_solver(problem, "omni", {**NETWORK, "width": 4}, seed=1).double()
    assert isinstance(solver, Omni)
    flat = FlatParameters(solver)
    instances = shares(problem, 1.0)[0].task.sample(2, torch.Generator().manual_seed(0))
    tours = solver.solve(instances, generator=torch.Generator().manual_seed(1))
    weights = torch.randn(tours.costs.shape, generator=torch.Generator().manual_seed(2)).double()
    direction = torch.randn(flat.weights.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    start = flat.weights.detach().clone()

    def gradient(step):
        flat.weights.detach().copy_(start + step * direction)
        value = solver.score(instances, tours, weights).weighted
        result = torch.zeros_like(start)
        flat.gather(torch.autograd.grad(value, flat.parameters, materialize_grads=True), result)
        return result

    slope = (gradient(1e-6) - gradient(-1e-6)) / 2e-6
    gradient(0)
    found = curvature(solver, flat, instances, tours.actions, weights, direction, budget)
    still = [name.endswith((".combine.bias", "contract.bias")) for name, _ in solver.named_parameters()]
    for ours, theirs, is_still in zip(flat.views(found), flat.views(slope), still, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-7 if not is_still else 1e-6)


def test_an_iteration_repeats_and_goes_on_from_a_state(problem):
    one, other = (learner(problem) for _ in range(2))
    for each in (one, other):
        each.learn(shares(problem, 1.0))
    assert one.weights.equal(other.weights)
    resumed = learner(problem)
    resumed.load_state_dict(copy.deepcopy(one.state_dict()))
    for each in (one, resumed):
        each.learn(shares(problem, 1.0))
    assert one.weights.equal(resumed.weights)
    assert one.moments.first.equal(resumed.moments.first)
    assert not one.weights.equal(other.weights)


def test_no_two_steps_learn_from_the_same_instances(problem):
    tested = learner(problem, inner_steps=2)
    for _ in range(2):
        tested.learn(shares(problem, 0.7, 0.3))
    seen = {tuple(slope.instances.coords.flatten().tolist()) for slope in tested.slopes}
    assert len(seen) == len(tested.slopes) == 2 * 2 * 3


@pytest.mark.parametrize("order", ["first", "second"])
def test_a_rate_that_is_lowered_is_so_in_inner_and_outer_steps(order):
    lowered = learner("tsp", order=order, learning_rate=8 * RATE, decay_at=1, decay_by=1 / 8)
    low, later = learner("tsp", order=order), learner("tsp", order=order, decay_at=3)
    for _ in range(2):
        for each in (lowered, low, later):
            each.learn(shares("tsp", 1.0))
    assert lowered.weights.equal(low.weights)
    assert later.weights.equal(low.weights)


@pytest.mark.parametrize(("large_above", "batch"), [(5, 2), (6, 3)])
def test_batches_of_large_instances_are_smaller(large_above, batch):
    tested = learner("tsp", large_above=large_above, large_batch_size=2)
    tested.learn(shares("tsp", 1.0))
    assert [len(slope.instances) for slope in tested.slopes] == [batch, batch]


def test_tours_of_the_query_come_from_the_adapted_model():
    tested = learner("tsp", learning_rate=0.5)
    tested.learn(shares("tsp", 1.0))
    begin = tested.weights.clone()
    tested.slopes.clear()
    tested.learn(shares("tsp", 1.0))
    query = tested.slopes[1]
    tested.weights.copy_(begin)
    not_adapted = Loss(tested.solver)(query)
    assert query.loss.item() != pytest.approx(not_adapted.item(), rel=1e-3)
