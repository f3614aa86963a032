"""The capacitated vehicle routing problem: routes from a depot that serve every customer once.

The vehicle may return to the depot whenever it is not there, and must when nothing else fits. Loads are
integers: a customer whose demand is exactly what is left fits. A finished tour stays at the depot.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dree.problems.instances import Instances
from dree.problems.rules import Rules, State, visit_steps


class CVRP(Rules):
    """Node 0 is the depot, the others are customers with integer demands."""

    name = "cvrp"
    first_customer = 1

    def begin(self, instances: Instances, starts_BP: Tensor) -> State:
        """One customer served by a vehicle that left the depot full."""
        _, capacity = _demands(instances)
        shape = (*starts_BP.shape, instances.nodes)
        nothing = torch.zeros(shape, dtype=torch.bool, device=starts_BP.device)
        depot = torch.zeros_like(starts_BP)
        full = capacity[:, None].expand_as(starts_BP)
        return self.advance(instances, State(depot, nothing, nothing, depot, full), starts_BP)

    def advance(self, instances: Instances, state: State, actions_BP: Tensor) -> State:
        """Serve a customer, or reload at the depot."""
        demands, capacity = _demands(instances)
        assert state.load is not None
        at_depot = actions_BP == 0
        load = torch.where(at_depot, capacity[:, None], state.load - demands.gather(1, actions_BP))
        visited = state.visited.scatter(-1, actions_BP[..., None], ~at_depot[..., None])
        served = state.served + ~at_depot
        home = at_depot & (served < instances.customers)
        return State(actions_BP, _blocked(visited, load, home, demands[:, None, :]), visited, served, load)

    def finished(self, instances: Instances, state: State) -> Tensor:
        """Complete when every customer is served and the vehicle is back."""
        return (state.current == 0) & (state.served == instances.customers)

    def shortest(self, instances: Instances) -> int:
        """One route for all customers, and the return."""
        return instances.customers + 1

    def longest(self, instances: Instances) -> int:
        """A return after every customer."""
        return 2 * instances.customers

    def hindsight(self, instances: Instances, actions_BPT: Tensor) -> State:
        """A customer is served before action t if its own step is earlier."""
        demands, _ = _demands(instances)
        current = actions_BPT[..., :-1]
        at_depot = current == 0
        load = loads_along(instances, current)
        steps = torch.arange(1, actions_BPT.shape[-1], device=actions_BPT.device)
        visited = visit_steps(actions_BPT, instances.nodes)[:, :, None, :] < steps[:, None]
        visited[..., 0] = False
        served = (~at_depot).cumsum(-1)
        home = at_depot & (served < instances.customers)
        return State(current, _blocked(visited, load, home, demands[:, None, None, :]), visited, served, load)

    def needed(self, actions_BPT: Tensor) -> Tensor:
        """Up to the last return to the depot."""
        places = torch.arange(2, actions_BPT.shape[-1] + 2, device=actions_BPT.device)
        return ((actions_BPT != 0) * places).amax()

    def closed(self, actions_BPT: Tensor) -> Tensor:
        """The actions after the departure from the depot."""
        return torch.nn.functional.pad(actions_BPT, (1, 0))


def loads_along(instances: Instances, current_BPS: Tensor) -> Tensor:
    """What the vehicle can still take at each node of tours: [B, P, S].

    Served so far is the demand up to now, less what it was at the last return to the depot.
    """
    demands, capacity = _demands(instances)
    total = demands.gather(1, current_BPS.flatten(1)).view_as(current_BPS).cumsum(-1)
    return capacity[:, None, None] - (total - (total * (current_BPS == 0)).cummax(-1).values)


def _blocked(visited: Tensor, load: Tensor, home: Tensor, demands: Tensor) -> Tensor:
    """Customers served or too large for the load; and the depot, while at home with customers left."""
    blocked = visited | (demands > load[..., None])
    blocked[..., 0] = home
    return blocked


def _demands(instances: Instances) -> tuple[Tensor, Tensor]:
    assert instances.demands is not None
    assert instances.capacity is not None
    return instances.demands, instances.capacity
