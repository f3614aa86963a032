"""Random problems, random legal play, and every tour of a small problem; shared by the tests beside it."""

from __future__ import annotations

import dataclasses
import itertools
import math

import torch
from hypothesis import strategies as st

from dree.problems import Instances, rules

SIZES, BATCHES = st.integers(1, 8), st.integers(1, 3)


@st.composite
def instances(draw, problem, customers=SIZES, batch=BATCHES, dtype=torch.float32):
    """A batch of problems; demands from none to a full vehicle, both of which are frequent."""
    size, rows = draw(customers), draw(batch)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    if problem == "tsp":
        return Instances(torch.rand(rows, max(size, 2), 2, generator=generator, dtype=dtype))
    coords = torch.rand(rows, size + 1, 2, generator=generator, dtype=dtype)
    capacity = draw(st.lists(st.integers(1, 12), min_size=rows, max_size=rows))
    demand = [st.sampled_from([0, full]) | st.integers(0, full) for full in capacity]
    demands = [[0, *draw(st.lists(one, min_size=size, max_size=size))] for one in demand]
    return Instances(coords, torch.tensor(demands), torch.tensor(capacity)).validated()


def play(instances, seed, extra=0, starts=None):
    """Uniformly random legal play from given starts or all: actions [B, P, T], and the state before each decision.

    Finished tours go on with what the rules allow them, `extra` times after the last one has finished.
    """
    law = rules(instances.problem)
    generator = torch.Generator().manual_seed(seed)
    actions = [law.starts(instances) if starts is None else starts]
    states = [law.begin(instances, actions[0])]
    while not law.finished(instances, states[-1]).all() or extra > 0:
        extra -= bool(law.finished(instances, states[-1]).all())
        assert len(actions) < 3 * instances.nodes, "play does not end"
        allowed = (~states[-1].blocked).float()
        assert (allowed.sum(-1) > 0).all(), "a tour has nowhere to go"
        chosen = torch.multinomial(allowed.flatten(0, 1), 1, generator=generator)
        actions.append(chosen.view(allowed.shape[:2]))
        states.append(law.advance(instances, states[-1], actions[-1]))
    return torch.stack(actions, dim=-1), states


def every_tour(one):
    """All tours the rules allow for a batch of one problem, found by taking every legal action: [1, P, T]."""
    law = rules(one.problem)
    actions = law.starts(one)[..., None]
    state = law.begin(one, actions[..., 0])
    while not law.finished(one, state).all():
        parent, action = (~state.blocked[0]).nonzero().unbind(-1)
        fields = {name: value[:, parent] for name, value in vars(state).items() if value is not None}
        state = dataclasses.replace(state, **fields)
        actions = torch.cat((actions[:, parent], action[None, :, None]), dim=-1)
        state = law.advance(one, state, action[None])
    return actions


def walk(points, nodes):
    """The length of a closed walk, leg by leg."""
    return math.fsum(math.dist(points[a], points[b]) for a, b in itertools.pairwise([*nodes, nodes[0]]))


def trimmed(actions):
    """CVRP actions without the padding: up to the first return to the depot after the last customer."""
    last = max(step for step, node in enumerate(actions) if node)
    return tuple(actions[: last + 2])
