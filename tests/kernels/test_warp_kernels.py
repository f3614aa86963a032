"""The kernels in CUDA C++, run on the CPU by an emulator, against double precision along the same tours."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import torch

pytest.importorskip("triton")

from emulated import FOLDER, KernelError, emulated, needs_compiler

from conftest import random_instances
from dree import cuda
from dree.errors import DreeError
from dree.problems import rules
from dree.problems.check import check_tours
from dree.solvers import kernel_decoder, make_solver, pomo, warp_rollout
from dree.solvers.decoding import GlimpseDecoder
from dree.solvers.kernel_decoder import KernelDecoder
from dree.solvers.pomo import _view
from dree.solvers.precision import in_precision
from dree.solvers.warp_rollout import HEADS, WIDTH, WarpTape, recorded_rollout, serves

pytestmark = needs_compiler

LOG2_E = 1.4426950408889634
PARTS = ("last", "key", "value", "pointer", "start")


@cache
def kernel(source, name, **defines):
    return SimpleNamespace(launch=partial(emulated(FOLDER / source, defines).launch, name))


def unset(make):
    """Memory that holds no numbers, or large ones, before it is set."""
    return lambda *shape, **kind: (made := make(*shape, **kind)).fill_(torch.nan if made.is_floating_point() else 10**6)


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch):
    monkeypatch.setattr(cuda, "kernel", kernel, raising=False)
    monkeypatch.setattr(cuda, "serve", lambda _: True, raising=False)
    for owner, name in ((torch, "empty"), (torch, "empty_like"), (torch.Tensor, "new_empty")):
        monkeypatch.setattr(owner, name, unset(getattr(owner, name)))


def nodes_like(problem, nodes, batch=2, seed=0, *, query=0.5, key=0.5, pointer=0.3, offset=1.0):
    """Instances and what a decoder knows of them, at random."""
    instances = random_instances(problem, batch, nodes - (problem == "cvrp"), seed)
    spread = torch.tensor([query, key, 1.0, pointer, query])[: 4 if problem == "cvrp" else 5, None]
    packed = (torch.randn(batch, nodes, len(spread), WIDTH) * spread).bfloat16()
    load_query = query * torch.randn(1, 1, WIDTH).expand(batch, -1, -1).contiguous()
    return instances, (packed, load_query, offset * torch.randn(batch, nodes))


def rollout(instances, tensors, starts=None, *, seed=0, clip=10.0, longest=None):
    law = rules(instances.problem)
    starts = law.starts(instances) if starts is None else starts
    longest = law.longest(instances) if longest is None else longest
    return recorded_rollout(tensors, instances, starts, longest, clip, torch.Generator().manual_seed(seed))


@cache
def case(problem, nodes, tours=None):
    """Tours of two instances, by default one from each customer, otherwise some from any."""
    torch.manual_seed(nodes)
    instances, tensors = nodes_like(problem, nodes)
    tape = rollout(instances, tensors, None if tours is None else torch.randint(1, nodes, (2, tours)))
    model, alive = Model(instances, tensors, tape.actions), alive_on(tape)
    return SimpleNamespace(instances=instances, tensors=tensors, tape=tape, alive=alive, model=model)


def low(numbers):
    return numbers.bfloat16().double()


class Model:
    """What the kernels compute at all states [B, P, S], in double precision, rounded to bf16 where they do that."""

    def __init__(self, instances, tensors, actions, clip=10.0):
        packed, load_query, offset = (each.double() for each in tensors)
        self.groups = [group.unflatten(-1, (HEADS, -1)) for group in packed.unbind(2)]
        last, self.key, self.value, self.pointer = self.groups[:4]
        self.state = rules(instances.problem).hindsight(instances, actions)
        self.starts, self.rows = actions[..., 0], torch.arange(len(packed))[:, None, None]
        self.allowed = ~self.state.blocked
        query = last[self.rows, self.state.current]
        if instances.demands is None:
            query = query + self.groups[4][self.rows[..., 0], self.starts][:, :, None]
        else:
            self.share = (self.state.load / instances.capacity[:, None, None]).double()
            query = query + self.share[..., None, None] * load_query[:, :, None].unflatten(-1, (HEADS, -1))
        self.query = low(query * LOG2_E)
        match = torch.einsum("bpshw,bnhw->bpshn", self.query, self.key)
        self.match = match.masked_fill(~self.allowed[..., None, :], -torch.inf)
        plain = self.match.exp2().sum(-1)
        self.extreme = (plain < 1e-30) | (plain > 1e30)
        highest = self.match.amax(-1).where(self.extreme, 0.0)
        attention = low((self.match - highest[..., None]).exp2())
        total = attention.sum(-1)
        self.logsum = highest + total.log2()
        self.read = low(torch.einsum("bpshn,bnhw->bpshw", attention, self.value) / total[..., None])
        score = offset[:, None, None] + torch.einsum("bpshw,bnhw->bpsn", self.read, self.pointer)
        self.score = score.requires_grad_()
        logits = (clip * self.score.tanh()).masked_fill(~self.allowed, -torch.inf)
        self.chosen = logits.log_softmax(-1).gather(-1, actions[..., 1:, None]).squeeze(-1)
        (self.given,) = torch.autograd.grad(self.chosen.sum(), self.score)

    def gradient(self, tape, weights):
        """Of a weighted sum, from what is on the tape: for each group of nodes, the load query and the offset."""
        alive = alive_on(tape)
        given = tape.gradient[..., : self.score.shape[-1]].double().where(alive[..., None], 0.0)
        read = tape.attended.double().where(alive[..., None], 0.0).unflatten(-1, (HEADS, -1))
        logsum = tape.logsum.double().where(alive[..., None], 0.0)
        weight = weights.double()[:, :, None, None, None]
        upstream = torch.einsum("bpsn,bnhw->bpshw", given, self.pointer) * weight
        change = torch.einsum("bpshw,bnhw->bpshn", low(upstream), self.value) - (read * upstream).sum(-1, keepdim=True)
        attention = low((self.match - logsum[..., None]).exp2()).where(alive[..., None, None], 0.0)
        to_match = low(attention * low(change))
        to_query = torch.einsum("bpshn,bnhw->bpshw", to_match, self.key)
        zero = torch.zeros_like(self.key)
        parts = [
            zero.index_put((self.rows, self.state.current), to_query, accumulate=True),
            torch.einsum("bpshn,bpshw->bnhw", to_match, self.query) / LOG2_E,
            torch.einsum("bpshn,bpshw->bnhw", attention, low(upstream)),
            torch.einsum("bpsn,bpshw->bnhw", given, low(read * weight)),
        ]
        to_load = None
        if len(self.groups) > 4:
            parts.append(zero.index_put((self.rows[..., 0], self.starts), to_query.sum(2), accumulate=True))
        else:
            to_load = (self.share[..., None, None] * to_query).sum((1, 2)).flatten(1)[:, None]
        return low(torch.stack(parts, 2).flatten(3)), to_load, (given * weight[..., 0]).sum((1, 2))


def alive_on(tape):
    """Which of the decisions [B, P, S] are before a tour's end."""
    return torch.arange(tape.actions.shape[-1] - 1) < (tape.lengths - 1)[..., None]


def exact_log_prob(instances, tensors, actions, clip=10.0):
    """Of each tour, by the decoder that has no kernels; with gradient for tensors in double precision."""
    score, blocked = exact_scores(instances, tensors, actions)
    policy = (clip * score.tanh()).masked_fill(blocked, -torch.inf).log_softmax(-1)
    return policy.gather(-1, actions[..., 1:, None]).squeeze(-1).sum(-1)


def exact_scores(instances, tensors, actions):
    """At all states, and which nodes are blocked there: [B, P, S, N]."""
    state, decoder = rules(instances.problem).hindsight(instances, actions), GlimpseDecoder(HEADS, tensors)
    share, mask = _view(instances, state, torch.float64)
    score = decoder.scores(state.current.flatten(1), decoder.context(actions[..., 0]), share, mask)
    return score.view(state.blocked.shape), state.blocked


def named(gradients):
    """Those that there are, group by group."""
    packed, load_query, offset = gradients
    parts = dict(zip(PARTS, packed.double().unbind(2), strict=False)) | {"offset": offset.double()}
    if packed.shape[2] == 4:
        parts["load"] = load_query.double().sum(0)  # only the sum over instances counts
    return parts


def assert_near(ours, theirs, relative, absolute=1e-6):
    """By the distance, part by part."""
    theirs = named(theirs)
    for name, part in named(ours).items():
        assert (part - theirs[name]).norm() < relative * theirs[name].norm() + absolute, name


def assert_same(ours, theirs):
    assert all(map(torch.equal, ours, theirs))


def refereed(instances, tape):
    """An error, unless all are whole tours whose lengths are right."""
    tours = tape.actions.shape[1]
    coords, *limits = (each if each is None else each.repeat_interleave(tours, 0) for each in vars(instances).values())
    check_tours(coords, tape.actions.flatten(0, 1), *limits)
    if instances.demands is None:
        assert (tape.lengths == instances.nodes).all()
    else:
        places = torch.arange(2, tape.actions.shape[-1] + 2)
        assert torch.equal(tape.lengths.long(), ((tape.actions != 0) * places).amax(-1))


CASES = [
    *((problem, nodes, None) for problem in ("tsp", "cvrp") for nodes in (2, 3, 15, 16, 17, 32, 33)),
    ("tsp", 9, 1),
    ("tsp", 20, 30),
    ("tsp", 112, 18),
    ("cvrp", 5, 1),
    ("cvrp", 36, 17),
    ("cvrp", 128, 15),
]
cases = pytest.mark.parametrize("chosen", CASES, ids=lambda chosen: "-".join(map(str, filter(None, chosen))))


@cases
def test_sampled_tours_are_legal_and_their_lengths_are_right(chosen):
    """Whatever the numbers of nodes and tours; those of a CVRP do not end together."""
    made = case(*chosen)
    refereed(made.instances, made.tape)
    if chosen[0] == "cvrp" and chosen[1] >= 15:
        assert len(made.tape.lengths.unique()) > 1
        assert (made.tape.lengths < made.tape.actions.shape[-1]).all()


@cases
def test_what_a_rollout_records_is_that_of_a_model_which_rounds_where_the_kernel_does(chosen):
    """But for a bit here and there, where sums in another order are rounded to the other side."""
    made = case(*chosen)
    tape, model, alive = made.tape, made.model, made.alive
    read = model.read.flatten(3)[alive]
    assert (tape.attended[alive] - read).norm() < 5e-4 * read.norm()
    torch.testing.assert_close(tape.logsum[alive].double(), model.logsum[alive], rtol=0, atol=0.015)
    if chosen[0] == "cvrp":
        torch.testing.assert_close(tape.loads[alive].double(), model.share[alive], rtol=2e-7, atol=0)
    log_prob = (model.chosen.detach() * alive).sum(-1)
    torch.testing.assert_close(tape.log_prob.double(), log_prob, rtol=2e-4, atol=0.03)
    given = low(model.given[alive])
    assert (tape.gradient[..., : made.instances.nodes][alive] - given).norm() < 4e-3 * given.norm() + 1e-5


@cases
def test_the_tape_has_minus_zero_where_a_node_is_blocked_and_no_zero_elsewhere(chosen):
    made = case(*chosen)
    given = made.tape.gradient[made.alive]
    blocked = torch.ones(given.shape, dtype=torch.bool)
    blocked[:, : made.instances.nodes] = ~made.model.allowed[made.alive]
    assert torch.equal(given == 0, blocked)
    assert given[blocked].signbit().all()


@cases
def test_gradients_are_those_of_a_model_which_rounds_where_the_kernels_do(chosen):
    made = case(*chosen)
    weights = torch.randn(made.tape.log_prob.shape)
    log_prob, ours = made.tape.score(weights)
    assert torch.equal(log_prob, made.tape.log_prob)
    theirs = made.model.gradient(made.tape, weights)
    assert_near(ours, theirs, 2e-3)
    torch.testing.assert_close(ours[2].double(), theirs[2], rtol=1e-4, atol=3e-4)


@cases
def test_log_probabilities_and_gradients_are_nearly_those_of_the_decoder_in_double_precision(chosen):
    made = case(*chosen)
    exact = tuple(each.double().requires_grad_() for each in made.tensors)
    log_prob = exact_log_prob(made.instances, exact, made.tape.actions)
    assert (made.tape.log_prob - log_prob).abs().max() < 0.09 * made.tape.lengths.max() ** 0.5
    weights = torch.randn(log_prob.shape)
    _, ours = made.tape.score(weights)
    theirs = torch.autograd.grad((log_prob * weights).sum(), exact, materialize_grads=True)
    whole = max(part.norm() for part in named(theirs).values())
    assert_near(ours, theirs, 0.08, 1e-3 * whole + 1e-4)


large = pytest.mark.parametrize("chosen", [("tsp", 33), ("cvrp", 33)], ids=["tsp", "cvrp"])


@large
def test_a_gradient_is_linear_in_the_weights(chosen):
    """To the last bit for a power of two and for nothing, and nearly for a sum."""
    tape = case(*chosen).tape
    first, second = torch.randn(2, *tape.log_prob.shape)
    ours, others, both = (tape.score(weights)[1] for weights in (first, second, first + second))
    assert_same(tape.score(-4 * first)[1], [-4 * each for each in ours])
    assert not any(each.any() for each in tape.score(torch.zeros_like(first))[1])
    assert_near([one.double() + other for one, other in zip(ours, others, strict=True)], both, 0.01)


@large
def test_a_gradient_depends_on_neither_other_instances_nor_tours_of_no_weight_nor_their_order(chosen):
    tape = case(*chosen).tape
    weights, few = torch.randn(tape.log_prob.shape), torch.randperm(tape.log_prob.shape[1])[:19]

    def only(rows, tours):
        kept = {name: each[rows][:, tours] for name, each in vars(tape).items() if name not in ("tensors", "loads")}
        loads = tape.loads if tape.loads.ndim == 1 else tape.loads[rows][:, tours]
        return WarpTape(tensors=tuple(each[rows] for each in tape.tensors), loads=loads, **kept)

    whole = tape.score(weights)[1]
    for row in (slice(1), slice(1, 2)):
        assert_same(only(row, slice(None)).score(weights[row])[1], [each[row] for each in whole])
    weightless = torch.zeros_like(weights)
    weightless[:, few] = weights[:, few]
    assert_near(only(slice(None), few).score(weights[:, few])[1], tape.score(weightless)[1], 3e-3)


def test_what_lies_behind_a_tours_end_does_not_count():
    made = case("cvrp", 33)
    weights = torch.randn(made.tape.log_prob.shape)
    assert made.tape.gradient[~made.alive].isnan().all()  # none of it was written
    results = []
    for garbage in (torch.nan, torch.inf, 0.0):
        spoilt = {name: getattr(made.tape, name).clone() for name in ("gradient", "attended", "logsum", "loads")}
        for each in spoilt.values():
            each[~made.alive] = garbage
        results.append(replace(made.tape, **spoilt).score(weights)[1])
    assert all(each.isfinite().all() for each in results[0])
    assert_same(results[0], results[2])
    assert_same(results[1], results[2])


@pytest.mark.parametrize("shift", [0.0, -5.0])
def test_exponentials_beyond_the_range_of_floats_are_taken_again(problem, shift):
    """Attention scores of hundreds, or of hundreds below zero, all of them."""
    size = 1.0 if shift else 5.0
    instances, tensors = nodes_like(problem, 20, query=size, key=size)
    tensors[0][:, :, 0] += shift
    tensors[0][:, :, 1] -= shift
    tape = rollout(instances, tensors)
    refereed(instances, tape)
    model, alive = Model(instances, tensors, tape.actions), alive_on(tape)
    assert model.extreme[alive].double().mean() > 0.1
    torch.testing.assert_close(tape.logsum[alive].double(), model.logsum[alive], rtol=1e-5, atol=0.01)
    log_prob = (model.chosen.detach() * alive).sum(-1)
    torch.testing.assert_close(tape.log_prob.double(), log_prob, rtol=0.01, atol=0.05)
    weights = torch.randn(log_prob.shape)
    assert_near(tape.score(weights)[1], model.gradient(tape, weights), 0.01)


@pytest.mark.parametrize("clip", [10.0, 20.0])
def test_scores_beyond_the_clip_have_a_tiny_gradient_that_is_not_zero(clip):
    instances, tensors = nodes_like("tsp", 16, offset=100)
    tape = rollout(instances, tensors, clip=clip)
    refereed(instances, tape)
    model = Model(instances, tensors, tape.actions, clip)
    torch.testing.assert_close(tape.log_prob.double(), model.chosen.detach().sum(-1), rtol=1e-4, atol=1e-4)
    assert torch.equal(tape.gradient == 0, ~model.allowed)
    assert (model.allowed & (model.given.abs() < 1e-30)).any()
    assert (tape.gradient - model.given).norm() < 3e-3 * model.given.norm() + 1e-6


@pytest.mark.parametrize("wrong", ["nodes", "offset"])
def test_weights_that_are_no_numbers_make_no_sound_tours(problem, wrong):
    instances, tensors = nodes_like(problem, 6)
    tensors[0 if wrong == "nodes" else 2][1] = torch.nan
    tape = rollout(instances, tensors)
    refereed(instances[:1], replace(tape, actions=tape.actions[:1], lengths=tape.lengths[:1]))
    assert not tape.lengths[1].any()
    assert not tape.log_prob[1].isfinite().any()
    assert all(each[0].isfinite().all() for each in tape.score(torch.ones_like(tape.log_prob))[1])


def test_a_demand_over_the_capacity_makes_no_sound_tours():
    """Of that instance, which have no gradient."""
    instances, tensors = nodes_like("cvrp", 6)
    instances.demands[1, 5] = 21
    tape = rollout(instances, tensors, torch.arange(1, 5).expand(2, -1))
    assert (tape.lengths[0] > 0).all()
    assert not tape.lengths[1].any()
    assert not tape.log_prob[1].isfinite().any()
    _, gradients = tape.score(torch.ones_like(tape.log_prob))
    assert all(each.isfinite().all() and each[0].any() and not each[1].any() for each in gradients)


def again_and_again(count, problem, nodes):
    """One instance, with a policy that is rather undecided, and what a decoder knows of it, so many times."""
    instances, tensors = nodes_like(problem, nodes, 1, seed=2, pointer=0.02, offset=0.05)
    rows = torch.zeros(count, dtype=torch.int64)
    return instances[rows], [each[rows] for each in tensors]


def assert_plausible(seen, chances):
    """A chi-square below what it exceeds with a probability of a millionth (Laurent and Massart, 2000)."""
    expected = seen.sum() * chances.double()
    assert not seen[chances == 0].any()
    common = expected > 5
    kinds = common.sum()
    assert kinds > 6
    assert ((seen - expected).square() / expected)[common].sum() < kinds + 2 * (14 * kinds) ** 0.5 + 28


def test_tours_are_sampled_with_their_probabilities(problem):
    """Whole ones, many of one instance."""
    instances, tensors = again_and_again(256, problem, 5)
    tours = rollout(instances, tensors, torch.ones(256, 16, dtype=torch.int64)).actions.flatten(0, 1)
    kinds, seen = tours.unique(dim=0, return_counts=True)
    chances = Model(instances[:1], [each[:1] for each in tensors], kinds[None]).chosen.detach()[0].sum(-1).exp()
    assert abs(chances.sum() - 1) < 0.01
    assert_plausible(seen, chances)


def test_instances_and_tours_draw_their_own_numbers():
    """The first decisions of 48 tours of 128 times the same instance: their frequencies, and how often two agree."""
    instances, tensors = again_and_again(128, "cvrp", 40)
    actions = rollout(instances, tensors, torch.full((128, 48), 7), longest=2).actions[..., 1]
    model = Model(instances[:1], [each[:1] for each in tensors], torch.tensor([[[7, *range(7), *range(8, 40)]]]))
    chances = (10 * model.score.tanh()).masked_fill(~model.allowed, -torch.inf).softmax(-1)[0, 0, 0].detach()
    assert_plausible(actions.flatten().bincount(minlength=40), chances)
    agree = chances.square().sum()
    for dimension, distance in [(0, 1), (0, 5), (1, 1), (1, 4), (1, 8), (1, 16), (1, 32)]:
        share = (actions == actions.roll(distance, dimension)).double().mean()
        assert abs(share - agree) < 6 * (agree / actions.numel()) ** 0.5, (dimension, distance)


def test_a_seed_decides_all(problem):
    instances, tensors = nodes_like(problem, 20)
    first, again, other = (rollout(instances, tensors, seed=seed) for seed in (1, 1, 2))
    alone = rollout(instances[:1], [each[:1] for each in tensors], seed=1)
    alive = alive_on(first)
    for name, each in vars(first).items():
        if name in ("gradient", "attended", "logsum"):
            assert torch.equal(each[alive], getattr(again, name)[alive])
            assert torch.equal(each[:1][alive[:1]], getattr(alone, name)[alive[:1]])
        elif name in ("actions", "log_prob", "lengths"):
            assert torch.equal(each, getattr(again, name))
            assert torch.equal(each[:1], getattr(alone, name))
    assert not (first.actions == other.actions).all(-1).any()


def test_kernels_serve_only_what_they_were_made_for(monkeypatch):
    nodes = torch.zeros(1, 100, 5, WIDTH, dtype=torch.bfloat16)
    assert serves(nodes, HEADS, 112, 10.0)
    assert serves(nodes.new_zeros(1, 128, 4, WIDTH), HEADS, 128, 10)
    too_many = nodes.new_zeros(1, 129, 5, WIDTH)
    for others in (nodes.float(), nodes.half(), nodes[..., :64], too_many):
        assert not serves(others, HEADS, 100, 10.0)
    assert not serves(nodes, 4, 100, 10.0)
    assert not serves(nodes, HEADS, 113, 10.0)
    assert not serves(nodes, HEADS, 100, 9.5)
    for others in (nodes, nodes.half()):
        assert serves(others, HEADS, 1000, 10.0, record=False)
    for others in (nodes.float(), too_many):
        assert not serves(others, HEADS, 100, 10.0, record=False)
    monkeypatch.setattr(cuda, "serve", lambda _: False)
    assert not serves(nodes, HEADS, 100, 10.0)


@pytest.fixture
def encoded(problem, monkeypatch):
    """A solver of the size that is served, instances and their encoding in bf16."""
    monkeypatch.setattr(pomo, "kernels_serve", lambda *_: True)
    solver, instances = make_solver(problem, settings={"layers": 1}), random_instances(problem, 2, 7, seed=0)
    with in_precision("bf16", instances.device, learning=True):
        return solver, instances, solver.encode(instances)


def test_a_solver_learns_by_these_kernels(encoded):
    solver, instances, encoding = encoded
    assert isinstance(encoding, KernelDecoder)
    tours = solver.solve(instances, generator=torch.Generator().manual_seed(0), encoding=encoding, record=True)
    tape = encoding.recorded[1]
    assert isinstance(tape, WarpTape)
    refereed(instances, tape)
    weights = torch.randn(tours.costs.shape)
    score = solver.score(instances, tours, weights, encoding=encoding)
    ours = torch.autograd.grad(score.weighted, list(solver.parameters()), materialize_grads=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pomo, "kernels_serve", lambda *_: False)
        exact = solver.score(instances, tours, weights)
    theirs = torch.autograd.grad(exact.weighted, list(solver.parameters()), materialize_grads=True)
    torch.testing.assert_close(score.per_tour, exact.per_tour, rtol=0.02, atol=0.1)
    ours, theirs = (torch.cat([each.flatten() for each in gradients]) for gradients in (ours, theirs))
    assert torch.nn.functional.cosine_similarity(ours, theirs, dim=0) > 0.998


def test_other_rollouts_go_another_way(encoded, monkeypatch):
    """Greedy ones that are recorded, those with an odd clip, and those in single precision."""
    solver, instances, encoding = encoded
    ways = []
    launched = MagicMock()
    launched.__getitem__.return_value = lambda *_, **__: ways.append("other")
    monkeypatch.setattr(kernel_decoder, "rollout_kernel", launched)
    monkeypatch.setattr(warp_rollout, "recorded_rollout", lambda *_: ways.append("recorded") or MagicMock())
    monkeypatch.setattr(warp_rollout, "rollout", lambda *_: ways.append("ours") or (None, torch.ones(1)))
    monkeypatch.setattr(kernel_decoder, "_check_ended", lambda _: None)
    starts, longest, generator = solver.starts(instances), solver.rules.longest(instances), torch.Generator()
    encoding.rollout(instances, starts, longest, 10.0, generator, record=True)
    encoding.rollout(instances, starts, longest, 10.0, generator, record=False)
    encoding.rollout(instances, starts, longest, 10.0, None, record=True)
    encoding.rollout(instances, starts, longest, 10.0, None, record=False)
    encoding.rollout(instances, starts, longest, 9.5, generator, record=True)
    for record in (True, False):
        encoding.map(torch.Tensor.float).rollout(instances, starts, longest, 10.0, generator, record=record)
    assert ways == ["recorded", "ours", "other", "ours", *["other"] * 3]


def unrecorded(instances, tensors, starts=None, generator=None):
    law = rules(instances.problem)
    starts = law.starts(instances) if starts is None else starts
    actions, lengths = warp_rollout.rollout(tensors, instances, starts, law.longest(instances), 10.0, generator)
    return SimpleNamespace(actions=actions, lengths=lengths)


def assert_best(instances, tensors, tours, within):
    """Of the allowed nodes each decision takes one that is hardly worse than the best, and mostly that one."""
    score, blocked = exact_scores(instances, [each.double() for each in tensors], tours.actions)
    score = score.clamp(max=9.011)  # where the hyperbolic tangent is one
    taken = score.gather(-1, tours.actions[..., 1:, None]).squeeze(-1)
    best, which = score.masked_fill(blocked, -torch.inf).max(-1)
    alive = alive_on(tours)
    assert (best - taken)[alive].max() < within
    assert (which == tours.actions[..., 1:])[alive].double().mean() > 0.98


@pytest.mark.parametrize(
    ("problem", "nodes", "tours", "low"),
    [
        *((problem, nodes, None, torch.float16) for problem in ("tsp", "cvrp") for nodes in (2, 16, 33)),
        ("tsp", 112, 18, torch.float16),
        ("tsp", 20, 70, torch.float16),  # of 16 in a warp, in three blocks of two warps
        ("tsp", 33, 10, torch.bfloat16),
        ("cvrp", 128, 10, torch.float16),
        ("cvrp", 10, 40, torch.float16),
        ("cvrp", 33, 10, torch.bfloat16),
    ],
)
def test_greedy_tours_take_the_best_node(problem, nodes, tours, low):
    within = 0.004 if low == torch.float16 else 0.03
    torch.manual_seed(nodes)
    instances, (packed, *others) = nodes_like(problem, nodes)
    tensors = (packed.to(low), *others)
    made = unrecorded(instances, tensors, None if tours is None else torch.randint(1, nodes, (2, tours)))
    refereed(instances, made)
    assert_best(instances, tensors, made, within)


@pytest.mark.parametrize("offset", [0.0, 9.1])
def test_of_nodes_that_are_equally_good_the_first_is_taken(offset):
    """By their scores, or because the clip makes equals of them."""
    instances, tensors = nodes_like("tsp", 40, query=0.0, pointer=0.0, offset=0.0)
    tensors[2][:] = torch.linspace(offset, 3 * offset, 40)
    made = unrecorded(instances, (tensors[0].half(), *tensors[1:]))
    everyone = torch.arange(40)
    for start in range(40):
        assert (made.actions[:, start, 0] == start).all()
        assert (made.actions[:, start, 1:] == everyone[everyone != start]).all()
    assert (made.lengths == 40).all()


@pytest.mark.parametrize("about", [0.0, -13.0, -100.0, 13.0, 100.0])
def test_exponentials_beyond_the_range_of_fp16_are_taken_again(problem, about):
    """Attention scores of up to hundreds; or all of them about as far below zero, or above."""
    torch.manual_seed(0)
    instances, tensors = nodes_like(problem, 36, query=0.2 if about else 2.0, key=0.1 if about else 2.0)
    tensors[0][:, :, 0] += 2 if problem == "cvrp" else 1
    tensors[0][:, :, 4:] += 1
    tensors[0][:, :, 1] += about / 32
    tensors = (tensors[0].half(), *tensors[1:])
    made = unrecorded(instances, tensors, torch.arange(1, 17).expand(2, -1))
    refereed(instances, made)
    assert_best(instances, tensors, made, 0.004 if about else 0.03)


@pytest.mark.parametrize("wrong", ["nodes", "offset", "infinity"])
def test_weights_that_are_no_numbers_make_no_sound_greedy_tours(problem, wrong):
    instances, tensors = nodes_like(problem, 6)
    tensors = (tensors[0].half(), *tensors[1:])
    tensors[2 if wrong == "offset" else 0][1] = torch.inf if wrong == "infinity" else torch.nan
    made = unrecorded(instances, tensors)
    refereed(instances[:1], SimpleNamespace(actions=made.actions[:1], lengths=made.lengths[:1]))
    assert not made.lengths[1].any()
    with pytest.raises(DreeError, match="A tour does not end"):
        KernelDecoder(HEADS, tensors).rollout(
            instances, made.actions[..., 0], made.actions.shape[-1], 10.0, None, record=False
        )


def test_one_score_that_is_no_number_makes_no_sound_greedy_tours():
    """But in tours that begin there, where it is never asked for."""
    instances, tensors = nodes_like("tsp", 20, 1)
    tensors[2][0, 17] = torch.nan
    assert unrecorded(instances, tensors).lengths[0].nonzero().tolist() == [[17]]


def test_a_demand_over_the_capacity_makes_no_sound_greedy_tours():
    instances, tensors = nodes_like("cvrp", 6)
    instances.demands[1, 5] = 21
    lengths = unrecorded(instances, tensors, torch.arange(1, 5).expand(2, -1)).lengths
    assert (lengths[0] > 0).all()
    assert not lengths[1].any()


@large
def test_sampled_tours_are_the_same_without_a_record(chosen):
    made = case(*chosen)
    generator = torch.Generator().manual_seed(0)
    others = unrecorded(made.instances, made.tensors, made.tape.actions[..., 0], generator)
    assert torch.equal(others.actions, made.tape.actions)
    assert torch.equal(others.lengths, made.tape.lengths)


def test_a_solver_solves_by_these_kernels(problem, monkeypatch):
    """In fp16: as well as in single precision by another decoder."""
    monkeypatch.setattr(pomo, "kernels_serve", lambda *_: True)
    solver, instances = make_solver(problem, settings={"layers": 1}), random_instances(problem, 4, 12, seed=0)
    with torch.no_grad():
        for each in solver.parameters():
            each.mul_(1.5)
        encoding = KernelDecoder(HEADS, tuple(solver.encode(instances).tensors))
    packed, *others = encoding.tensors
    tours = solver.solve(instances, encoding=encoding.part((packed.half(), *others)))
    exact = solver.solve(instances, encoding=GlimpseDecoder(HEADS, encoding.tensors))
    longest = min(each.actions.shape[-1] for each in (tours, exact))
    assert (tours.actions[..., :longest] == exact.actions[..., :longest]).all(-1).double().mean() > 0.8
    torch.testing.assert_close(tours.costs.mean(), exact.costs.mean(), rtol=0.01, atol=0)


SMALL = """
#include "warp.cuh"
KERNEL(64, 1) reverses(float* to, int waits) {
  SHARED(memory);
  float* all = reinterpret_cast<float*>(memory);
  all[threadIdx.x] = threadIdx.x;
  if (waits) block_together(); else warp_together();
  to[threadIdx.x] = all[63 - threadIdx.x];
}
KERNEL(64, 1) copies(float* to, int waits, const float* from) {
  SHARED(memory);
  copy<4>(memory + 4 * threadIdx.x, from + threadIdx.x, threadIdx.x < 60);
  copies_begun();
  if (waits) copies_done<0>();
  to[threadIdx.x] = reinterpret_cast<float*>(memory)[threadIdx.x];
}
KERNEL(64, 1) parts_lanes(float* to) { if (threadIdx.x == 5) warp_together(); }
KERNEL(64, 1) parts_warps(float* to) { if (threadIdx.x < 32) block_together(); }
KERNEL(64, 1) leaves_shared_memory(float* to) { SHARED(memory); memory[threadIdx.x * 4 + 16] = 1; }
KERNEL(64, 1) leaves_its_argument(float* to) { to[threadIdx.x + 1] = 1; }
KERNEL(64, 1) writes_behind_its_argument(float* to, int, int* few) { few[threadIdx.x % 4] = 1; }
KERNEL(64, 1) misaligns(float* to) { SHARED(memory); Word words[4]; load4(words, memory + 8); }
KERNEL(32, 1) matrices(const Word* a, const Word* b, float* a_times_b, Word* others) {
  SHARED(memory);
  int lane = threadIdx.x;
  for (int i = lane; i < 192; i += 32) reinterpret_cast<Word*>(memory)[i] = i < 128 ? a[i] : b[i - 128];
  warp_together();
  Word left[4], right[4];
  load4(left, memory + lane % 16 * 32 + lane / 16 * 16);
  load4_turned(right, memory + 512 + lane % 16 * 16);
  float d[4] = {1, 1, 1, 1};
  multiply(d, left, right[0], right[1]);
  for (int i = 0; i < 4; ++i) a_times_b[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
  others[lane] = turned(left[0]);
  others[32 + lane] = nonzero(a[lane]);
  others[64 + lane] = product(a[lane], b[lane]);
  others[96 + lane] = packed(d[0], d[1]);
}
"""


def test_the_emulator_shows_what_lacks_a_barrier():
    small, came, source = emulated(SMALL), torch.zeros(64), torch.arange(1.0, 65)
    for waits in (1, 0):
        small.launch("reverses", (1, 1), 64, 256, came, waits)
        assert torch.equal(came, torch.arange(63.0, -1, -1)) == waits
        assert came[:32].isnan().all() == (not waits)
        small.launch("copies", (1, 1), 64, 256, came, waits, source)
        assert torch.equal(came, source * (source <= 60)) == waits
        assert came.isnan().all() == (not waits)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("parts_lanes", "lanes of a warp part"),
        ("parts_warps", "warp 0 waits at block_together in line .*, warp 1 has ended"),
        ("leaves_shared_memory", "byte 256 of shared memory of 256"),
        ("leaves_its_argument", "byte 256 of argument 0 of 256"),
        ("writes_behind_its_argument", "written around argument 2 of 12 bytes"),
        ("misaligns", "not aligned to 16 bytes"),
    ],
)
def test_the_emulator_refuses(name, why):
    came = torch.zeros(64)
    with pytest.raises(KernelError, match=why):
        emulated(SMALL).launch(name, (1, 1), 64, 256, came, 0, torch.zeros(3))
    assert not came.any()


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_the_emulators_matrices_are_the_librarys(low):
    left, right = torch.randn(16, 16).to(low), torch.randn(16, 8).to(low)
    left[0, :4] = torch.tensor([0.0, -0.0, torch.nan, 1e-40 if low == torch.bfloat16 else 3e-7])
    left[1:3] *= 1e-4
    product, others = torch.zeros(16, 8), torch.zeros(4, 64, dtype=low)
    emulated(SMALL, {"HALF": int(low == torch.float16)}).launch(
        "matrices", (1, 1), 32, 768, left, right, product, others
    )
    torch.testing.assert_close(product, 1 + left.float() @ right.float(), equal_nan=True)
    turned, nonzero, products, rounded = others
    torch.testing.assert_close(turned, left[:8, :8].T.flatten(), rtol=0, atol=0, equal_nan=True)
    first, second = left.flatten()[:64], right.flatten()[:64]
    assert torch.equal(nonzero.view(torch.int16) == -1, (first != 0) & ~first.isnan())
    torch.testing.assert_close(products, first * second, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(rounded, product[:8].flatten().to(low), rtol=0, atol=0, equal_nan=True)
