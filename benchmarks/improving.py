"""Which local search does most for the routes of a neural solver: what `dree solve --improve` chooses from.

    python benchmarks/improving.py [--problems tsp,cvrp] [--sizes 30,100,300,1000] [--days 2] [--seconds 5]

On the days of `large_days.py` it prints by how many per cent each search shortens the routes of `dree solve`, from
which it goes on where it can. Negative: it ends behind them. HGS counts its processor's time, the others the clock.
"""

from __future__ import annotations

import argparse

import dree  # noqa: F401  (before torch, to say how its threads wait)

# isort: split
from rich.console import Console
from rich.table import Table

from dree.evaluation.classical import ClassicalSolver, FastTSP, PyVRP
from dree.evaluation.classical.hgs import TimedHGS
from dree.evaluation.classical.worker import Worker
from dree.experiments import load_solver
from dree.experiments.shipped import SHIPPED, shipped_folder
from dree.routing import Plan
from dree.routing.construct import construct
from dree.routing.improve import as_problem
from large_days import a_day


def searches(problem: str, seconds: float) -> dict[str, tuple[ClassicalSolver, bool]]:
    """Name -> search, and whether it gets the routes to begin with."""
    if problem == "tsp":
        return {"fast-tsp": (FastTSP(seconds, searches=1), False), "HGS": (TimedHGS(seconds, 10**8), False)}
    pyvrp = PyVRP(seconds)
    return {"HGS": (TimedHGS(seconds, 10**8), False), "PyVRP": (pyvrp, False), "PyVRP, warm": (pyvrp, True)}


def found_by(search: ClassicalSolver, plan: Plan, warm: bool) -> float:
    problem = as_problem(plan) if warm else as_problem(plan)._replace(begin=None)
    with Worker(search) as worker:
        routes = worker.solve(problem)
    if plan.orders.depot is None:
        return Plan.of(plan.orders, [[0, *routes[0]]]).length
    return Plan.of(plan.orders, [[node - 1 for node in route] for route in routes]).length


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default="tsp,cvrp")
    parser.add_argument("--sizes", default="30,100,300,1000")
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5.0)
    chosen = parser.parse_args()
    console = Console()
    for problem in chosen.problems.split(","):
        kinds = searches(problem, chosen.seconds)
        table = Table(title=f"{problem}, {chosen.seconds:g} s: per cent shorter than the neural routes, by day")
        for name in ("stops", *kinds):
            table.add_column(name, justify="right")
        solver = load_solver(shipped_folder(SHIPPED[problem]))
        for stops in map(int, chosen.sizes.split(",")):
            plans = [construct(solver, a_day(problem, stops, seed)) for seed in range(chosen.days)]
            cells = [
                "  ".join(f"{100 * (1 - found_by(search, plan, warm) / plan.length):.2f}" for plan in plans)
                for search, warm in kinds.values()
            ]
            table.add_row(str(stops), *cells)
        console.print(table)


if __name__ == "__main__":
    main()
