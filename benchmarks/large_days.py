"""Days from small to larger than solvers were trained for: how long `dree solve` takes, and how good its routes are.

    python benchmarks/large_days.py [--problems tsp,cvrp] [--sizes 30,100,300,1000] [--days 2] [--improve 5]

For each size it makes days in a plane, one uniform and one in clusters in turn; a CVRP has a depot in the middle and
vehicles for about 10 stops. With the solvers that come with dree, each in a process of its own, it prints the seconds,
the peak memory and the gap to a reference, in per cent, of: one greedy pass over the whole day (of a large one from few
starts), what `dree solve` does, and that with `--improve`. The reference is the best of all these and of a classical
search of `--reference` seconds (fast-tsp; HGS and PyVRP).
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time

import dree  # noqa: F401  (before torch, to say how its threads wait)

# isort: split
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from dree.evaluation.classical import FastTSP, PyVRP
from dree.evaluation.classical.hgs import TimedHGS
from dree.evaluation.classical.worker import Worker
from dree.evaluation.evaluate import best_tours
from dree.experiments import load_solver
from dree.experiments.shipped import SHIPPED, shipped_folder
from dree.problems import SYMMETRIES
from dree.routing import Plan
from dree.routing.construct import construct
from dree.routing.improve import as_problem, improved
from dree.tasks.orders import Orders

STATES = 2**27  # copies x starts x nodes x nodes of one pass over a whole day, about
Row = tuple[float, float, float]  # seconds, MiB, length


def a_day(problem: str, stops: int, seed: int) -> Orders:
    generator = np.random.default_rng(seed)
    places = generator.random((stops, 2))
    if seed % 2:
        centres = generator.random((8, 2))
        places = np.clip(centres[generator.integers(0, 8, stops)] + generator.normal(0, 0.06, (stops, 2)), 0, 1)
    names = tuple(map(str, range(stops)))
    if problem == "tsp":
        return Orders("day", places, names, geographic=False)
    return Orders("day", places, names, False, (0.5, 0.5), generator.integers(1, 10, stops), 50)


def whole(problem: str, orders: Orders, _: float) -> Plan:
    solver = load_solver(shipped_folder(SHIPPED[problem]))
    starts = max(1, STATES // (SYMMETRIES * len(orders.nodes) ** 2))
    best = best_tours(solver, orders.instance(), SYMMETRIES, precision="fp32", most_starts=starts)
    return Plan.of_actions(orders, best.actions.flatten().tolist())


def parts(problem: str, orders: Orders, _: float) -> Plan:
    return construct(load_solver(shipped_folder(SHIPPED[problem])), orders)


def polished(problem: str, orders: Orders, seconds: float) -> Plan:
    return improved(parts(problem, orders, seconds), seconds)[0]


WAYS = {"whole": whole, "dree solve": parts, "--improve": polished}


def measured(way: str, problem: str, orders: Orders, seconds: float) -> tuple[Row, Plan]:
    began = time.perf_counter()
    plan = WAYS[way](problem, orders, seconds)
    taken = time.perf_counter() - began
    return (taken, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, plan.length), plan


def reference(plan: Plan, seconds: float) -> float:
    """The length of the best that classical solvers find in so many seconds each."""
    solvers = [FastTSP(seconds, searches=1)] if plan.orders.problem == "tsp" else [TimedHGS(seconds), PyVRP(seconds)]
    lengths = []
    for solver in solvers:
        with Worker(solver) as worker:
            routes = worker.solve(as_problem(plan))
        depot = plan.orders.depot is not None
        lengths.append(
            Plan.of(plan.orders, [[n - 1 for n in r] for r in routes] if depot else [[0, *routes[0]]]).length
        )
    return min(lengths)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default="tsp,cvrp")
    parser.add_argument("--sizes", default="30,100,300,1000")
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--improve", type=float, default=5.0, help="seconds")
    parser.add_argument("--reference", type=float, default=20.0, help="seconds")
    chosen = parser.parse_args()
    table = Table(title=f"{torch.get_num_threads()} threads; gaps to the best known, in per cent")
    for name in ("problem", "stops", "way", "seconds", "MiB", *(f"day {day}" for day in range(chosen.days))):
        table.add_column(name, justify="right")
    context = multiprocessing.get_context("spawn")
    for problem in chosen.problems.split(","):
        for stops in map(int, chosen.sizes.split(",")):
            rows: dict[str, list[Row]] = {way: [] for way in WAYS}
            best = []
            for seed in range(chosen.days):
                orders = a_day(problem, stops, seed)
                for way in WAYS:
                    with context.Pool(1) as pool:
                        row, plan = pool.apply(measured, (way, problem, orders, chosen.improve))
                    rows[way].append(row)
                best.append(min(reference(plan, chosen.reference), *(rows[way][-1][2] for way in WAYS)))
            for way, found in rows.items():
                gaps = [f"{100 * (length / least - 1):.2f}" for (_, _, length), least in zip(found, best, strict=True)]
                seconds, memory = (max(row[column] for row in found) for column in (0, 1))
                table.add_row(problem, str(stops), way, f"{seconds:.1f}", f"{memory:.0f}", *gaps)
    Console().print(table)


if __name__ == "__main__":
    main()
