"""The obvious INViT, as its description reads: one step after the other, with gradient.

It sorts distances at every step, shows every view all its places in every layer, and keeps every step's activations. It
exists so that the fast path has an oracle: both take the same parameters and must agree on every log-probability and
every gradient.

Shapes: B instances, P tours of each, R = B * P tours, N nodes, V places, L tokens of a view, C candidates, D width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from dree.errors import DreeError
from dree.problems import Instances, State, Tours
from dree.solvers.invit import INViT
from dree.solvers.invit_layers import QueryLayer, View, ViewLayer
from dree.solvers.invit_rollout import ENDLESS
from dree.solvers.pomo_twin import multi_head_attention, split_heads


@dataclass
class Surroundings:
    """What every tour needs to know for its next decision."""

    coords: Tensor  # [R, N, 2]
    last: Tensor  # [R]
    anchor: Tensor  # [R]: the first node, or the depot
    near: Tensor  # [R, V]: nodes from near to far, those that can be next first
    empty: Tensor  # [R, V] bool: padding, whose node is the last one
    demand: Tensor | None  # [R, N] as shares of the capacity (CVRP)
    load: Tensor | None  # [R] likewise


def rollout(
    solver: INViT,
    instances: Instances,
    starts: Tensor | None = None,
    *,
    generator: torch.Generator | None = None,
    forced: Tensor | None = None,
) -> tuple[Tours, Tensor]:
    """Tours and their log-probabilities [B, P] with gradient.

    Decisions are sampled with a generator, taken from `forced` [B, P, T] where given, else greedy.
    """
    if starts is None:
        starts = solver.starts(instances, generator) if forced is None else forced[..., 0]
    state = solver.rules.begin(instances, starts)
    log_prob = torch.zeros(starts.numel(), device=starts.device, dtype=instances.coords.dtype)
    actions = [starts]
    while not solver.rules.finished(instances, state).all():
        around = look_around(solver, instances, starts, state)
        policy, nodes, closed = decide(solver, around, state.blocked.flatten(0, 1)[:, 0])
        if forced is not None:
            chosen = ((nodes == forced[..., len(actions)].reshape(-1, 1)) & ~closed).float().argmax(1)
        elif generator is not None:
            chosen = policy.multinomial(1, generator=generator).squeeze(1)
        else:
            chosen = policy.argmax(1)
        log_prob = log_prob + policy.gather(1, chosen[:, None]).squeeze(1).log()
        action = nodes.gather(1, chosen[:, None]).view_as(starts)
        state = solver.rules.advance(instances, state, action)
        actions.append(action)
        if len(actions) > solver.rules.longest(instances) + 1:
            raise DreeError(ENDLESS)
    tours = torch.stack(actions, dim=-1)
    return Tours(tours, solver.rules.cost(instances, tours)), log_prob.view_as(starts)


def look_around(solver: INViT, instances: Instances, starts: Tensor, state: State) -> Surroundings:
    """Sort what is left by its distance."""
    settings, tours = solver.settings, starts.shape[1]
    coords = instances.coords.repeat_interleave(tours, dim=0)
    last, left = state.current.flatten(), ~state.visited.flatten(0, 1)
    here = coords[torch.arange(len(last), device=last.device), last]
    distance = (coords - here[:, None]).square().sum(-1)
    widest = max(settings.state_views)
    if instances.demands is None or instances.capacity is None or state.load is None:
        count = min(widest, int(left[0].sum()))  # as many are left on every tour
        near = distance.masked_fill(~left, math.inf).argsort(dim=1, stable=True)[:, :count]
        return Surroundings(coords, last, starts.flatten(), near, torch.zeros_like(near, dtype=torch.bool), None, None)
    left[:, 0] = False
    demand = instances.demands.repeat_interleave(tours, dim=0)
    capacity = instances.capacity.repeat_interleave(tours, dim=0)
    load = state.load.flatten()
    fits = left & (demand < load[:, None] if settings.strict_capacity else demand <= load[:, None])
    near, empty = nearest(distance, fits, settings.action_view, last)
    candidates = torch.zeros_like(left).scatter(1, near, ~empty)
    more, none = nearest(distance, left & ~candidates, widest - settings.action_view, last)
    near, empty = torch.cat([near, more], dim=1), torch.cat([empty, none], dim=1)
    shares = [each.to(coords.dtype) / capacity.view(-1, *[1] * (each.ndim - 1)) for each in (demand, load)]
    return Surroundings(coords, last, torch.zeros_like(last), near, empty, *shares)


def nearest(distance_RN: Tensor, wanted_RN: Tensor, count: int, last_R: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest nodes that are wanted, then padding: so many slots, and which are empty."""
    ranked = distance_RN.masked_fill(~wanted_RN, math.inf).argsort(dim=1, stable=True)[:, :count]
    empty = ~wanted_RN.gather(1, ranked)
    missing = count - ranked.shape[1]
    ranked, empty = functional.pad(ranked, (0, missing)), functional.pad(empty, (0, missing), value=True)
    return torch.where(empty, last_R[:, None], ranked), empty


def decide(solver: INViT, around: Surroundings, no_depot_R: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The policy over the candidates, which nodes these are, and which of them are closed: [R, C] each."""
    network, settings = solver.network, solver.settings
    width, is_cvrp = settings.width, around.load is not None
    nodes, closed = around.near[:, : settings.action_view], around.empty[:, : settings.action_view]
    slots = nodes.shape[1]
    query, sources = [], []
    for view, size in zip(network.views, (settings.action_view, *settings.state_views), strict=True):
        assert isinstance(view, View)
        places = min(size, around.near.shape[1])
        tokens = encode_view(view, around, places)
        query.append(tokens[:, places:].flatten(1))
        sources.append(torch.cat([tokens[:, :slots], tokens[:, -1:]], dim=1) if is_cvrp else tokens[:, :slots])
    if is_cvrp:
        nodes = torch.cat([nodes, around.anchor[:, None]], dim=1)
        closed = torch.cat([closed, no_depot_R[:, None]], dim=1)
    mask = torch.zeros(closed.shape, device=closed.device, dtype=around.coords.dtype).masked_fill(closed, -math.inf)
    keys = network.keys(torch.cat(sources, dim=2)).split(width, dim=2)
    values = network.values(torch.cat(sources, dim=2)).split(width, dim=2)
    h = network.query(torch.cat(query, dim=1))
    for number, layer in enumerate(network.decoder):
        assert isinstance(layer, QueryLayer)
        key, value = (split_heads(each[number], layer.heads) for each in (keys, values))
        seen = multi_head_attention(layer.query(h)[:, None], key, value, mask[:, None])[:, 0]
        h = norm(h + layer.combine(seen), layer.norm1, 1e-5)
        h = norm(h + layer.contract(functional.relu(layer.expand(h))), layer.norm2, 1e-5)
    scores = (network.pointer(h)[:, None] @ keys[-1].transpose(1, 2))[:, 0] / math.sqrt(width)
    return (settings.clip * torch.tanh(scores) + mask).softmax(1), nodes, closed


def encode_view(view: View, around: Surroundings, places: int) -> Tensor:
    """One view's places, then the last node, then its anchor if it has one: [R, L, D]."""
    rows = torch.arange(len(around.last), device=around.last.device)[:, None]
    near, last = around.near[:, :places], around.last[:, None]
    shown = torch.cat([near, last], dim=1)
    box = around.coords[rows, shown]
    corner = box.min(1, keepdim=True).values
    side = (box.max(1, keepdim=True).values - corner).max(2, keepdim=True).values
    side = side.masked_fill(side == 0, 1)
    place = (around.coords - corner) / side
    if around.demand is None or around.load is None:
        place = place.clamp(0, 1)
        of_near, of_last = place[rows, near], place[rows, last]
    else:
        of_near = torch.cat([place[rows, near], around.demand[rows, near][..., None]], dim=2)
        of_last = torch.cat([place[rows, last], around.load[:, None, None]], dim=2)
    tokens = [view.embed(of_near), view.embed_last(of_last)]
    if view.anchored:
        tokens.append(view.embed_anchor(place[rows, around.anchor[:, None]]))
    h = torch.cat(tokens, dim=1)
    empty = functional.pad(around.empty[:, :places], (0, h.shape[1] - near.shape[1]))
    mask = torch.zeros(empty.shape, device=h.device, dtype=h.dtype).masked_fill(empty, -math.inf)[:, None]
    for layer in view.layers:
        assert isinstance(layer, ViewLayer)
        query, key, value = (split_heads(h @ weight.T, layer.heads) for weight in layer.query_key_value.weight.chunk(3))
        query = query * math.sqrt(key.shape[-1] / h.shape[-1])  # so that the scale is the whole width's
        attended = multi_head_attention(query, key, value, mask) @ layer.combine.weight.T
        u = norm(attended + h, layer.norm_attention, 1e-6)
        v = norm(h + u, layer.norm1, 1e-5)
        h = norm(v + layer.contract(functional.relu(layer.expand(v))), layer.norm2, 1e-5)
    return h


def norm(x: Tensor, layer: torch.nn.LayerNorm, epsilon: float) -> Tensor:
    """Layer norm written out."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + epsilon).sqrt() * layer.weight + layer.bias
