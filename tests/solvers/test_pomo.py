"""The fast POMO against its step-by-step twin, and against what its description promises."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import always_compiled, random_instances, small_solver, without_numba
from dree.errors import DreeError
from dree.problems import Tours, augment
from dree.problems.check import check_cvrp, check_tsp
from dree.solvers import POMO, POMOSettings, decoding, make_solver
from dree.solvers.pomo_twin import rollout

PROBLEMS = st.sampled_from(["tsp", "cvrp"])


def checked_cost(instances, row, actions):
    if instances.demands is None:
        return check_tsp(instances.coords[row].numpy(), actions)
    return check_cvrp(
        instances.coords[row].numpy(), instances.demands[row].numpy(), int(instances.capacity[row]), actions
    )


def in_double(instances):
    return replace(instances, coords=instances.coords.double())


def relative(gradients, references):
    """Distance of two gradients of all parameters, relative to the reference's length."""
    distance = sum((a - b).square().sum() for a, b in zip(gradients, references, strict=True)).sqrt()
    return float(distance / sum(b.square().sum() for b in references).sqrt())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_tours_are_legal_whatever_the_floats_of_a_solver(problem, dtype):
    given = random_instances(problem, 2, 6, seed=1)
    tours = small_solver(problem).to(dtype).solve(replace(given, coords=given.coords.to(dtype)))
    for row in range(2):
        for actions, cost in zip(tours.actions[row].tolist(), tours.costs[row].tolist(), strict=True):
            assert checked_cost(given, row, actions) == pytest.approx(cost, rel=0.05)


@pytest.mark.parametrize(("kind", "count"), [("tsp", 1_269_760), ("cvrp", 1_254_016)])
def test_the_network_has_as_many_parameters_as_the_original(kind, count):
    assert sum(parameter.numel() for parameter in POMO(kind).parameters()) == count


@given(
    problem=PROBLEMS,
    customers=st.integers(2, 12),
    batch=st.integers(1, 4),
    seed=st.integers(0, 999),
    decoder=st.sampled_from([always_compiled, without_numba]),
)
@settings(max_examples=60)
def test_sampled_and_greedy_tours_are_feasible_and_cost_what_the_referee_says(problem, customers, batch, seed, decoder):
    instances = random_instances(problem, batch, customers, seed)
    solver = small_solver(problem, seed)
    for generator in (None, torch.Generator().manual_seed(seed)):
        with pytest.MonkeyPatch.context() as patch:
            decoder(patch)
            tours = solver.solve(instances, generator=generator)
        assert tours.actions.shape[1] == customers
        for row in range(batch):
            for start in range(customers):
                cost = checked_cost(instances, row, tours.actions[row, start].tolist())
                assert float(tours.costs[row, start]) == pytest.approx(cost, rel=1e-5)


@given(
    problem=PROBLEMS,
    customers=st.integers(2, 10),
    seed=st.integers(0, 999),
    chunk_bytes=st.sampled_from([1, 3_000, 20_000, 10**9]),
)
@settings(max_examples=40)
def test_forced_log_probabilities_equal_the_sampled_ones_of_the_twin(problem, customers, seed, chunk_bytes):
    """In double precision, so that a difference is a mistake and not rounding; in single: test_compiled_decoder.py."""
    instances = in_double(random_instances(problem, 3, customers, seed))
    solver = small_solver(problem, seed, chunk_bytes=chunk_bytes).double()
    with torch.no_grad():
        tours, log_prob = rollout(solver, instances, generator=torch.Generator().manual_seed(seed))
    score = solver.score(instances, tours)
    assert (score.per_tour - log_prob).abs().max() < 1e-9
    assert score.weighted.item() == pytest.approx(log_prob.sum().item(), abs=1e-9)


@pytest.mark.parametrize("chunk_bytes", [1, 5_000, 10**9])
def test_the_gradient_equals_the_twins(problem, chunk_bytes, monkeypatch):
    without_numba(monkeypatch)
    instances = random_instances(problem, 4, 9, seed=3)
    solver = small_solver(problem, layers=3, chunk_bytes=chunk_bytes)
    tours, log_prob = rollout(solver, instances, generator=torch.Generator().manual_seed(1))
    weights = torch.randn(log_prob.shape, generator=torch.Generator().manual_seed(2))
    parameters = list(solver.parameters())
    reference = torch.autograd.grad((weights * log_prob).sum(), parameters, materialize_grads=True)
    fast = torch.autograd.grad(solver.score(instances, tours, weights).weighted, parameters, materialize_grads=True)
    assert relative(fast, reference) < 1e-4


def test_in_double_precision_the_gradient_agrees_to_rounding(problem):
    instances = in_double(random_instances(problem, 3, 8, seed=5))
    solver = small_solver(problem, layers=3).double()
    tours, log_prob = rollout(solver, instances, generator=torch.Generator().manual_seed(1))
    parameters = list(solver.parameters())
    reference = torch.autograd.grad(log_prob.sum(), parameters, materialize_grads=True)
    score = solver.score(instances, tours)
    assert relative(torch.autograd.grad(score.weighted, parameters, materialize_grads=True), reference) < 1e-11


def test_the_full_size_network_agrees_with_the_twin_to_single_precision(problem):
    instances = random_instances(problem, 2, 20, seed=7, capacity=30)
    solver = make_solver(problem)
    with torch.no_grad():
        tours, log_prob = rollout(solver, instances, generator=torch.Generator().manual_seed(1))
        difference = solver.score(instances, tours).per_tour - log_prob
    assert (difference / log_prob).abs().max() < 1e-5
    assert difference.abs().max() < 1e-4  # of a sum of 20 to 40 decisions


@given(problem=PROBLEMS, seed=st.integers(0, 99), chunk_bytes=st.integers(1, 100_000))
@settings(max_examples=20)
def test_scores_do_not_depend_on_chunking(problem, seed, chunk_bytes):
    instances = in_double(random_instances(problem, 5, 7, seed))
    whole, chunked = (small_solver(problem, chunk_bytes=size).double() for size in (10**9, chunk_bytes))
    tours = whole.solve(instances, generator=torch.Generator().manual_seed(seed))
    one, other = whole.score(instances, tours), chunked.score(instances, tours)
    torch.testing.assert_close(one.per_tour, other.per_tour, rtol=0, atol=1e-10)
    gradients = torch.autograd.grad(other.weighted, list(chunked.parameters()), materialize_grads=True)
    assert (
        relative(gradients, torch.autograd.grad(one.weighted, list(whole.parameters()), materialize_grads=True)) < 1e-9
    )


def test_greedy_solving_equals_the_twin_and_does_not_depend_on_the_batch(problem):
    instances = random_instances(problem, 6, 9, seed=4)
    solver = small_solver(problem)
    with torch.no_grad():
        reference, _ = rollout(solver, instances)
    together = solver.solve(instances)
    alone = [solver.solve(instances[row : row + 1]) for row in range(6)]
    assert together.actions.equal(reference.actions)
    torch.testing.assert_close(together.costs, torch.cat([tours.costs for tours in alone]))


def test_sampling_follows_the_policy():
    """Chi-square of 20000 first decisions against the probabilities that `behave` gives."""
    instances = random_instances("cvrp", 1, 5, seed=2)
    solver = small_solver("cvrp", seed=3)
    starts = torch.full((1, 20_000), 2)
    tours = solver.solve(instances, starts, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        policy = solver.behave(instances, Tours(tours.actions[:, :1], tours.costs[:, :1]))[0, 0].exp()
    counts = torch.bincount(tours.actions[0, :, 1], minlength=6)
    assert counts[policy == 0].sum() == 0
    allowed = policy > 0
    expected = policy[allowed] * 20_000
    chi_square = ((counts[allowed] - expected) ** 2 / expected).sum()
    assert chi_square < 20  # 4 degrees of freedom: exceeded by chance once in 2000 times


def test_behaviours_are_distributions_over_what_is_allowed_and_contain_the_score(problem):
    instances = random_instances(problem, 3, 8, seed=6)
    solver = small_solver(problem)
    best = solver.solve(instances, generator=torch.Generator().manual_seed(1)).best()
    behaviour = solver.behave(instances, best)
    torch.testing.assert_close(behaviour.exp().sum(-1), torch.ones(behaviour.shape[:2]))
    states = solver.rules.hindsight(instances, best.actions)
    assert (behaviour == -torch.inf).equal(states.blocked[:, 0])
    taken = behaviour.gather(-1, best.actions[:, 0, 1:, None]).squeeze(-1).sum(-1)
    torch.testing.assert_close(taken[:, None], solver.score(instances, best).per_tour)


def test_behave_takes_one_tour_only(problem):
    instances = random_instances(problem, 1, 4, seed=0)
    solver = small_solver(problem)
    with pytest.raises(ValueError, match="one tour per instance"):
        solver.behave(instances, solver.solve(instances))


def test_given_starts_are_the_first_actions(problem):
    instances = random_instances(problem, 2, 6, seed=0)
    starts = torch.tensor([[3, 1], [2, 5]])
    assert small_solver(problem).solve(instances, starts).actions[..., 0].equal(starts)


def test_a_seed_fixes_weights_and_samples_and_leaves_the_global_generator_alone(problem):
    instances = random_instances(problem, 2, 6, seed=0)
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    one, other, third = small_solver(problem, seed=5), small_solver(problem, seed=5), small_solver(problem, seed=6)
    assert torch.rand(3).equal(expected)
    assert all(a.equal(b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert not one.key.weight.equal(third.key.weight)
    samples = [one.solve(instances, generator=torch.Generator().manual_seed(s)).actions for s in (1, 1, 2)]
    assert samples[0].equal(samples[1])
    assert samples[0].shape != samples[2].shape or not samples[0].equal(samples[2])


def test_sharing_the_encoding_changes_nothing(problem):
    instances = augment(random_instances(problem, 2, 6, seed=0))
    solver = small_solver(problem)
    encoding = solver.encode(instances)
    tours = solver.solve(instances, encoding=encoding)
    assert tours.actions.equal(solver.solve(instances).actions)
    shared = solver.score(instances, tours, encoding=encoding)
    assert shared.per_tour.equal(solver.score(instances, tours).per_tour)


def test_a_customer_is_seen_where_it_is_and_with_its_share_of_the_capacity():
    solver, instances = small_solver("cvrp"), random_instances("cvrp", 2, 6, seed=1)
    embedded = solver.embedding(instances)
    for row, node in ((0, 1), (1, 6)):
        share = float(instances.demands[row, node]) / float(instances.capacity[row])
        x, y = instances.coords[row, node].tolist()
        torch.testing.assert_close(embedded[row, node], solver.embed(torch.tensor([x, y, share])))
    torch.testing.assert_close(embedded[:, 0], solver.embed_depot(instances.coords[:, 0]))
    larger = replace(instances, demands=3 * instances.demands, capacity=3 * instances.capacity)
    tours = solver.solve(instances)
    torch.testing.assert_close(solver.score(larger, tours).per_tour, solver.score(instances, tours).per_tour)


def test_a_solver_refuses_the_other_problem():
    with pytest.raises(DreeError, match="made for tsp, these instances are cvrp"):
        small_solver("tsp").solve(random_instances("cvrp", 1, 4, seed=0))


def test_a_solver_refuses_another_precision_than_its_own():
    instances = random_instances("tsp", 1, 4, seed=0)
    with pytest.raises(DreeError, match=r"weights of this solver are torch\.float32, these coordinates torch\.float64"):
        small_solver("tsp").solve(replace(instances, coords=instances.coords.double()))


@pytest.mark.parametrize("wrong", [{"layers": 0}, {"width": 10, "heads": 4}, {"clip": -1.0}])
def test_settings_that_make_no_network_are_refused(wrong):
    with pytest.raises(DreeError):
        POMOSettings(**wrong)


@pytest.mark.parametrize("decoder", [always_compiled, without_numba])
@pytest.mark.parametrize("sampled", [True, False])
def test_a_solver_with_broken_weights_stops_with_a_message_instead_of_running_for_ever(
    problem, sampled, decoder, monkeypatch
):
    decoder(monkeypatch)
    solver = small_solver(problem)
    solver.key.weight.data.fill_(float("nan"))
    generator = torch.Generator().manual_seed(0) if sampled else None
    with pytest.raises(DreeError, match="weights are no longer finite"):
        solver.solve(random_instances(problem, 1, 5, seed=0), generator=generator)


@pytest.mark.parametrize("decoder", [always_compiled, without_numba])
def test_a_customer_that_no_vehicle_can_serve_stops_with_a_message(decoder, monkeypatch):
    decoder(monkeypatch)
    instances = random_instances("cvrp", 1, 4, seed=0, capacity=20)
    instances.demands[0, 2] = 99
    with pytest.raises(DreeError, match="a demand exceeds the capacity"):
        small_solver("cvrp").solve(instances)


@pytest.mark.parametrize("decoder", [always_compiled, without_numba])
def test_the_full_size_gradient_equals_the_twins(problem, decoder, monkeypatch):
    decoder(monkeypatch)
    instances = random_instances(problem, 1, 70, seed=1, capacity=40)
    starts = torch.tensor([[1, 30, 69]])
    solver = make_solver(problem)
    tours, log_prob = rollout(solver, instances, starts, generator=torch.Generator().manual_seed(1))
    assert (type(solver.encode(instances)) is decoding.GlimpseDecoder) == (decoder is without_numba)
    parameters = list(solver.parameters())
    reference = torch.autograd.grad(log_prob.mean(), parameters, materialize_grads=True)
    weights = torch.full((1, 3), 1 / 3)
    assert (
        relative(
            torch.autograd.grad(solver.score(instances, tours, weights).weighted, parameters, materialize_grads=True),
            reference,
        )
        < 1e-4
    )


def test_a_setting_of_earlier_versions_is_read_and_ignored():
    assert make_solver("tsp", settings={"tape_bytes": 5, "width": 16, "heads": 2}).settings.width == 16
    with pytest.raises(DreeError, match=r"Unknown setting 'solver\.tape_byte'"):
        make_solver("tsp", settings={"tape_byte": 5})
