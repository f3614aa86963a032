"""The travelling salesman problem: visit every node once and return."""

from __future__ import annotations

import torch
from torch import Tensor

from dree.problems.instances import Instances
from dree.problems.rules import Rules, State, visit_steps


class TSP(Rules):
    """Every node is a customer; a visited node is blocked."""

    name = "tsp"
    first_customer = 0

    def begin(self, instances: Instances, starts_BP: Tensor) -> State:
        """At the start, which is visited."""
        shape = (*starts_BP.shape, instances.nodes)
        visited = torch.zeros(shape, dtype=torch.bool, device=starts_BP.device)
        visited = visited.scatter(-1, starts_BP[..., None], True)
        return State(starts_BP, visited, visited, torch.ones_like(starts_BP))

    def advance(self, instances: Instances, state: State, actions_BP: Tensor) -> State:
        """At the new node, which is visited."""
        visited = state.visited.scatter(-1, actions_BP[..., None], True)
        return State(actions_BP, visited, visited, state.served + 1)

    def finished(self, instances: Instances, state: State) -> Tensor:
        """Complete when every node is visited."""
        return state.served == instances.nodes

    def shortest(self, instances: Instances) -> int:
        """Every tour visits every node once."""
        return instances.nodes

    def longest(self, instances: Instances) -> int:
        """Every tour visits every node once."""
        return instances.nodes

    def hindsight(self, instances: Instances, actions_BPT: Tensor) -> State:
        """A node is blocked before action t if its own step is earlier."""
        steps = torch.arange(1, actions_BPT.shape[-1], device=actions_BPT.device)
        visited = visit_steps(actions_BPT, instances.nodes)[:, :, None, :] < steps[:, None]
        current = actions_BPT[..., :-1]
        return State(current, visited, visited, steps.expand_as(current))

    def closed(self, actions_BPT: Tensor) -> Tensor:
        """The actions themselves."""
        return actions_BPT
