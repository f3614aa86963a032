"""A solver's best answer to one problem in anybody's coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from dree.evaluation.evaluate import best_tours
from dree.problems import SYMMETRIES, Instances, to_unit_square
from dree.problems.check import check_cvrp, check_tsp, split_routes
from dree.solvers import Solver


@dataclass(frozen=True)
class Answer:
    """Routes over node numbers as in the problem, and their checked cost in the problem's own units."""

    problem: str
    actions: list[int]
    routes: list[list[int]]
    cost: float
    loads: list[int] | None
    capacity: int | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        answer: dict[str, Any] = {"problem": self.problem, "cost": self.cost, "routes": self.routes}
        if self.loads is not None:
            answer |= {"loads": self.loads, "capacity": self.capacity}
        return answer


def answer(solver: Solver, instance: Instances) -> Answer:
    """The best greedy tour over all starts and symmetric copies of one problem, checked and costed in float64."""
    best = best_tours(solver, to_unit_square(instance), SYMMETRIES, precision="fp32")
    actions: list[int] = best.actions.flatten().tolist()
    coords = instance.coords[0].double().numpy()
    if instance.demands is None or instance.capacity is None:
        return Answer("tsp", actions, [actions], check_tsp(coords, actions), None, None)
    demands, capacity = instance.demands[0], int(instance.capacity[0])
    routes = split_routes(actions)
    loads = [int(demands[torch.tensor(route)].sum()) for route in routes]
    return Answer("cvrp", actions, routes, check_cvrp(coords, demands.numpy(), capacity, actions), loads, capacity)
