"""What INViT sees of a state: where the vehicle is, and the nearest places from there.

Neighbours are sorted once for each instance; a state then only picks, from the list of the node it is at, the first
places that are left. Everything has a fixed shape: where fewer places are left, those missing are put where the vehicle
is, which changes no bounding box, and are marked as empty.

Shapes: B instances, X states of each, R = B * X states, N nodes, M nodes of a sorted list, V places of the widest view,
A candidates among them, C = A actions, or A + 1 with the depot, K slots of a policy.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from dree.problems import Instances, State

SORTED_AT_ONCE = 2**23  # pairs of nodes


@dataclass(frozen=True)
class Scene:
    """What is seen of R states. Tours that begin differently, and instances, need not be told apart any more."""

    points: Tensor  # [R, 1 + V, 2]: the vehicle's place, then the others', candidates first
    amounts: Tensor | None  # [R, 1 + V, 1]: the load, then demands, as shares of the capacity (CVRP)
    anchor: Tensor  # [R, 2]: where the tour began (TSP), or the depot
    empty: Tensor  # [R, V] bool: places that are none
    nodes: Tensor  # [R, K] int64: the node of each slot; -1 where it has none
    closed: Tensor  # [R, C] bool: actions that are not allowed

    def __len__(self) -> int:
        """The number of states."""
        return len(self.points)

    def __getitem__(self, rows: slice) -> Scene:
        """Some of the states."""
        amounts = None if self.amounts is None else self.amounts[rows]
        points, anchor, empty = self.points[rows], self.anchor[rows], self.empty[rows]
        return Scene(points, amounts, anchor, empty, self.nodes[rows], self.closed[rows])

    def parts(self, size: int) -> list[Scene]:
        """So many states at a time."""
        return [self[slice(begin, begin + size)] for begin in range(0, len(self), size)]


@torch.no_grad()
def sort_neighbours(instances: Instances) -> Tensor:
    """The customers from near to far, seen from every node; of those equally far the first: [B, N, M]."""
    depots = instances.nodes - instances.customers
    small = torch.int16 if instances.nodes < 2**15 else torch.int32
    shape = (len(instances), instances.nodes, instances.customers)
    order = torch.empty(shape, dtype=small, device=instances.device)
    height = max(1, SORTED_AT_ONCE // instances.nodes**2)
    for begin in range(0, len(instances), height):
        coords = instances.coords[begin : begin + height]
        far = (coords[:, :, None] - coords[:, None, depots:]).square().sum(-1)
        order[begin : begin + height] = far.argsort(dim=-1, stable=True) + depots
    return order


@torch.no_grad()
def look(
    instances: Instances,
    order_BNM: Tensor,
    starts_BX: Tensor,
    state: State,
    *,
    left: int,
    slots: int,
    others: int,
    strict: bool,
) -> Scene:
    """The scenes of states [B, X], of tours from given starts.

    At most `left` customers are left at each. `slots` is how many candidates there are at most, `others` how many more
    places the widest view has; with `strict`, a customer must leave some room in the vehicle.
    """
    batch, nodes = len(instances), instances.nodes
    candidates = min(slots, left)
    current = state.current.flatten()
    offsets = torch.arange(0, batch * nodes, nodes, device=current.device)[:, None].expand_as(state.current).flatten()
    near_RM = order_BNM.flatten(0, 1).index_select(0, current + offsets).long()
    visited, blocked = state.visited.flatten(0, -2), state.blocked.flatten(0, -2)
    fits_RM = ~blocked.gather(1, near_RM)
    if state.load is None or instances.demands is None or instances.capacity is None:
        found = _first(fits_RM, min(candidates + others, left))
    else:
        if strict:
            spare_RN = state.load[..., None] > instances.demands[:, None]
            fits_RM &= spare_RN.flatten(0, 1).gather(1, near_RM)
        # Candidates have places of their own, filled or not; the other customers come after these.
        chosen = fits_RM & (fits_RM.cumsum(1) <= candidates)
        rest_RM = ~visited.gather(1, near_RM) & ~chosen
        found = torch.cat([_first(fits_RM, candidates), _first(rest_RM, min(others, left))], dim=1)
    empty = found == near_RM.shape[1]
    node_RV = near_RM.gather(1, found.clamp(max=near_RM.shape[1] - 1))
    seen = torch.cat([current[:, None], torch.where(empty, current[:, None], node_RV)], dim=1) + offsets[:, None]
    node_RA = node_RV.masked_fill(empty, -1)[:, :candidates]
    points = instances.coords.flatten(0, 1)[seen]
    slots_RK = functional.pad(node_RA, (0, slots - candidates), value=-1)
    if state.load is None or instances.demands is None or instances.capacity is None:
        anchor = instances.coords.flatten(0, 1)[starts_BX.flatten() + offsets]
        return Scene(points, None, anchor, empty, slots_RK, empty[:, :candidates])
    capacity = instances.capacity[:, None]
    demand = (instances.demands.to(points.dtype) / capacity).flatten()[seen[:, 1:]]
    load = (state.load.to(points.dtype) / capacity).flatten()
    amounts = torch.cat([load[:, None], demand], dim=1)[..., None]
    anchor = instances.coords.flatten(0, 1)[offsets]
    closed = torch.cat([blocked[:, :1], empty[:, :candidates]], dim=1)
    return Scene(points, amounts, anchor, empty, functional.pad(slots_RK, (1, 0)), closed)


def _first(there_RM: Tensor, count: int) -> Tensor:
    """Where the first so many are that are there: [R, count]; M where there are fewer."""
    wanted = torch.arange(1, count + 1, dtype=torch.int32, device=there_RM.device).repeat(len(there_RM), 1)
    return torch.searchsorted(there_RM.cumsum(1, dtype=torch.int32), wanted)
