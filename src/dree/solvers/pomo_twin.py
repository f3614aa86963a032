"""The obvious POMO, as its description reads: one step after the other, with gradient.

It is slow and keeps every step's activations. It exists so that the fast path has an oracle: both take the
same parameters and must agree on every log-probability and every gradient. And because it is nothing but plain
operations, `log_probability` has second derivatives, which the fast path's hand-written gradients have not.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from dree.problems import Instances, State, Tours
from dree.solvers.layers import BatchNorm, EncoderLayer, NodeNorm
from dree.solvers.pomo import POMO


def rollout(
    solver: POMO,
    instances: Instances,
    starts: Tensor | None = None,
    *,
    generator: torch.Generator | None = None,
    forced: Tensor | None = None,
) -> tuple[Tours, Tensor]:
    """Tours and their log-probabilities [B, P] with gradient.

    Decisions are sampled with a generator, taken from `forced` [B, P, T] where given, else greedy.
    """
    encoded = project(solver, encode(solver, instances))
    if starts is None:
        starts = solver.starts(instances, generator) if forced is None else forced[..., 0]
    state = solver.rules.begin(instances, starts)
    actions, log_prob = [starts], encoded.nodes.new_zeros(starts.shape)
    while not solver.rules.finished(instances, state).all():
        policy = decide(solver, encoded, instances, starts, state)
        if forced is not None:
            action = forced[..., len(actions)]
        elif generator is not None:
            action = policy.flatten(0, 1).multinomial(1, generator=generator).view_as(starts)
        else:
            action = policy.argmax(-1)
        log_prob = log_prob + policy.gather(-1, action[..., None]).squeeze(-1).log()
        state = solver.rules.advance(instances, state, action)
        actions.append(action)
    tours = torch.stack(actions, dim=-1)
    return Tours(tours, solver.rules.cost(instances, tours)), log_prob


def log_probability(solver: POMO, instances: Instances, actions_BPT: Tensor) -> Tensor:
    """The log-probability of given tours [B, P], which can be differentiated as often as one likes.

    All their states are looked at together, so it is quick; what that keeps grows with P, T and N.
    """
    encoded = project(solver, encode(solver, instances))
    states = solver.rules.hindsight(instances, actions_BPT)
    policy = decide(solver, encoded, instances, actions_BPT[..., 0], states)
    return policy.gather(-1, actions_BPT[..., 1:, None]).squeeze(-1).log().sum(-1)


def decide(solver: POMO, encoded: Encoded, instances: Instances, starts_BP: Tensor, state: State) -> Tensor:
    """The probability of every next node [..., N], for a state of shape [...]: [B, P], or [B, P, S]."""
    nodes = encoded.nodes
    query = pick_rows(nodes, state.current.flatten(1))
    if state.load is None or instances.capacity is None:
        first = pick_rows(nodes, starts_BP) @ solver.query_first.weight.T
        steps = state.current[0, 0].numel()
        query = first[:, :, None].expand(-1, -1, steps, -1).flatten(1, 2) + query @ solver.query_last.weight.T
    else:
        share = (state.load.flatten(1) / instances.capacity[:, None]).to(nodes.dtype)
        query = torch.cat([query, share[..., None]], dim=-1) @ solver.query_last.weight.T
    blocked_BXN = state.blocked.flatten(1, -2)
    mask = nodes.new_zeros(blocked_BXN.shape).masked_fill(blocked_BXN, -math.inf)
    glimpse = multi_head_attention(query, encoded.keys, encoded.values, mask)
    glimpse = glimpse @ solver.combine.weight.T + solver.combine.bias
    scores = glimpse @ nodes.transpose(1, 2) / math.sqrt(solver.settings.width)
    return (solver.settings.clip * torch.tanh(scores) + mask).softmax(-1).view(state.blocked.shape)


class Encoded(NamedTuple):
    """The encoder's nodes, and what the decoder attends to."""

    nodes: Tensor  # [B, N, D]
    keys: Tensor  # [B, H, N, d]
    values: Tensor  # [B, H, N, d]


def project(solver: POMO, nodes_BND: Tensor) -> Encoded:
    """Keys and values of the nodes."""
    keys, values = (
        split_heads(nodes_BND @ each.weight.T, solver.settings.heads) for each in (solver.key, solver.value)
    )
    return Encoded(nodes_BND, keys, values)


def encode(solver: POMO, instances: Instances) -> Tensor:
    """The encoder, block by block: [B, N, D]."""
    nodes = solver.embedding(instances)
    for layer in solver.layers:
        assert isinstance(layer, EncoderLayer)
        query, key, value = (
            split_heads(nodes @ weight.T, layer.heads) for weight in layer.query_key_value.weight.chunk(3)
        )
        nodes = normalise(layer.norm1, nodes + layer.combine(multi_head_attention(query, key, value)))
        nodes = normalise(layer.norm2, nodes + layer.contract(functional.relu(layer.expand(nodes))))
    return nodes


def normalise(norm: NodeNorm, nodes_BND: Tensor) -> Tensor:
    """The library's instance norm over the nodes, or its batch norm over all nodes of the batch."""
    if isinstance(norm, BatchNorm):
        flat = nodes_BND.flatten(0, 1)
        return functional.batch_norm(flat, None, None, norm.gain, norm.bias, training=True).view_as(nodes_BND)
    channels_first = nodes_BND.transpose(1, 2)
    return functional.instance_norm(channels_first, weight=norm.gain, bias=norm.bias).transpose(1, 2)


def multi_head_attention(
    query: Tensor, keys_BHNd: Tensor, values_BHNd: Tensor, mask_BXN: Tensor | None = None
) -> Tensor:
    """Scaled dot-product attention written out, heads concatenated: [B, X, D]."""
    heads, head_width = keys_BHNd.shape[1], keys_BHNd.shape[3]
    query_BHXd = query if query.ndim == 4 else split_heads(query, heads)
    scores = query_BHXd @ keys_BHNd.transpose(2, 3) / math.sqrt(head_width)
    if mask_BXN is not None:
        scores = scores + mask_BXN[:, None]
    return (scores.softmax(-1) @ values_BHNd).transpose(1, 2).flatten(2)


def split_heads(nodes_BND: Tensor, heads: int) -> Tensor:
    """[B, N, D] as [B, H, N, D / H]."""
    return nodes_BND.reshape(*nodes_BND.shape[:2], heads, -1).transpose(1, 2)


def pick_rows(nodes_BND: Tensor, index_BP: Tensor) -> Tensor:
    """The nodes that an index names: [B, P, D]."""
    return nodes_BND.gather(1, index_BP[..., None].expand(-1, -1, nodes_BND.shape[-1]))
