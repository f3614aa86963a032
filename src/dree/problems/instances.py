"""A batch of routing problems of one size, and the tours a solver answers with.

Shapes: B instances, P tours of each (one per start), N nodes (a CVRP's depot is node 0), T actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import SupportsIndex

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from dree.errors import DreeError
from dree.problems.arrays import as_tensor


@dataclass(frozen=True)
class Instances:
    """B problems of one size. Without demands they are TSPs, with demands CVRPs whose depot is node 0.

    Demands and capacities are integers, so that loads are exact and "just full" is no matter of rounding.
    Construction checks shapes and types, which costs nothing on any device; `validated` checks values,
    and everything that comes from outside goes through it. `of` makes them of plain arrays.
    """

    coords: Tensor  # [B, N, 2] float
    demands: Tensor | None = None  # [B, N] int64, 0 at the depot
    capacity: Tensor | None = None  # [B] int64

    def __post_init__(self) -> None:
        """Refuse shapes and types that cannot be a batch of problems."""
        for name, value in vars(self).items():
            if not isinstance(value, Tensor) and (value is not None or name == "coords"):
                raise DreeError(
                    f"'{name}' must be a tensor, not {type(value).__name__}. "
                    "Instances.of(coords, demands, capacity) takes arrays, lists and numbers."
                )
        if self.coords.ndim != 3 or self.coords.shape[-1] != 2 or not self.coords.is_floating_point():
            raise DreeError(f"Coordinates must be floats of shape [instances, nodes, 2], not {_describe(self.coords)}.")
        if self.nodes < 2:
            raise DreeError(f"A problem needs at least 2 nodes, this one has {self.nodes}.")
        if (self.demands is None) != (self.capacity is None):
            raise DreeError("Demands and capacity go together: give both (CVRP) or neither (TSP).")
        if self.demands is None or self.capacity is None:
            return
        if self.demands.shape != self.coords.shape[:2] or self.demands.dtype != torch.int64:
            raise DreeError(
                f"Demands must be int64 of shape {list(self.coords.shape[:2])}, one per node with the depot "
                f"first, not {_describe(self.demands)}."
            )
        if self.capacity.shape != self.coords.shape[:1] or self.capacity.dtype != torch.int64:
            raise DreeError(
                f"Capacity must be int64 of shape {list(self.coords.shape[:1])}, one per instance, "
                f"not {_describe(self.capacity)}."
            )

    @staticmethod
    def of(
        coords: ArrayLike | Tensor,
        demands: ArrayLike | Tensor | None = None,
        capacity: ArrayLike | Tensor | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> Instances:
        """Instances from arrays, lists or tensors, with every value checked.

        Coordinates are [B, N, 2], or [N, 2] of a single problem, which becomes a batch of one. With demands, which
        are whole numbers, the first node is the depot, whose demand is 0; capacity is one number for all or one for
        each. Solvers were trained in the unit square and see coordinates as they are: `to_unit_square` moves others
        there, and `dree.solve` does so by itself. Networks compute in float32, so that is what coordinates become.
        Of tensors with gradient only the values are taken.
        """
        points = as_tensor("coords", coords, dtype)
        single = points.ndim == 2
        points = points[None] if single else points
        if demands is None and capacity is None:
            return Instances(points).validated()
        if demands is None or capacity is None:
            raise DreeError("Demands and capacity go together: give both (CVRP) or neither (TSP).")
        orders, limits = as_tensor("demands", demands, torch.int64), as_tensor("capacity", capacity, torch.int64)
        orders = orders[None] if single and orders.ndim == 1 else orders
        limits = limits.expand(len(points)) if limits.ndim == 0 else limits
        return Instances(*(each.to(points.device) for each in (points, orders, limits))).validated()

    def __repr__(self) -> str:
        """On one line, without the numbers."""
        return f"Instances({self.problem}, {len(self)} of {self.customers} customers, {self.device})"

    @property
    def problem(self) -> str:
        """`tsp` or `cvrp`."""
        return "tsp" if self.demands is None else "cvrp"

    @property
    def nodes(self) -> int:
        """Nodes of each instance, the depot included."""
        return self.coords.shape[1]

    @property
    def customers(self) -> int:
        """Nodes to visit: the paper's problem scale n."""
        return self.nodes if self.demands is None else self.nodes - 1

    @property
    def device(self) -> torch.device:
        """Where the tensors live."""
        return self.coords.device

    def __len__(self) -> int:
        """The number of instances B."""
        return self.coords.shape[0]

    def tensors(self) -> tuple[Tensor, ...]:
        """Coordinates, and for CVRPs demands and capacity: `Instances(*tensors)` is the same batch."""
        return tuple(tensor for tensor in (self.coords, self.demands, self.capacity) if tensor is not None)

    def __getitem__(self, rows: SupportsIndex | slice | Tensor) -> Instances:
        """The instances at `rows`; of one row, a batch of one."""
        if not isinstance(rows, slice | list) and getattr(rows, "ndim", 0) == 0:
            row = index(rows)
            if not -len(self) <= row < len(self):
                raise IndexError(f"There is no instance {row}: there are {len(self)}.")
            rows = slice(row, row + 1 or None)
        return Instances(*(tensor[rows] for tensor in self.tensors()))

    def to(self, device: torch.device | str) -> Instances:
        """The same instances on another device."""
        return Instances(*(tensor.to(device) for tensor in self.tensors()))

    @staticmethod
    def cat(batches: Sequence[Instances]) -> Instances:
        """Several batches of one problem and size as one."""
        if not batches:
            raise DreeError("There is nothing to concatenate: give at least one batch of instances.")
        kinds = {(batch.problem, batch.nodes) for batch in batches}
        if len(kinds) > 1:
            raise DreeError(f"Only batches of one problem and size can be joined, these are {sorted(kinds)}.")
        return Instances(*(torch.cat(parts) for parts in zip(*(batch.tensors() for batch in batches), strict=True)))

    def validated(self) -> Instances:
        """These instances, once every value has been checked; the error names the first bad one."""
        bad = ~self.coords.isfinite().all(-1)
        if bad.any():
            row, node = bad.nonzero()[0].tolist()
            raise DreeError(
                f"Instance {row}, node {node}: coordinates {self.coords[row, node].tolist()} are not finite. "
                "Remove the node or correct it."
            )
        if self.demands is None or self.capacity is None:
            return self
        if (self.capacity < 1).any():
            row = int((self.capacity < 1).nonzero()[0])
            raise DreeError(f"Instance {row}: capacity {int(self.capacity[row])} must be at least 1.")
        if (self.demands[:, 0] != 0).any():
            row = int((self.demands[:, 0] != 0).nonzero()[0])
            raise DreeError(f"Instance {row}: the depot (node 0) has demand {int(self.demands[row, 0])}; it must be 0.")
        bad = (self.demands < 0) | (self.demands > self.capacity[:, None])
        if bad.any():
            row, node = bad.nonzero()[0].tolist()
            demand, capacity = int(self.demands[row, node]), int(self.capacity[row])
            over = f"is over the capacity {capacity}. Split the order or raise the capacity."
            negative = "is negative. A demand is 0 or more; correct it."
            raise DreeError(f"Instance {row}, node {node}: demand {demand} {negative if demand < 0 else over}")
        return self


@dataclass(frozen=True)
class Tours:
    """What a solver answers: P tours for each of B instances, without gradient.

    `actions[b, p, 0]` is the start, a node given to the solver; every later one was decided. A CVRP tour
    leaves the depot before its first action, returns with an explicit 0, and is padded with zeros.
    """

    actions: Tensor  # [B, P, T] int64
    costs: Tensor  # [B, P] float

    def __repr__(self) -> str:
        """On one line, without the numbers."""
        instances, tours, actions = self.actions.shape
        return f"Tours({tours} for each of {instances} instances, {actions} actions, {self.actions.device})"

    def best(self) -> Tours:
        """The cheapest tour of each instance, as the only one (P = 1)."""
        index = self.costs.argmin(dim=1)
        rows = torch.arange(len(index), device=index.device)
        return Tours(self.actions[rows, index].unsqueeze(1), self.costs[rows, index].unsqueeze(1))


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype} of shape {list(tensor.shape)}"
