"""The obvious POMO, as its description reads: one step after the other, with gradient.

It is slow and keeps every step's activations. It exists so that the fast path has an oracle: both take the
same parameters and must agree on every log-probability and every gradient.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from dree.problems import Instances, Tours
from dree.solvers.layers import EncoderLayer, NodeNorm
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
    nodes = encode(solver, instances)
    keys = split_heads(nodes @ solver.key.weight.T, solver.settings.heads)
    values = split_heads(nodes @ solver.value.weight.T, solver.settings.heads)
    if starts is None:
        starts = solver.starts(instances, generator) if forced is None else forced[..., 0]
    state = solver.rules.begin(instances, starts)
    actions, log_prob = [starts], torch.zeros(starts.shape, device=nodes.device, dtype=nodes.dtype)
    while not solver.rules.finished(instances, state).all():
        query = pick_rows(nodes, state.current)
        if state.load is None or instances.capacity is None:
            first = pick_rows(nodes, starts) @ solver.query_first.weight.T
            query = first + query @ solver.query_last.weight.T
        else:
            share = (state.load / instances.capacity[:, None]).to(nodes.dtype)
            query = torch.cat([query, share[..., None]], dim=-1) @ solver.query_last.weight.T
        mask = torch.zeros(state.blocked.shape, device=nodes.device, dtype=nodes.dtype).masked_fill(
            state.blocked, -math.inf
        )
        glimpse = multi_head_attention(query, keys, values, mask)
        glimpse = glimpse @ solver.combine.weight.T + solver.combine.bias
        scores = glimpse @ nodes.transpose(1, 2) / math.sqrt(solver.settings.width)
        policy = (solver.settings.clip * torch.tanh(scores) + mask).softmax(-1)
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


def encode(solver: POMO, instances: Instances) -> Tensor:
    """The encoder, block by block: [B, N, D]."""
    nodes = solver.embedding(instances)
    for layer in solver.layers:
        assert isinstance(layer, EncoderLayer)
        query, key, value = (
            split_heads(nodes @ weight.T, layer.heads) for weight in layer.query_key_value.weight.chunk(3)
        )
        nodes = instance_norm(layer.norm1, nodes + layer.combine(multi_head_attention(query, key, value)))
        nodes = instance_norm(layer.norm2, nodes + layer.contract(functional.relu(layer.expand(nodes))))
    return nodes


def instance_norm(norm: NodeNorm, nodes_BND: Tensor) -> Tensor:
    """The library's instance norm, over the nodes."""
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
