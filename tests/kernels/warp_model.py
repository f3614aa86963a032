"""What the decoder's kernels in CUDA C++ should do: a model of them, cases, and how they run on the CPU."""

from __future__ import annotations

from functools import cache, partial
from types import SimpleNamespace

import pytest
import torch
from emulated import FOLDER, emulated

from conftest import random_instances
from dree import cuda
from dree.problems import rules
from dree.problems.check import check_tours
from dree.solvers import warp_rollout
from dree.solvers.decoding import GlimpseDecoder
from dree.solvers.pomo import _view
from dree.solvers.warp_rollout import HEADS, WIDTH, recorded_rollout

LOG2_E = 1.4426950408889634
PARTS = ("last", "key", "value", "pointer", "start")


@cache
def kernel(source, name, **defines):
    return SimpleNamespace(launch=partial(emulated(FOLDER / source, defines).launch, name))


def run_on_the_cpu(monkeypatch):
    """From now on kernels run on the emulator, and new tensors hold nothing of use."""
    monkeypatch.setattr(cuda, "kernel", kernel)
    monkeypatch.setattr(cuda, "serve", lambda _: True)
    for owner, name in ((torch, "empty"), (torch, "empty_like"), (torch.Tensor, "new_empty")):
        monkeypatch.setattr(owner, name, unset(getattr(owner, name)))


def unset(make):
    """Memory that holds no numbers, or large ones, before it is set."""
    return lambda *shape, **kind: (made := make(*shape, **kind)).fill_(torch.nan if made.is_floating_point() else 10**6)


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


def unrecorded(instances, tensors, starts=None, generator=None):
    law = rules(instances.problem)
    starts = law.starts(instances) if starts is None else starts
    actions, lengths = warp_rollout.rollout(tensors, instances, starts, law.longest(instances), 10.0, generator)
    return SimpleNamespace(actions=actions, lengths=lengths)


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
large = pytest.mark.parametrize("chosen", [("tsp", 33), ("cvrp", 33)], ids=["tsp", "cvrp"])
