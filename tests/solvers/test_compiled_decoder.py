"""Compiled, tours and gradients are those of the step-by-step twin, by any number of threads."""

from __future__ import annotations

import sys
from dataclasses import replace

import numba
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import always_compiled, random_instances, small_solver, without_numba
from dree import compiled
from dree.problems import Tours
from dree.solvers import decoding, make_solver
from dree.solvers.compiled_decoder import CompiledDecoder, ranges
from dree.solvers.decoding import GlimpseDecoder
from dree.solvers.pomo_twin import rollout

PROBLEMS = st.sampled_from(["tsp", "cvrp"])
SHAPES = [(2, 16), (1, 8), (3, 12), (8, 64)]  # heads and width


@pytest.fixture(autouse=True)
def _always(monkeypatch):
    """Also where there is little to solve."""
    always_compiled(monkeypatch)


def twin(solver, instances, actions):
    """Log-probabilities of tours by the twin in double precision, with gradient, and its parameters."""
    double = small_copy(solver).double()
    exact = replace(instances, coords=instances.coords.double())
    _, log_prob = rollout(double, exact, forced=actions)
    return log_prob, list(double.parameters())


def small_copy(solver):
    copy = type(solver)(solver.rules.name, solver.settings)
    copy.load_state_dict(solver.state_dict())
    return copy


def gradient(value, parameters):
    found = torch.autograd.grad(value, parameters, materialize_grads=True)
    return torch.cat([each.flatten().double() for each in found])


@given(
    problem=PROBLEMS,
    customers=st.integers(2, 40),
    batch=st.integers(1, 4),
    seed=st.integers(0, 999),
    shape=st.sampled_from(SHAPES),
)
@settings(max_examples=40)
def test_log_probabilities_and_gradients_are_the_twins(problem, customers, batch, seed, shape):
    instances = random_instances(problem, batch, customers, seed)
    solver = small_solver(problem, seed, heads=shape[0], width=shape[1])
    encoding = solver.encode(instances)
    assert isinstance(encoding, CompiledDecoder)
    tours = solver.solve(instances, generator=torch.Generator().manual_seed(seed), encoding=encoding)
    weights = torch.randn(tours.costs.shape, generator=torch.Generator().manual_seed(1))
    score = solver.score(instances, tours, weights, encoding=encoding)
    log_prob, parameters = twin(solver, instances, tours.actions)
    torch.testing.assert_close(score.per_tour.double(), log_prob.detach(), rtol=1e-5, atol=1e-5)
    assert score.weighted.item() == pytest.approx((weights * log_prob).sum().item(), rel=1e-4, abs=1e-4)
    expected = gradient((weights * log_prob).sum(), parameters)
    assert (gradient(score.weighted, list(solver.parameters())) - expected).norm() < 1e-4 * expected.norm() + 1e-6


def imitated(solver, teacher, instances, tours):
    """How far a teacher is from the policy on each tour, and the gradient of that."""
    score = solver.imitate(instances, tours, teacher.encode(instances))
    return score.per_tour.double(), gradient(score.weighted, list(solver.parameters()))


@given(problem=PROBLEMS, customers=st.integers(2, 40), seed=st.integers(0, 999), shape=st.sampled_from(SHAPES))
@settings(max_examples=30)
def test_the_distance_from_a_teacher_and_its_gradient_are_those_in_double_precision(problem, customers, seed, shape):
    instances = random_instances(problem, 3, customers, seed)
    solver, teacher = (small_solver(problem, each, heads=shape[0], width=shape[1]) for each in (seed, seed + 1))
    tours = solver.solve(instances, generator=torch.Generator().manual_seed(seed))
    exact = replace(instances, coords=instances.coords.double())
    distance, slope = imitated(solver, teacher, instances, tours)
    expected, expected_slope = imitated(*(small_copy(each).double() for each in (solver, teacher)), exact, tours)
    torch.testing.assert_close(distance, expected, rtol=1e-4, atol=1e-5)
    assert (slope - expected_slope).norm() < 1e-4 * expected_slope.norm() + 1e-6


def test_a_policy_is_at_no_distance_from_itself_whatever_made_its_encoding(problem):
    instances, solver = random_instances(problem, 2, 9, seed=3), small_solver(problem)
    tours = solver.solve(instances, generator=torch.Generator().manual_seed(0))
    encoding = solver.encode(instances)
    for teacher in (encoding, GlimpseDecoder(encoding.heads, encoding.tensors)):
        distance, gradients = encoding.imitate(instances, tours.actions, teacher, 10.0)
        assert not distance.any()
        assert not any(each.any() for each in gradients)


def test_a_teacher_of_another_size_is_imitated_too(problem, monkeypatch):
    instances, solver = random_instances(problem, 2, 9, seed=1), small_solver(problem)
    teacher = small_solver(problem, 1, heads=4, width=32)
    tours = solver.solve(instances, generator=torch.Generator().manual_seed(0))
    found = imitated(solver, teacher, instances, tours)
    without_numba(monkeypatch)
    torch.testing.assert_close(found, imitated(solver, teacher, instances, tours), rtol=1e-4, atol=1e-5)


@given(problem=PROBLEMS, customers=st.integers(2, 40), seed=st.integers(0, 999), shape=st.sampled_from(SHAPES))
@settings(max_examples=30)
def test_greedy_tours_take_what_the_twin_finds_likeliest(problem, customers, seed, shape):
    instances = random_instances(problem, 2, customers, seed)
    solver = small_solver(problem, seed, heads=shape[0], width=shape[1])
    tours = solver.solve(instances)
    for start in range(customers):
        chosen = tours.actions[:, start : start + 1]
        exact = replace(instances, coords=instances.coords.double())
        policy = small_copy(solver).double().behave(exact, Tours(chosen, tours.costs[:, :1]))
        taken = policy.gather(-1, chosen[:, 0, 1:, None]).squeeze(-1)
        assert (policy.amax(-1) - taken).max() < 1e-4


def test_decisions_are_as_frequent_as_they_are_likely(problem):
    """5000 tours of one instance from one start: the second action of each, against the policy there."""
    one = random_instances(problem, 1, 7, seed=4)
    solver = small_solver(problem, seed=1)
    start = torch.tensor([[3]])
    likely = solver.behave(one, solver.solve(one, start)).exp()[0, 0]
    tours = solver.solve(one, start.expand(1, 5000), generator=torch.Generator().manual_seed(0))
    counts = torch.bincount(tours.actions[0, :, 1], minlength=one.nodes)
    assert (counts[likely == 0] == 0).all()
    deviation = (likely * (1 - likely) * 5000).sqrt()
    assert ((counts - 5000 * likely).abs() <= 4 * deviation + 1e-6).all()
    assert len(counts[counts > 0]) > 2


@pytest.mark.parametrize("batch", [1, 5])
def test_any_number_of_threads_gives_the_same_to_the_bit(problem, batch):
    instances = random_instances(problem, batch, 30, seed=2)
    solver, before, found = small_solver(problem), torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            encoding = solver.encode(instances)
            tours = solver.solve(instances, generator=torch.Generator().manual_seed(1), encoding=encoding)
            teacher = encoding.map(lambda tensor: 1.1 * tensor)
            scored = encoding.score(instances, tours.actions, tours.costs, 10.0)
            compared = encoding.imitate(instances, tours.actions, teacher, 10.0)
            measured = [each for per_tour, gradients in (scored, compared) for each in (per_tour, *gradients)]
            found.append((tours.actions, tours.costs, *measured))
    finally:
        torch.set_num_threads(before)
    for others in found[1:]:
        assert all(one.equal(other) for one, other in zip(found[0], others, strict=True))


def test_an_instance_has_the_same_tours_and_scores_in_any_batch(problem):
    instances = random_instances(problem, 6, 12, seed=2)
    encoding = small_solver(problem).encode(instances)
    solver = small_solver(problem)
    tours = solver.solve(instances, encoding=encoding)
    score = solver.score(instances, tours, encoding=encoding).per_tour
    for row in range(6):
        alone = solver.solve(instances[[row]], encoding=encoding[[row]])
        assert alone.costs.equal(tours.costs[[row]])
        assert solver.score(instances[[row]], alone, encoding=encoding[[row]]).per_tour.equal(score[[row]])


def test_a_tour_that_waits_at_the_depot_has_the_same_score():
    instances = random_instances("cvrp", 3, 6, seed=2)
    solver = small_solver("cvrp")
    tours = solver.solve(instances)
    waiting = Tours(torch.nn.functional.pad(tours.actions, (0, 3)), tours.costs)
    assert solver.score(instances, waiting).per_tour.equal(solver.score(instances, tours).per_tour)


def test_a_tour_may_start_at_the_depot_and_be_one_longer():
    instances = random_instances("cvrp", 2, 4, seed=0)
    instances.demands[:, 1:] = 20  # a route for each customer
    solver = small_solver("cvrp")
    tours = solver.solve(instances, torch.zeros(2, 1, dtype=torch.int64))
    assert tours.actions.shape == (2, 1, 9)
    assert tours.actions[..., ::2].eq(0).all()
    assert tours.actions[..., 1::2].sort().values.equal(torch.arange(1, 5).expand(2, 1, 4))
    _, log_prob = rollout(solver, instances, forced=tours.actions)
    torch.testing.assert_close(solver.score(instances, tours).per_tour, log_prob.detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "actions"), [("tsp", [0, 1, 1, 2]), ("cvrp", [1, 2, 3, 1, 0]), ("cvrp", [1, 0, 0, 2, 3])]
)
def test_a_tour_against_the_rules_has_no_chance(name, actions):
    instances = random_instances(name, 1, 4 if name == "tsp" else 3, seed=0, capacity=99)
    tours = Tours(torch.tensor([[actions]]), torch.zeros(1, 1))
    assert small_solver(name).score(instances, tours).per_tour.item() == -torch.inf


@pytest.mark.parametrize("clip", [1.0, 50.0, 300.0])
def test_scores_may_be_clipped_anywhere(problem, clip):
    instances = random_instances(problem, 2, 12, seed=0)
    solver = small_solver(problem, clip=clip)
    tours = solver.solve(instances, generator=torch.Generator().manual_seed(0))
    log_prob, _ = twin(solver, instances, tours.actions)
    score = solver.score(instances, tours).per_tour
    torch.testing.assert_close(score.double(), log_prob.detach(), rtol=1e-4, atol=1e-4)


def test_a_single_customer_has_a_single_tour():
    instances = random_instances("cvrp", 2, 1, seed=0)
    solver = small_solver("cvrp")
    tours = solver.solve(instances)
    assert tours.actions.tolist() == [[[1, 0]], [[1, 0]]]
    assert solver.score(instances, tours).per_tour.eq(0).all()


def test_sampled_tours_are_the_same_without_numba(problem, monkeypatch):
    """But for rounding, which makes no difference here."""
    instances, solver = random_instances(problem, 3, 15, seed=0), small_solver(problem)
    ours = solver.solve(instances, generator=torch.Generator().manual_seed(5)).actions
    without_numba(monkeypatch)
    assert solver.solve(instances, generator=torch.Generator().manual_seed(5)).actions.equal(ours)


def test_broken_weights_give_a_loss_that_is_not_finite_where_tours_are_learned(problem):
    solver, instances = small_solver(problem), random_instances(problem, 2, 6, seed=0)
    solver.value.weight.data.fill_(float("nan"))
    encoding = solver.encode(instances)
    generator = torch.Generator().manual_seed(0)
    tours = solver.solve(instances, generator=generator, encoding=encoding, record=True)
    assert solver.score(instances, tours, encoding=encoding).weighted.isnan()


def test_weights_may_be_the_same_for_many_tours_and_of_any_kind(problem):
    instances, solver = random_instances(problem, 3, 8, seed=0), small_solver(problem)
    tours = solver.solve(instances)
    each = torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)
    expanded = each.float().expand(3, 8).contiguous()
    one, other = (solver.score(instances, tours, weights).weighted for weights in (each, expanded))
    parameters = list(solver.parameters())
    assert gradient(one, parameters).equal(gradient(other, parameters))


@pytest.mark.parametrize("wrong", ["tours", "encoding", "nodes"])
def test_what_does_not_belong_together_is_refused(problem, wrong):
    solver, instances = small_solver(problem), random_instances(problem, 3, 8, seed=0)
    tours, encoding = solver.solve(instances), solver.encode(instances)
    if wrong == "tours":
        tours = Tours(tours.actions[:2], tours.costs[:2])
    elif wrong == "encoding":
        encoding = encoding[:2]
    else:
        encoding = solver.encode(random_instances(problem, 3, 9, seed=0))
    with pytest.raises(IndexError, match=f"3 instances of {instances.nodes} nodes"):
        solver.score(instances, tours, encoding=encoding)


def test_starts_may_be_any_and_any_number(problem):
    instances = random_instances(problem, 2, 9, seed=0)
    starts = torch.tensor([[4, 4, 1], [8, 2, 2]])
    tours = small_solver(problem).solve(instances, starts)
    assert tours.actions[..., 0].equal(starts)
    assert tours.actions[0, 0].equal(tours.actions[0, 1])


@pytest.mark.parametrize("start", [-1, 9])
def test_a_start_that_is_no_node_is_refused(start):
    instances = random_instances("tsp", 2, 9, seed=0)
    with pytest.raises(IndexError, match="starts must be nodes, 0 to 8"):
        small_solver("tsp").solve(instances, torch.tensor([[0], [start]]))


def test_where_kernels_do_not_serve_tours_are_made_by_pytorch(problem, monkeypatch):
    instances = random_instances(problem, 3, 9, seed=0)
    solver = small_solver(problem)
    greedy = solver.solve(instances)
    monkeypatch.setattr(compiled, "TABLE", 5)
    assert type(solver.encode(instances)) is GlimpseDecoder
    monkeypatch.undo()
    without_numba(monkeypatch)
    assert type(solver.encode(instances)) is GlimpseDecoder
    torch.testing.assert_close(solver.solve(instances).costs, greedy.costs)


def test_a_little_without_gradient_is_not_worth_loading_kernels(problem, monkeypatch):
    solver, instances = small_solver(problem), random_instances(problem, 2, 9, seed=0)
    monkeypatch.setattr(decoding, "SMALL", 2 * instances.nodes**3)
    assert type(solver.encode(instances)) is CompiledDecoder
    with torch.no_grad():
        assert type(solver.encode(instances)) is GlimpseDecoder
        monkeypatch.setattr(decoding, "SMALL", 2 * instances.nodes**3 - 1)
        assert type(solver.encode(instances)) is CompiledDecoder


def test_kernels_serve_single_precision_on_a_cpu_with_numba(monkeypatch):
    cpu, single = torch.device("cpu"), torch.float32
    assert compiled.serve(cpu, single, 1024, 8)
    assert not compiled.serve(cpu, single, 1025, 8)
    assert not compiled.serve(cpu, single, 1024, 9)
    assert not compiled.serve(cpu, torch.float64, 5, 8)
    assert not compiled.serve(torch.device("cuda"), single, 5, 8)
    monkeypatch.setattr(compiled, "able", compiled.able.__wrapped__)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "numba", None)  # importing it fails
        assert not compiled.serve(cpu, single, 5, 8)
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert not compiled.serve(cpu, single, 5, 8)


def test_all_parts_of_a_batch_are_there_once():
    for count in (1, 2, 7, 64):
        for parts in (1, 3, 8, 100):
            found = [number for first, last in ranges(count, parts) for number in range(first, last)]
            assert found == list(range(count))
            assert len(ranges(count, parts)) == min(count, parts)


def test_the_full_size_network_learns_from_tours_of_many_customers(problem):
    """A few tours of an instance of 200 customers, against PyTorch's operations."""
    instances = random_instances(problem, 1, 200, seed=0, capacity=60)
    solver = make_solver(problem)
    tours = solver.solve(instances, torch.tensor([[5, 77]]), generator=torch.Generator().manual_seed(0))
    score = solver.score(instances, tours)
    with pytest.MonkeyPatch.context() as patch:
        without_numba(patch)
        plain = solver.score(instances, tours)
    torch.testing.assert_close(score.per_tour, plain.per_tour, rtol=1e-5, atol=1e-3)
    parameters = list(solver.parameters())
    ours, theirs = gradient(score.weighted, parameters), gradient(plain.weighted, parameters)
    assert (ours - theirs).norm() < 1e-3 * theirs.norm()
