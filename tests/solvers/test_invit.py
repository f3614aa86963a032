"""The fast INViT against its step-by-step twin, and against what its description promises."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from conftest import random_instances, small_invit
from dree.errors import DreeError
from dree.problems import Instances, Tours
from dree.problems.check import check_cvrp, check_tsp
from dree.solvers import INViT, INViTSettings, invit, invit_rollout, make_solver
from dree.solvers.capture import taking_turns
from dree.solvers.invit_rollout import CapturedSteps
from dree.solvers.invit_twin import rollout
from dree.testing import check_solver

PROBLEMS = st.sampled_from(["tsp", "cvrp"])
STARTS = st.sampled_from(["one", "all"])
CHUNKS = st.sampled_from([1, 150_000, 1_000_000, 10**9])


def in_double(instances):
    return replace(instances, coords=instances.coords.double())


def dice(seed=0):
    return torch.Generator().manual_seed(seed)


def referee(instances, tours):
    """Every tour is one, and costs what it is said to."""
    for row, each in enumerate(tours.actions.tolist()):
        for column, actions in enumerate(each):
            coords = instances.coords[row].numpy()
            if instances.demands is None:
                cost = check_tsp(coords, actions)
            else:
                cost = check_cvrp(coords, instances.demands[row].numpy(), int(instances.capacity[row]), actions)
            assert float(tours.costs[row, column]) == pytest.approx(cost, rel=1e-5, abs=1e-6)


def differences(solver, instances, tours, log_prob, weights):
    """How far log-probabilities and the gradient of their weighted sum are from the twin's, the latter relatively."""
    parameters = list(solver.parameters())
    reference = torch.autograd.grad((weights * log_prob).sum(), parameters, materialize_grads=True)
    score = solver.score(instances, tours, weights)
    fast = torch.autograd.grad(score.weighted, parameters, materialize_grads=True)
    apart = sum((a - b).square().sum() for a, b in zip(fast, reference, strict=True)).sqrt()
    length = sum(b.square().sum() for b in reference).sqrt()
    return float((score.per_tour - log_prob.detach()).abs().max()), float(apart / length.clamp(min=1e-3))


def test_its_views_are_as_wide_as_the_originals_unless_set():
    default = INViTSettings()
    assert (default.action_view, default.state_views, default.strict_capacity) == (15, (35, 50), False)


@pytest.mark.parametrize(
    ("kind", "views", "count"),
    [
        ("tsp", (35,), 1_190_272),
        ("tsp", (35, 50), 1_718_528),
        ("cvrp", (35,), 1_207_552),
        ("cvrp", (35, 50), 1_736_064),
    ],
)
def test_the_network_has_as_many_parameters_as_the_original(kind, views, count):
    solver = INViT(kind, INViTSettings(state_views=views))
    assert sum(parameter.numel() for parameter in solver.parameters()) == count


@given(problem=PROBLEMS, customers=st.integers(2, 14), seed=st.integers(0, 999), chunk_bytes=CHUNKS, starts=STARTS)
@settings(max_examples=40)
def test_log_probabilities_and_gradients_equal_the_twins(problem, customers, seed, chunk_bytes, starts):
    """In double precision, so that a difference is a mistake and not rounding; views are of 4, 6 and 9 places."""
    instances = in_double(random_instances(problem, 2, customers, seed))
    solver = small_invit(problem, seed, starts=starts, chunk_bytes=chunk_bytes).double()
    tours, log_prob = rollout(solver, instances, generator=dice(seed))
    weights = torch.randn(log_prob.shape, generator=dice(1)).double()
    values, gradient = differences(solver, instances, tours, log_prob, weights)
    assert values < 1e-9
    assert gradient < 1e-9


@pytest.mark.parametrize("customers", [16, 40, 60])
def test_the_full_size_network_agrees_with_the_twin_to_single_precision(problem, customers):
    instances = random_instances(problem, 1, customers, seed=7, capacity=40)
    solver = make_solver(problem, "invit")
    tours, log_prob = rollout(solver, instances, generator=dice())
    values, gradient = differences(solver, instances, tours, log_prob, torch.ones_like(log_prob))
    assert values < 1e-5 * log_prob.abs().max()
    assert gradient < 1e-4


@given(problem=PROBLEMS, customers=st.integers(2, 12), seed=st.integers(0, 99), strict=st.booleans())
@settings(max_examples=20)
def test_greedy_tours_equal_the_twins(problem, customers, seed, strict):
    instances = random_instances(problem, 3, customers, seed)
    solver = small_invit(problem, seed, strict_capacity=strict)
    with torch.no_grad():
        twin, _ = rollout(solver, instances)
    assert solver.solve(instances).actions.equal(twin.actions)


@given(problem=PROBLEMS, customers=st.integers(2, 12), batch=st.integers(1, 4), seed=st.integers(0, 999), starts=STARTS)
@settings(max_examples=30)
def test_sampled_and_greedy_tours_are_feasible_and_cost_what_the_referee_says(problem, customers, batch, seed, starts):
    instances = random_instances(problem, batch, customers, seed)
    solver = small_invit(problem, seed, starts=starts)
    for generator in (None, dice(seed)):
        tours = solver.solve(instances, generator=generator)
        assert tours.actions.shape[:2] == (batch, customers if starts == "all" else 1)
        referee(instances, tours)


@given(problem=PROBLEMS, seed=st.integers(0, 99), chunk_bytes=st.integers(1, 10**6))
@settings(max_examples=10)
def test_nothing_depends_on_chunking(problem, seed, chunk_bytes):
    instances = in_double(random_instances(problem, 3, 6, seed))
    whole, chunked = (small_invit(problem, chunk_bytes=size).double() for size in (10**9, chunk_bytes))
    tours, again = (each.solve(instances, generator=dice(seed)) for each in (whole, chunked))
    assert tours.actions.equal(again.actions)
    best = tours.best()
    gradients = []
    for solver in (whole, chunked):
        behaviour = solver.behave(instances, best)
        solver.zero_grad()
        (behaviour[..., 1].clamp(min=-20).sum() + solver.score(instances, tours).weighted).backward()
        gradients.append(torch.cat([each.grad.flatten() for each in solver.parameters() if each.grad is not None]))
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("starts", ["one", "all"])
@pytest.mark.parametrize("views", [(3, (4, 5)), (15, (35, 50))])
def test_it_keeps_to_what_solvers_must(problem, starts, views):
    small = {"action_view": views[0], "state_views": views[1], "starts": starts, "layers": 1}
    check_solver(lambda name: small_invit(name, **small), problem=problem)


def test_it_keeps_to_it_in_the_smallest_chunks(problem):
    check_solver(lambda name: small_invit(name, chunk_bytes=1), problem=problem)


@pytest.mark.parametrize("change", [lambda x: x + 3.0, lambda x: x * 7.0, lambda x: x / 50 - 1])
def test_moving_or_scaling_an_instance_changes_no_policy(problem, change):
    instances = in_double(random_instances(problem, 3, 12, seed=1))
    other = replace(instances, coords=change(instances.coords))
    solver = small_invit(problem).double()
    tours = solver.solve(instances, generator=dice())
    torch.testing.assert_close(solver.behave(instances, tours), solver.behave(other, tours), rtol=0, atol=1e-9)


def test_stretching_one_axis_does(problem):
    instances = random_instances(problem, 3, 12, seed=1)
    other = replace(instances, coords=instances.coords * torch.tensor([1.0, 3.0]))
    solver = small_invit(problem)
    tours = solver.solve(instances, generator=dice())
    assert not torch.allclose(solver.score(instances, tours).per_tour, solver.score(other, tours).per_tour)


def test_candidates_are_the_nearest_that_are_left_from_near_to_far():
    """On a line, where they can be told by hand."""
    line = Instances(torch.tensor([[[0.0, 0], [1, 0], [2, 0], [3.1, 0], [4, 0], [5.15, 0], [6, 0], [7, 0]]]))
    solver = small_invit("tsp", action_view=3)
    actions = torch.tensor([[[3, 4, 5, 6, 7, 2, 1, 0]]])
    states = solver.rules.hindsight(line, actions)
    assert solver.candidates(line, states)[0, 0].tolist() == [
        [4, 2, 5],
        [5, 2, 6],
        [6, 7, 2],
        [7, 2, 1],
        [2, 1, 0],
        [1, 0, -1],
        [0, -1, -1],
    ]


def test_the_first_slot_of_a_cvrp_is_the_depots_and_what_does_not_fit_is_no_candidate():
    coords = torch.tensor([[[0.0, 0], [1, 0], [2, 0], [3, 0], [4, 0]]])
    instances = Instances(coords, torch.tensor([[0, 5, 4, 5, 1]]), torch.tensor([9]))
    starts = torch.tensor([[0]])
    for strict, expected in ((False, [0, 1, 3, 4]), (True, [0, 4, -1, -1])):
        solver = small_invit("cvrp", action_view=3, strict_capacity=strict)
        state = solver.rules.begin(instances, starts)
        assert solver.candidates(instances, state)[0, 0].tolist() == [0, 1, 2, 3]
        assert solver.decide(instances, starts, state)[0, 0, 0] == -torch.inf  # home, with customers left
        state = solver.rules.advance(instances, state, torch.tensor([[2]]))
        assert solver.candidates(instances, state)[0, 0].tolist() == expected


def test_of_places_equally_far_the_first_comes_first():
    square = torch.tensor([[[0.0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [0, 0]]])
    solver = small_invit("tsp", action_view=4)
    state = solver.rules.begin(Instances(square), torch.tensor([[0]]))
    assert solver.candidates(Instances(square), state)[0, 0].tolist() == [5, 1, 2, 3]


@given(problem=PROBLEMS, seed=st.integers(0, 99), side=st.integers(1, 3))
@settings(max_examples=20)
def test_places_that_coincide_and_ties_are_no_trouble(problem, seed, side):
    """All on a grid of at most three by three points, so most share their place and their distances."""
    instances = random_instances(problem, 2, 11, seed)
    instances = in_double(replace(instances, coords=(instances.coords * side).floor()))
    solver = small_invit(problem, seed).double()
    tours, log_prob = rollout(solver, instances, generator=dice(seed))
    assert log_prob.isfinite().all()
    values, gradient = differences(solver, instances, tours, log_prob, torch.ones_like(log_prob))
    assert values < 1e-9
    assert gradient < 1e-8
    referee(instances, solver.solve(instances))


def test_with_strict_capacity_no_route_is_full():
    instances = random_instances("cvrp", 4, 12, seed=3)
    instances = replace(instances, demands=instances.demands.clamp(max=9))
    loads = {}
    for strict in (True, False):
        solver = small_invit("cvrp", strict_capacity=strict, starts="all")
        tours = solver.solve(instances, generator=dice())
        referee(instances, tours)
        states = solver.rules.hindsight(instances, tours.actions)
        loads[strict] = int(states.load.min())
    assert loads == {True: 1, False: 0}


def test_with_strict_capacity_a_customer_that_fills_the_vehicle_stops_with_a_message():
    instances = random_instances("cvrp", 1, 4, seed=0, capacity=20)
    instances.demands[0, 2] = 20
    referee(instances, small_invit("cvrp").solve(instances))
    with pytest.raises(DreeError, match="equals it, which strict_capacity rules out"):
        small_invit("cvrp", strict_capacity=True).solve(instances)
    with pytest.raises(DreeError, match="equals it"):
        rollout(small_invit("cvrp", strict_capacity=True), instances)


def test_weights_that_are_no_numbers_stop_with_a_message(problem):
    instances, solver = random_instances(problem, 1, 5, seed=0), small_invit(problem)
    solver.network.pointer.weight.data.fill_(float("nan"))
    for generator in (None, dice()):
        if problem == "cvrp":
            with pytest.raises(DreeError, match="weights are no longer finite"):
                solver.solve(instances, generator=generator)
        else:
            assert solver.solve(instances, generator=generator).actions.shape == (1, 1, 5)


def test_tours_begin_at_the_depot_or_at_a_random_node_and_greedily_at_the_first(problem):
    instances, solver = random_instances(problem, 40, 6, seed=0), small_invit(problem)
    sampled, greedy = solver.solve(instances, generator=dice()).actions, solver.solve(instances).actions
    assert greedy[..., 0].unique().tolist() == [0]
    assert sampled[..., 0].unique().tolist() == ([0] if problem == "cvrp" else [0, 1, 2, 3, 4, 5])
    everywhere = small_invit(problem, starts="all").solve(instances).actions
    assert everywhere[..., 0].equal(solver.rules.starts(instances))


def test_a_seed_fixes_weights_and_samples(problem):
    instances = random_instances(problem, 3, 9, seed=0)
    one, other, third = (small_invit(problem, seed) for seed in (5, 5, 6))
    assert all(a.equal(b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert not one.network.pointer.weight.equal(third.network.pointer.weight)
    samples = [one.solve(instances, generator=dice(seed)).actions for seed in (1, 1, 2)]
    assert samples[0].equal(samples[1])
    assert samples[0].shape != samples[2].shape or not samples[0].equal(samples[2])


def test_sampling_follows_the_policy():
    """Chi-square of 20000 first decisions against the probabilities that `decide` gives."""
    instances, solver = random_instances("cvrp", 1, 5, seed=2), small_invit("cvrp", seed=3)
    starts = torch.full((1, 20_000), 2)
    tours = solver.solve(instances, starts, generator=dice())
    state = solver.rules.begin(instances, starts[:, :1])
    policy = solver.decide(instances, starts[:, :1], state).detach()[0, 0].exp()
    nodes = solver.candidates(instances, state)[0, 0]
    counts = torch.stack([(tours.actions[0, :, 1] == node).sum() for node in nodes])
    assert counts[policy == 0].sum() == 0
    expected = (policy * 20_000)[policy > 0]
    assert len(expected) == 5
    assert ((counts[policy > 0] - expected) ** 2 / expected).sum() < 20  # by chance once in 2000 times


def test_a_tour_that_no_slots_can_make_has_probability_nought():
    instances = Instances(torch.linspace(0, 1, 8)[None, :, None].expand(-1, -1, 2).contiguous())
    actions = torch.tensor([[[0, 7, 1, 2, 3, 4, 5, 6]]])
    tours = Tours(actions, torch.ones(1, 1))
    assert small_invit("tsp", action_view=3).score(instances, tours).per_tour.item() == -torch.inf
    assert small_invit("tsp", action_view=7, state_views=(7,)).score(instances, tours).per_tour.isfinite().all()


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_in_half_the_bits_tours_are_legal_and_log_probabilities_nearly_the_same(problem, low):
    instances, solver = random_instances(problem, 4, 12, seed=1), small_invit(problem)
    with torch.autocast("cpu", low):
        encoding = solver.encode(instances)
    tours = solver.solve(instances, generator=dice(), encoding=encoding)
    referee(instances, tours)
    coarse, exact = solver.score(instances, tours, encoding=encoding), solver.score(instances, tours)
    assert coarse.per_tour.dtype == torch.float32
    assert not coarse.per_tour.equal(exact.per_tour)
    torch.testing.assert_close(coarse.per_tour, exact.per_tour, rtol=0.03, atol=0.03)
    coarse.weighted.backward()
    assert all(each.grad.dtype == torch.float32 for each in solver.parameters())


def test_a_depot_that_is_far_from_all_else_is_no_trouble_in_half_the_bits():
    instances = random_instances("cvrp", 2, 6, seed=1)
    instances.coords[:, 1:] *= 1e-6
    solver = small_invit("cvrp")
    with torch.autocast("cpu", torch.float16):
        encoding = solver.encode(instances)
    tours = solver.solve(instances, encoding=encoding)
    assert solver.score(instances, tours, encoding=encoding).per_tour.isfinite().all()


@pytest.mark.parametrize("low", [None, torch.bfloat16])
def test_while_it_is_captured_nothing_is_asked_of_the_device(problem, low, monkeypatch):
    """On tensors without values: whatever depends on one is an error there."""
    monkeypatch.setattr(invit, "captured", lambda device: True)
    with FakeTensorMode():
        instances, solver = random_instances(problem, 3, 11, seed=0), small_invit(problem)
        encoding, starts = replace(solver.encode(instances), low=low), solver.starts(instances, dice())
        uniform = torch.rand(3, 1, 23)
        with torch.no_grad():
            rollout = solver._rollout(invit.Beginning(instances, starts, encoding, uniform), encoding.weights())
            rollout.step(11)
        tours = Tours(rollout.actions, solver.rules.cost(instances, rollout.actions))
        loss = solver.score(instances, tours, encoding=encoding).weighted
        loss = loss + solver.behave(instances, tours, encoding=encoding).exp().sum()
        gradients = torch.autograd.grad(loss, list(solver.parameters()), materialize_grads=True)
    assert [each.shape for each in gradients] == [each.shape for each in solver.parameters()]


@pytest.fixture
def captures(monkeypatch):
    """As on a CUDA device, but that steps are taken where they would be replayed. How often one was captured."""
    taken = []

    def capture(_, rollout):
        taken.append(rollout)
        rollout.step(rollout.instances.customers)  # as captures do, before the tours begin
        return partial(rollout.step, rollout.instances.customers)

    monkeypatch.setattr(INViT, "capturable", lambda self, nodes: True)
    monkeypatch.setattr(CapturedSteps, "_capture", capture)
    return taken


@pytest.mark.parametrize("greedy", [False, True])
def test_captured_steps_make_the_same_tours_also_of_other_instances_and_with_other_weights(problem, greedy, request):
    solver, batches = small_invit(problem), [random_instances(problem, 4, 9, seed=seed) for seed in range(3)]

    def solved():
        tours = []
        for number, instances in enumerate(batches):
            tours.append(solver.solve(instances, generator=None if greedy else dice(number)))
            with torch.no_grad():
                for weight in solver.parameters():
                    weight.copy_(torch.randn(weight.shape, generator=dice(number)) / 4)
        return tours

    first = copy.deepcopy(solver.state_dict())
    plain = solved()
    solver.load_state_dict(first)
    taken = request.getfixturevalue("captures")
    for ours, theirs in zip(solved(), plain, strict=True):
        assert solver.rules.trimmed(ours.actions).equal(solver.rules.trimmed(theirs.actions))
        torch.testing.assert_close(ours.costs, theirs.costs)
    assert len(taken) == 1


def test_what_differs_in_more_than_values_is_captured_by_itself(problem, captures):
    solver, instances = small_invit(problem), random_instances(problem, 4, 9, seed=0)
    with torch.autocast("cpu", torch.bfloat16):
        low = solver.encode(instances)
    for _ in range(2):
        solver.solve(instances)
        solver.solve(instances, generator=dice())
        solver.solve(instances[:3])
        solver.solve(random_instances(problem, 4, 8, seed=0))
        solver.solve(instances, encoding=low)
    assert len(captures) == 5


def test_a_copy_of_a_solver_captures_its_own_steps(problem, captures):
    solver, instances = small_invit(problem), random_instances(problem, 4, 9, seed=0)
    before = solver.solve(instances)
    other = copy.deepcopy(solver)
    with torch.no_grad():
        for weight in other.parameters():
            weight.copy_(torch.randn(weight.shape, generator=dice()) / 4)
    assert not other.solve(instances).costs.equal(before.costs)
    assert solver.solve(instances).actions.equal(before.actions)
    assert len(captures) == 2


def test_captured_tours_are_those_of_the_network_that_encoded(problem, captures):
    one, other = small_invit(problem), small_invit(problem, seed=1)
    instances = random_instances(problem, 4, 9, seed=0)
    assert one.solve(instances, encoding=other.encode(instances)).actions.equal(other.solve(instances).actions)


def test_captured_rollouts_that_were_not_used_for_longest_are_given_up(captures, monkeypatch):
    solver, sizes = small_invit("tsp"), (7, 8, 9)
    batches = {size: random_instances("tsp", 4, size, seed=0) for size in sizes}
    for size in sizes:
        solver.solve(batches[size])
    kept = [each.bytes for each in solver._captured_steps._captured.values()]
    assert len(kept) == 3
    monkeypatch.setattr(invit_rollout, "KEPT_BYTES", kept[0] + kept[2])
    for size, times in ((7, 3), (9, 3), (8, 4), (8, 4)):  # when 7 is used, 8 is the oldest and must go
        solver.solve(batches[size])
        assert len(captures) == times


def test_a_solver_that_has_captured_is_freed_at_once(problem, captures):
    solver = small_invit(problem)
    solver.solve(random_instances(problem, 4, 9, seed=0))
    captures.clear()
    gone = weakref.ref(solver)
    gc.disable()
    try:
        del solver
        assert gone() is None
    finally:
        gc.enable()


def test_a_solver_that_has_captured_can_be_pickled(problem, captures):
    solver, instances = small_invit(problem), random_instances(problem, 4, 9, seed=0)
    tours = solver.solve(instances)
    again = pickle.loads(pickle.dumps(solver))
    assert again.solve(instances).actions.equal(tours.actions)


def test_solving_within_captured_work_is_an_error(captures, monkeypatch):
    monkeypatch.setattr(invit_rollout, "captured", lambda device: True)
    with pytest.raises(RuntimeError, match="cannot be part of captured work"):
        small_invit("tsp").solve(random_instances("tsp", 4, 9, seed=0))


@pytest.mark.parametrize("captured", [False, True])
def test_tours_of_two_solvers_that_take_turns_are_those_of_each_alone(problem, captured, request):
    if captured:
        request.getfixturevalue("captures")
    instances, solvers = random_instances(problem, 4, 30, seed=0), [small_invit(problem), small_invit(problem, seed=1)]
    alone = [solver.solve(instances, generator=dice(1)) for solver in solvers]
    turns = []

    def noted(number):
        solving = solvers[number].solving(instances, generator=dice(1))
        while True:
            turns.append(number)
            try:
                yield next(solving)
            except StopIteration as ended:
                return ended.value

    together = taking_turns([noted(0), noted(1)], instances.device)
    for ours, theirs in zip(together, alone, strict=True):
        assert ours.actions.equal(theirs.actions)
        assert ours.costs.equal(theirs.costs)
    assert turns[:6] == [0, 1, 0, 1, 0, 1]


def test_captured_tours_of_one_solver_cannot_take_turns(problem, captures):
    solver, instances = small_invit(problem), random_instances(problem, 4, 9, seed=0)
    with pytest.raises(RuntimeError, match="cannot take turns") as kept:  # with all that was going on
        taking_turns([solver.solving(instances), solver.solving(instances)], instances.device)
    assert solver.solve(instances).actions.equal(copy.deepcopy(solver).solve(instances).actions)
    assert kept.tb is not None


@pytest.mark.parametrize("captured", [False, True])
def test_solving_computes_no_gradient_and_leaves_it_to_others_between_its_turns(problem, captured, request):
    if captured:
        request.getfixturevalue("captures")
    solver, instances, inside = small_invit(problem), random_instances(problem, 4, 30, seed=0), []
    solver.network.register_forward_pre_hook(lambda *_: inside.append(torch.is_grad_enabled()))
    for _ in solver.solving(instances, generator=dice()):
        assert torch.is_grad_enabled()
    assert inside
    assert not any(inside)


def test_captured_tours_are_looked_at_now_and_then_and_end_soon_after_the_last(captures, monkeypatch):
    solver, instances, steps = small_invit("cvrp"), random_instances("cvrp", 4, 30, seed=0), []
    step = invit_rollout.Rollout.step
    monkeypatch.setattr(invit_rollout.Rollout, "step", lambda *given: steps.append(given) or step(*given))
    actions = solver.solve(instances).actions
    needed = int(solver.rules.needed(actions))
    assert needed < solver.rules.longest(instances) - invit_rollout.AHEAD
    assert actions.shape[-1] == -(-needed // invit_rollout.AHEAD) * invit_rollout.AHEAD
    assert len(steps) == actions.shape[-1]  # the first action is given, and one step was taken to capture it


class InItsOwnWay:
    def solve(self, *given, **named):
        self.solved = getattr(self, "solved", 0) + 1
        return INViT.solve(self, *given, **named)


class OwnWay(INViT):
    solve = InItsOwnWay.solve


class Inherits(OwnWay):
    """Nothing of its own."""


class Mixed(InItsOwnWay, INViT):
    """What it is mixed with solves in its own way."""


@pytest.mark.parametrize("kind", [OwnWay, Inherits, Mixed])
def test_a_subclass_that_solves_in_its_own_way_is_asked_to_whoever_has_it_solve(problem, kind):
    solver, instances = kind(problem), random_instances(problem, 2, 5, seed=0)
    (tours,) = taking_turns([solver.solving(instances)], instances.device)
    assert solver.solved == 1
    assert tours.actions.equal(solver.solve(instances).actions)


def test_what_is_held_at_once_is_a_share_of_a_devices_memory(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=80 * 2**30))
    assert invit._chunk_bytes(torch.device("cuda", 0)) == 8 * 2**30
    assert invit._chunk_bytes(torch.device("cpu")) == 32 * 2**20
    invit._chunk_bytes.cache_clear()


@pytest.mark.parametrize("captured", [False, True])
def test_tours_that_never_end_are_an_error(captured, request):
    if captured:
        request.getfixturevalue("captures")
    instances, solver = random_instances("cvrp", 2, 5, seed=0), small_invit("cvrp", strict_capacity=True)
    instances.demands[:, 1:] = instances.capacity[:, None]
    with pytest.raises(DreeError, match="or equals it, which strict_capacity rules out"):
        solver.solve(instances, generator=dice())


def test_it_refuses_the_other_problem():
    with pytest.raises(DreeError, match="made for tsp, these instances are cvrp"):
        small_invit("tsp").solve(random_instances("cvrp", 1, 4, seed=0))


def test_behave_takes_one_tour_only(problem):
    instances, solver = random_instances(problem, 1, 4, seed=0), small_invit(problem, starts="all")
    with pytest.raises(ValueError, match="one tour per instance"):
        solver.behave(instances, solver.solve(instances))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"layers": 0}, "'layers' must be positive"),
        ({"clip": -1.0}, "'clip' must be positive"),
        ({"width": 10, "heads": 4}, "multiple of its heads"),
        ({"action_view": 1}, "nothing to decide"),
        ({"state_views": ()}, "at least as wide"),
        ({"state_views": (10,)}, "at least as wide as the action view, 15"),
        ({"starts": "al"}, "Did you mean 'all'"),
    ],
)
def test_settings_that_make_no_network_are_refused(wrong, message):
    with pytest.raises(DreeError, match=message):
        INViTSettings(**wrong)
