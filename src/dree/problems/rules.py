"""What a problem allows: the interface of its rules, step by step and for a whole tour at once.

Shapes: B instances, P tours of each, N nodes, T actions of a tour, S = T - 1 decisions (the first action,
the start, is given). A `State` carries leading dimensions [B, P] on the way and [B, P, S] in hindsight.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dree import kernels
from dree.problems.instances import Instances


@dataclass(frozen=True)
class State:
    """Where tours stand before a decision; `...` is [B, P], or [B, P, S] for every decision of finished tours."""

    current: Tensor  # [...] int64: the node the vehicle is at
    blocked: Tensor  # [..., N] bool: the nodes it may not go to now
    visited: Tensor  # [..., N] bool: the customers served
    served: Tensor  # [...] int64: how many they are
    load: Tensor | None = None  # [...] int64: what the vehicle can still take (CVRP)

    def tensors(self) -> tuple[Tensor, ...]:
        """All there are: `State(*tensors)` is the same state."""
        return tuple(tensor for tensor in vars(self).values() if tensor is not None)

    def map(self, change: Callable[[Tensor], Tensor]) -> State:
        """Every tensor changed in the same way, such as to one step of finished tours."""
        return State(*map(change, self.tensors()))

    @staticmethod
    def cat(states: Sequence[State]) -> State:
        """The states of several batches as those of one."""
        return State(*map(torch.cat, zip(*(state.tensors() for state in states), strict=True)))


class Rules(ABC):
    """The rules of one problem, as pure functions of instances, states and actions."""

    name: str
    first_customer: int  # 0 where every node is a customer, 1 where node 0 is the depot

    def starts(self, instances: Instances) -> Tensor:
        """Every customer as a first action: [B, P = customers]."""
        nodes = torch.arange(self.first_customer, instances.nodes, device=instances.device)
        return nodes.expand(len(instances), -1)

    @abstractmethod
    def begin(self, instances: Instances, starts_BP: Tensor) -> State:
        """The state after the first action."""

    @abstractmethod
    def advance(self, instances: Instances, state: State, actions_BP: Tensor) -> State:
        """The state after one more action."""

    @abstractmethod
    def finished(self, instances: Instances, state: State) -> Tensor:
        """Which tours are complete: [...] bool."""

    @abstractmethod
    def shortest(self, instances: Instances) -> int:
        """The fewest actions that can complete a tour."""

    @abstractmethod
    def longest(self, instances: Instances) -> int:
        """The most actions that a legal tour from a customer can have; from a depot it is one more."""

    @abstractmethod
    def hindsight(self, instances: Instances, actions_BPT: Tensor) -> State:
        """The states before actions 1 to T - 1 of finished tours, all at once: [B, P, S]."""

    @abstractmethod
    def closed(self, actions_BPT: Tensor) -> Tensor:
        """The nodes of the closed walk that the actions describe: [B, P, T or T + 1]."""

    def needed(self, actions_BPT: Tensor) -> Tensor:
        """How many actions the longest of these tours has, padding left out: scalar."""
        return torch.full((), actions_BPT.shape[-1], device=actions_BPT.device)

    def trimmed(self, actions_BPT: Tensor) -> Tensor:
        """The same tours without padding that none of them needs."""
        return actions_BPT[..., : int(self.needed(actions_BPT))]

    def cost(self, instances: Instances, actions_BPT: Tensor) -> Tensor:
        """Euclidean length of the closed walk: [B, P]."""
        coords = instances.coords
        if kernels.serve(coords.device) and coords.dtype == torch.float32 and not coords.requires_grad:
            from dree.kernels.cost import walk_lengths

            return walk_lengths(coords, actions_BPT, from_depot=self.first_customer > 0)
        walk = self.closed(actions_BPT)
        index = walk.flatten(1)[..., None].expand(-1, -1, 2)
        points = coords.gather(1, index).view(*walk.shape, 2)
        legs = points - points.roll(-1, dims=2)
        return legs.square().sum(-1).sqrt().sum(-1)


def visit_steps(actions_BPT: Tensor, nodes: int) -> Tensor:
    """The step at which each node is (last) visited: [B, P, N] int64; -1 for a node never visited."""
    steps = torch.arange(actions_BPT.shape[-1], device=actions_BPT.device).expand_as(actions_BPT)
    visited_at = torch.full((*actions_BPT.shape[:2], nodes), -1, dtype=torch.int64, device=actions_BPT.device)
    return visited_at.scatter_reduce(2, actions_BPT, steps, "amax")
