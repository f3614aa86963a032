"""Remembered steps of batches, and how several of them become one batch.

Shapes: B instances, P tours of each, N nodes; where steps of several sizes are padded to one, R is the room for both
tours and nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from dree.lifelong.replay import uncertainty
from dree.problems import Instances, State
from dree.solvers.base import existing

MULTIPLE = 16  # what sizes are padded to, so that there are few


@dataclass(frozen=True)
class Step:
    """One step of all tours of a batch of B instances."""

    instances: Instances
    starts: Tensor  # [B, P]
    state: State  # [B, P]
    policy: Tensor  # [B, P, K] log-probabilities

    @property
    def shape(self) -> tuple[int, ...]:
        """Steps of one shape can be joined."""
        return (*self.policy.shape, self.instances.nodes)

    @cached_property
    def weights(self) -> Tensor:
        """How unsure the policy was: [B, P]."""
        return uncertainty(self.policy)

    @cached_property
    def counts(self) -> Tensor:
        """How many tours and nodes each instance has: [2, B] int32. On the device, which so need not be waited for."""
        batch, tours, _ = self.policy.shape
        counts = [self.starts.new_full((batch,), count, dtype=torch.int32) for count in (tours, self.instances.nodes)]
        return torch.stack(counts)

    @cached_property
    def flat(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The tensors of its instances; of its state; its starts, policy and weights: in one dimension each.

        Views of them, made once: a step is replayed some hundred times.
        """
        own = (self.starts, self.policy, self.weights)
        instances, state, rest = (
            tuple(tensor.flatten() for tensor in tensors)
            for tensors in (self.instances.tensors(), self.state.tensors(), own)
        )
        return instances, state, rest

    @property
    def bytes(self) -> int:
        """The memory it takes, but for the weights and counts that are kept once they have been asked for."""
        tensors = [*self.instances.tensors(), self.starts, self.policy, *self.state.tensors()]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def state_dict(self) -> dict[str, Any]:
        """As tensors by name."""
        groups = {"instances": dict(vars(self.instances)), "state": dict(vars(self.state))}
        return {**groups, "starts": self.starts, "policy": self.policy}

    @staticmethod
    def from_state(state: Mapping[str, Any], device: torch.device) -> Step:
        """What `state_dict` gave, on a device."""
        instances, where = Instances(**state["instances"]).to(device), State(**state["state"])
        moved = where.map(lambda tensor: tensor.to(device))
        return Step(instances, state["starts"].to(device), moved, state["policy"].to(device))


# A batch made of steps: its instances, then starts, policies, weights and states.
Batch = tuple[Instances, tuple[Tensor, ...]]


def joined(steps: Sequence[Step]) -> Batch:
    """Steps of one shape as one batch."""
    names = ("starts", "policy", "weights")
    tensors = (torch.cat([getattr(step, name) for step in steps]) for name in names)
    state = State.cat([step.state for step in steps])
    return Instances.cat([step.instances for step in steps]), (*tensors, *state.tensors())


def room(steps: Sequence[Step]) -> int:
    """How many tours and nodes these steps are padded to."""
    return -(-max(max(step.shape[1:]) for step in steps) // MULTIPLE) * MULTIPLE


def padded(steps: Sequence[Step]) -> Batch:
    """Steps of several sizes as one batch, with tours and nodes that do not exist; before the starts, real nodes [B].

    The tours that do not exist have no weight. They are at node 0, and may only stay there: a policy must be one.
    """
    tours_B, nodes_B = torch.cat([step.counts for step in steps], dim=1)
    node_BR, tour_BR = (existing(counts, room(steps)) for counts in (nodes_B, tours_B))
    slot_BRR = tour_BR[:, :, None] & node_BR[:, None]

    of_instances, of_states, own = zip(*(step.flat for step in steps), strict=True)
    coords, *orders = zip(*of_instances, strict=True)
    instances = [_spread(coords, node_BR[..., None].expand(-1, -1, 2), 0.0)]
    if orders:
        demands, capacity = orders
        instances += [_spread(demands, node_BR, 0), torch.cat(capacity)]

    current, blocked, visited, *counts = zip(*of_states, strict=True)
    is_blocked = _spread(blocked, slot_BRR, True)
    is_blocked[:, :, 0] &= tour_BR
    states = [_spread(current, tour_BR, 0), is_blocked, _spread(visited, slot_BRR, True)]
    states += [_spread(count, tour_BR, 0) for count in counts]

    starts, policy, weights = zip(*own, strict=True)
    replayed = [_spread(starts, tour_BR, 0), _spread(policy, slot_BRR, -torch.inf), _spread(weights, tour_BR, 0.0)]
    return Instances(*instances), (nodes_B, *replayed, *states)


def _spread(parts: Sequence[Tensor], exists: Tensor, filler: float) -> Tensor:
    """What the flat parts have, one after the other, at the places that exist, and a filler at the others.

    By one operation for all parts: one for each of them would keep the host longer than the device.
    """
    spread = torch.full(exists.shape, filler, dtype=parts[0].dtype, device=exists.device)
    return spread.masked_scatter_(exists, torch.cat(list(parts)))
