"""The kernels, run by Triton's interpreter, against the step-by-step twin."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import settings as example_settings
from hypothesis import strategies as st
from torch.nn import functional

pytest.importorskip("triton")

from conftest import random_instances, small_solver
from dree import kernels
from dree.errors import DreeError
from dree.kernels.attention import attend
from dree.kernels.layout import Layout, tiles
from dree.kernels.norm import residual_norm
from dree.lifelong.steps import padded
from dree.problems import Instances, State
from dree.problems.check import check_cvrp, check_tsp
from dree.solvers import kernel_decoder, kernel_gradients, kernel_imitation, pomo
from dree.solvers.kernel_decoder import KernelDecoder
from dree.solvers.pomo_twin import rollout
from dree.solvers.precision import in_precision
from remembered_steps import remembered_step
from replayed_operations import Operations

pytestmark = [
    pytest.mark.skipif(torch.cuda.is_available(), reason="`dree bench --check` does this on the device"),
    pytest.mark.filterwarnings("ignore:overflow encountered in exp2"),  # infinity is right, where the tangent is one
]


@pytest.fixture(autouse=True)
def _kernels(monkeypatch):
    monkeypatch.setattr(pomo, "kernels_serve", lambda *_: True)


def solver_of(problem, seed=0):
    return small_solver(problem, seed, width=32)


CUTS = st.sampled_from([(16,), (8, 8), (8, 2), (4, 4, 2)])  # of ten nodes into tiles


def cut_into(patch, tiles):
    """All kernels cut nodes into these tiles."""
    for module in (kernel_decoder, kernel_gradients, kernel_imitation):
        patch.setattr(module, "tiles", lambda _: tiles)


def gradients(solver, loss):
    gradients = torch.autograd.grad(loss, list(solver.parameters()), materialize_grads=True)
    return torch.cat([each.flatten() for each in gradients])


def refereed(instances, tours):
    """The costs of legal tours; an error, if one is not."""
    costs = torch.empty(tours.costs.shape)
    for row, actions in enumerate(tours.actions.tolist()):
        for column, tour in enumerate(actions):
            coords = instances.coords[row].numpy()
            if instances.demands is None:
                costs[row, column] = check_tsp(coords, tour)
            else:
                costs[row, column] = check_cvrp(coords, instances.demands[row], int(instances.capacity[row]), tour)
    return costs


@pytest.mark.parametrize("nodes", range(1, 257))
def test_tiles_are_powers_of_two_that_hold_all_nodes_and_little_more(nodes):
    cut = tiles(nodes)
    assert all(tile >= 16 and tile.bit_count() == 1 for tile in cut)
    spare = 16 if nodes <= 16 else 32 if 64 < nodes <= 96 else 64 if nodes > 128 else nodes
    assert 0 <= sum(cut) - nodes < spare
    assert sum(cut[:-1]) < nodes


@pytest.mark.parametrize(("customers", "cut"), [(2, None), (5, (4, 2)), (17, None), (17, (8, 8, 4))])
def test_greedy_tours_are_the_twins(problem, customers, cut, monkeypatch):
    if cut:
        cut_into(monkeypatch, cut)
    instances, solver = random_instances(problem, 2, customers, seed=customers), solver_of(problem)
    fast, (slow, _) = solver.solve(instances), rollout(solver, instances)
    length = slow.actions.shape[-1]
    assert torch.equal(fast.actions[..., :length], slow.actions)
    assert not fast.actions[..., length:].any()
    torch.testing.assert_close(fast.costs, slow.costs)


def test_in_half_the_bits_greedy_tours_are_legal_and_nearly_as_long(problem):
    instances, solver = random_instances(problem, 4, 9, seed=1), solver_of(problem)
    with torch.no_grad(), in_precision("fp16", instances.device, learning=False):
        encoding = solver.encode(instances)
    assert encoding.tensors[0].dtype == torch.float16
    tours = solver.solve(instances, encoding=encoding)
    torch.testing.assert_close(tours.costs, refereed(instances, tours))
    torch.testing.assert_close(tours.costs.mean(), solver.solve(instances).costs.mean(), rtol=0.01, atol=0)


@given(
    problem=st.sampled_from(["tsp", "cvrp"]),
    customers=st.integers(2, 9),
    capacity=st.integers(10, 40),
    rows=st.sampled_from([2, 4, 16]),
    cut=CUTS,
    seed=st.integers(0, 99),
)
@example_settings(max_examples=12)
def test_sampled_tours_are_legal_and_their_probability_and_gradient_are_the_twins(
    problem, customers, capacity, rows, cut, seed
):
    """Whatever the number of tours, states and nodes in a tile."""
    instances, solver = random_instances(problem, 2, customers, seed, capacity), solver_of(problem, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_decoder, "rollout_layout", lambda *_: Layout(rows, 1, 1))
        patch.setattr(kernel_gradients, "gradient_layout", lambda *_: Layout(2 * rows, 1, 1))
        cut_into(patch, cut)
        encoding = solver.encode(instances)
        assert isinstance(encoding, KernelDecoder)
        generator = torch.Generator().manual_seed(seed)
        tours = solver.solve(instances, generator=generator, encoding=encoding, record=True)
        torch.testing.assert_close(tours.costs, refereed(instances, tours))
        weights = torch.randn(tours.costs.shape)
        score = solver.score(instances, tours, weights, encoding=encoding)
        fast = gradients(solver, score.weighted)
    _, log_prob = rollout(solver, instances, forced=solver.rules.trimmed(tours.actions))
    torch.testing.assert_close(score.per_tour, log_prob.detach(), rtol=1e-4, atol=1e-4)
    slow = gradients(solver, (log_prob * weights).sum())
    assert (fast - slow).norm() <= 1e-4 * slow.norm() + 1e-5


@given(problem=st.sampled_from(["tsp", "cvrp"]), customers=st.integers(2, 9), cut=CUTS, seed=st.integers(0, 99))
@example_settings(max_examples=6)
def test_given_tours_are_scored_like_the_twins(problem, customers, cut, seed):
    instances, solver = random_instances(problem, 2, customers, seed), solver_of(problem, seed)
    tours, log_prob = rollout(solver, instances, generator=torch.Generator().manual_seed(seed))
    weights = torch.randn(tours.costs.shape)
    with pytest.MonkeyPatch.context() as patch:
        cut_into(patch, cut)
        score = solver.score(instances, tours, weights)
    torch.testing.assert_close(score.per_tour, log_prob.detach(), rtol=1e-4, atol=1e-4)
    fast, slow = gradients(solver, score.weighted), gradients(solver, (log_prob * weights).sum())
    assert (fast - slow).norm() <= 1e-4 * slow.norm() + 1e-5


def test_behaviour_and_its_gradient_are_those_of_the_other_decoders(problem, monkeypatch):
    instances, solver = random_instances(problem, 3, 6, seed=1), solver_of(problem)
    tours = solver.solve(instances, generator=torch.Generator().manual_seed(0)).best()
    results = []
    for by_kernel in (True, False):
        monkeypatch.setattr(pomo, "kernels_serve", lambda *_, serve=by_kernel: serve)
        behaviour = solver.behave(instances, tours)
        allowed = behaviour > -torch.inf
        results.append((behaviour.detach(), gradients(solver, behaviour[allowed].square().sum())))
    (ours, our_gradient), (theirs, their_gradient) = results
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    assert (our_gradient - their_gradient).norm() <= 1e-4 * their_gradient.norm()


def imitated(solver, teacher, instances, tours, *, precision="fp32", by_kernel=True):
    """The distance from a teacher of each tour, and its gradient. (The interpreter cannot multiply in bf16.)"""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pomo, "kernels_serve", lambda *_: by_kernel)
        with in_precision(precision, instances.device, learning=False):
            encodings = [each.encode(instances) for each in (solver, teacher)]
        assert isinstance(encodings[0], KernelDecoder) == by_kernel
        score = solver.imitate(instances, tours, encodings[1], encoding=encodings[0])
    torch.testing.assert_close(score.weighted.detach(), score.per_tour.sum())
    return score.per_tour, gradients(solver, score.weighted)


@given(
    problem=st.sampled_from(["tsp", "cvrp"]),
    customers=st.integers(2, 9),
    capacity=st.integers(10, 40),
    rows=st.sampled_from([2, 4, 16]),
    cut=CUTS,
    seed=st.integers(0, 99),
)
@example_settings(max_examples=12)
def test_the_distance_from_a_teacher_and_its_gradient_are_those_of_the_other_decoders(
    problem, customers, capacity, rows, cut, seed
):
    """Whatever the number of states and nodes in a tile. Tours of a CVRP are padded: some tiles lie after their end.

    No number that a kernel reads is left unwritten.
    """
    instances, solver = random_instances(problem, 2, customers, seed, capacity), solver_of(problem, seed)
    teacher = solver_of(problem, seed + 1)
    tours = solver.solve(instances, generator=torch.Generator().manual_seed(seed))
    theirs, their_gradient = imitated(solver, teacher, instances, tours, by_kernel=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_imitation, "rollout_layout", lambda *_: Layout(rows, 1, 1))
        cut_into(patch, cut)
        patch.setattr(torch, "empty", lambda *shape, **kind: torch.zeros(*shape, **kind).fill_(torch.nan))
        ours, our_gradient = imitated(solver, teacher, instances, tours)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert (our_gradient - their_gradient).norm() <= 1e-4 * their_gradient.norm() + 1e-6


class Unlaunched:
    """A kernel that does nothing."""

    def __getitem__(self, grid):
        return lambda *_, **__: None


def test_around_its_kernels_imitation_waits_for_nothing(problem, monkeypatch):
    """So it can be captured: no operation has a result that the host needs."""
    instances, solver = random_instances(problem, 2, 5, seed=0), solver_of(problem)
    tours = solver.solve(instances)
    encodings = [each.encode(instances) for each in (solver, solver_of(problem, 1))]
    monkeypatch.setattr(kernel_imitation, "imitation_kernel", Unlaunched())
    for name in ("gradient_kernel", "offset_gradient_kernel"):
        monkeypatch.setattr(kernel_gradients, name, Unlaunched())
    with Operations() as operations:
        solver.imitate(instances, tours, encodings[1], encoding=encodings[0])
    assert operations.done
    assert not operations.waits()


def test_in_half_the_bits_the_distance_from_a_teacher_is_nearly_the_same(problem):
    instances, solver, teacher = random_instances(problem, 3, 9, seed=1), solver_of(problem), solver_of(problem, seed=1)
    tours = solver.solve(instances, generator=torch.Generator().manual_seed(0))
    theirs, their_gradient = imitated(solver, teacher, instances, tours, by_kernel=False)
    ours, our_gradient = imitated(solver, teacher, instances, tours, precision="fp16")
    torch.testing.assert_close(ours, theirs, rtol=0.05, atol=0.01)
    assert functional.cosine_similarity(our_gradient, their_gradient, dim=0) > 0.98


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_policy_is_at_no_distance_from_itself(problem, precision):
    instances, solver = random_instances(problem, 2, 7, seed=3), solver_of(problem)
    tours = solver.solve(instances, generator=torch.Generator().manual_seed(0))
    distance, gradient = imitated(solver, solver, instances, tours, precision=precision)
    assert not distance.any()
    assert not gradient.any()


def test_a_teacher_of_another_size_is_imitated_too(problem):
    instances, solver, teacher = random_instances(problem, 2, 5, seed=1), solver_of(problem), small_solver(problem)
    tours = solver.solve(instances, generator=torch.Generator().manual_seed(0))
    (ours, _), (theirs, _) = (imitated(solver, teacher, instances, tours, by_kernel=each) for each in (True, False))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("generator", [None, torch.Generator()])
def test_a_tour_that_does_not_end_is_an_error(generator, monkeypatch):
    impossible = Instances(torch.rand(1, 3, 2), torch.tensor([[0, 1, 9]]), torch.tensor([5]))
    starts = torch.ones(1, 1, dtype=torch.int64)
    monkeypatch.setattr(kernel_decoder, "rollout_layout", lambda *_: Layout(1, 1, 1))
    with pytest.raises(DreeError, match="A tour does not end"):
        solver_of("cvrp").solve(impossible, starts, generator=generator)


@pytest.mark.filterwarnings("ignore")
def test_weights_that_are_no_numbers_are_an_error(problem):
    solver = solver_of(problem)
    solver.key.weight.data.fill_(torch.nan)
    with pytest.raises(DreeError, match="A tour does not end"):
        solver.solve(random_instances(problem, 1, 4, seed=0))


@pytest.mark.parametrize("cut", [(16,), (2, 2)])
def test_actions_are_sampled_with_their_probabilities(problem, cut, monkeypatch):
    """Chi-square over whole tours, many of one instance."""
    count = 4096
    cut_into(monkeypatch, cut)
    monkeypatch.setattr(kernel_decoder, "rollout_layout", lambda *_: Layout(count, 1, 1))
    one, solver = random_instances(problem, 1, 3, seed=2, capacity=12), solver_of(problem)
    starts = torch.ones(1, count, dtype=torch.int64)
    tours = solver.solve(one, starts, generator=torch.Generator().manual_seed(1)).actions[0]
    kinds, seen = tours.unique(dim=0, return_counts=True)
    _, log_prob = rollout(solver, one, forced=kinds[None])
    expected = count * log_prob[0].exp()
    assert len(kinds) > 1
    torch.testing.assert_close(expected.sum(), torch.tensor(float(count)), rtol=0.01, atol=0)
    common = expected > 5
    assert ((seen - expected).square() / expected)[common].sum() < 3 * common.sum() + 10


@pytest.mark.parametrize("nodes", [5, 16, 21])
def test_attention_is_the_librarys_with_its_gradient(nodes):
    joint = torch.randn(2, nodes, 48).requires_grad_()
    query, key, value = (part.view(2, nodes, 2, 8).transpose(1, 2) for part in joint.chunk(3, dim=-1))
    library = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
    ours = attend(joint, 2)
    torch.testing.assert_close(ours, library)
    upstream = torch.randn_like(ours)
    (expected,) = torch.autograd.grad(library, joint, upstream)
    torch.testing.assert_close(torch.autograd.grad(ours, joint, upstream)[0], expected)


def test_the_norm_is_the_librarys_with_its_gradient():
    inputs = [torch.randn(3, 21, 40), torch.randn(3, 21, 40), torch.randn(40), torch.randn(40)]
    x, y, gain, bias = (each.requires_grad_() for each in inputs)
    library = functional.instance_norm((x + y).transpose(1, 2), weight=gain, bias=bias).transpose(1, 2)
    ours = residual_norm(x, y, gain, bias)
    torch.testing.assert_close(ours, library)
    upstream = torch.randn_like(ours)
    expected = torch.autograd.grad(library, [x, y, gain, bias], upstream)
    torch.testing.assert_close(torch.autograd.grad(ours, [x, y, gain, bias], upstream), expected, rtol=1e-4, atol=1e-4)


def test_attention_and_norm_of_padded_instances_are_those_of_their_real_nodes():
    sizes = torch.tensor([2, 21, 16], dtype=torch.int32)
    joint, x, y = (torch.randn(3, 21, width) for width in (48, 40, 40))
    gain, bias = torch.randn(40), torch.randn(40)
    for each in (joint, x, y):
        each.masked_fill_(torch.arange(21)[:, None] >= sizes[:, None, None], 1e3)
    inputs = [each.requires_grad_() for each in (joint, x, y, gain, bias)]
    together = attend(joint, 2, sizes), residual_norm(x, y, gain, bias, sizes)
    assert all(each.isfinite().all() for each in together)
    alone = [
        (attend(joint[[row], :size], 2)[0], residual_norm(x[[row], :size], y[[row], :size], gain, bias)[0])
        for row, size in enumerate(sizes.tolist())
    ]
    upstream = [torch.randn_like(each) for each in together]
    ours, theirs = [], []
    for row, parts in enumerate(alone):
        for whole, part, weight in zip(together, parts, upstream, strict=True):
            ours.append((whole[row, : len(part)] * weight[row, : len(part)]).sum())
            theirs.append((part * weight[row, : len(part)]).sum())
            torch.testing.assert_close(whole[row, : len(part)], part)
    fast, slow = (torch.autograd.grad(sum(each), inputs) for each in (ours, theirs))
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-4)


@given(
    problem=st.sampled_from(["tsp", "cvrp"]),
    sizes=st.lists(st.integers(2, 17), min_size=2, max_size=3),
    seed=st.integers(0, 99),
)
@example_settings(max_examples=6)
def test_decisions_on_padded_instances_and_their_gradient_are_those_on_each_size_alone(problem, sizes, seed):
    """All kernels of encoder and decoder; against the plain path."""
    solver = solver_of(problem, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pomo, "kernels_serve", lambda *_: False)
        steps = [remembered_step(solver, size, seed + size, batch=1) for size in sizes]
        alone = [solver.decide(step.instances, step.starts, step.state).exp() for step in steps]
    instances, (nodes, starts, _, _, *state) = padded(steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "serve", lambda *_: True)
        encoding = solver.encode_padded(instances, nodes)
        assert isinstance(encoding, KernelDecoder)
        together = solver.decide(instances, starts, State(*state), encoding=encoding).exp()
    assert together.isfinite().all()
    weights, expected = torch.randn(together.shape), 0.0
    for row, chances in enumerate(alone):
        _, tours, count = chances.shape
        torch.testing.assert_close(together[[row], :tours, :count], chances, rtol=1e-4, atol=1e-5)
        expected = expected + (chances * weights[row, :tours, :count]).sum()
    fast, slow = gradients(solver, (together * weights).sum()), gradients(solver, expected)
    assert (fast - slow).norm() <= 1e-4 * slow.norm() + 1e-5


def test_no_kernel_has_minus_zero_as_a_number():
    """The compiler makes a plain zero of it, and the interpreter does not: no other test would see that."""
    sources = [path.read_text() for path in Path(kernels.__file__).parent.glob("*.py")]
    assert len(sources) > 5
    assert not any("-0.0" in source for source in sources)
