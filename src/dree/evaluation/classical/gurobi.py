"""Gurobi: proven optima of the TSP, for those who have a licence. Without one it solves up to about 60 nodes."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

from dree.evaluation.classical.base import ClassicalSolver, Problem, Routes, SolverError

Edge = tuple[int, int]


@dataclass(frozen=True)
class Gurobi(ClassicalSolver):
    """A choice of edges, two at every node; each subtour found on the way is forbidden, until none is left."""

    package: ClassVar[str] = "gurobipy"
    install: ClassVar[str] = "dree[gurobi]"
    problems: ClassVar[tuple[str, ...]] = ("tsp",)

    gap: float = 0.0  # relative; it stops when the tour is proven to be this near to the optimum

    def solve(self, problem: Problem) -> Routes:
        """One route, from node 0."""
        gurobi: Any = importlib.import_module("gurobipy")
        try:
            with gurobi.Env(params={"OutputFlag": 0}) as environment, gurobi.Model(env=environment) as model:
                return [self._tour(gurobi, model, problem)[1:]]
        except gurobi.GurobiError as error:
            raise SolverError(f"Gurobi says: {error}. Is a licence for this size installed? See gurobi.com.") from None

    def _tour(self, gurobi: Any, model: Any, problem: Problem) -> list[int]:
        nodes = range(len(problem.coords))
        distances = problem.matrix()
        lengths = {(i, j): float(distances[i, j]) for i, j in combinations(nodes, 2)}
        model.Params.LazyConstraints = 1
        model.Params.MIPGap = self.gap
        model.Params.Threads = 1
        edges = model.addVars(lengths, obj=lengths, vtype=gurobi.GRB.BINARY)
        for node in nodes:
            model.addConstr(gurobi.quicksum(edges[edge] for edge in lengths if node in edge) == 2)

        def forbid_subtours(model: Any, where: int) -> None:
            if where != gurobi.GRB.Callback.MIPSOL:
                return
            values = model.cbGetSolution(edges)
            for cycle in cycles(edge for edge in lengths if values[edge] > 0.5):
                if len(cycle) < len(nodes):
                    inside = gurobi.quicksum(edges[edge] for edge in combinations(sorted(cycle), 2))
                    model.cbLazy(inside <= len(cycle) - 1)

        model.optimize(forbid_subtours)
        if not model.SolCount:
            raise SolverError(f"Gurobi found no tour (its status is {model.Status}).")
        return cycles(edge for edge in lengths if edges[edge].X > 0.5)[0]


def cycles(edges: Iterable[Edge]) -> list[list[int]]:
    """The cycles that edges form, two of them at every node; the first one begins at the smallest node."""
    neighbours: dict[int, list[int]] = {}
    for i, j in edges:
        neighbours.setdefault(i, []).append(j)
        neighbours.setdefault(j, []).append(i)
    found, left = [], set(neighbours)
    while left:
        cycle = [min(left)]
        while cycle[-1] in left:
            left.remove(cycle[-1])
            cycle.append(next((node for node in neighbours[cycle[-1]] if node in left), cycle[0]))
        found.append(cycle[:-1])
    return found
