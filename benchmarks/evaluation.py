"""Greedy evaluation from all starts, as `dree evaluate` does it, against the step-by-step twin, in one run.

    python benchmarks/evaluation.py [--problems tsp,cvrp] [--sizes 20,50,100] [--instances 1000] [--repeats 3]

Prints the instances per second of both, with the full-size network, and their ratio. The two solve the same uniform
instances in turn, so that both meet the same machine; of larger ones there are fewer (a fifth at n = 50, a twentieth
at n = 100), and the twin, without gradient here, gets them in batches of 100.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

import dree  # noqa: F401  (before torch, to say how its threads wait)

# isort: split
import torch
from rich.console import Console
from rich.table import Table

from dree.evaluation.evaluate import best_tours
from dree.problems import Instances
from dree.randomness import named_generator
from dree.solvers import POMO, make_solver
from dree.solvers.pomo_twin import rollout
from dree.tasks import principal

SHARES = {20: 1, 50: 5, 100: 20}  # size -> by what the number of instances is divided
TWIN_BATCH = 100


def fast(solver: POMO, instances: Instances) -> None:
    best_tours(solver, instances)


@torch.no_grad()
def twin(solver: POMO, instances: Instances) -> None:
    for row in range(0, len(instances), TWIN_BATCH):
        rollout(solver, instances[row : row + TWIN_BATCH])[0].best()


WAYS: dict[str, Callable[[POMO, Instances], None]] = {"fast": fast, "twin": twin}


def seconds(solver: POMO, instances: Instances, repeats: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in WAYS}
    for way in WAYS.values():
        way(solver, instances[:2])  # to warm up
    for _ in range(repeats):
        for name, way in WAYS.items():
            began = time.perf_counter()
            way(solver, instances)
            taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default="tsp,cvrp")
    parser.add_argument("--sizes", default="20,50,100")
    parser.add_argument("--instances", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    table = Table(title=f"greedy evaluation, {torch.get_num_threads()} threads, load before {load:.1f}")
    for heading in ("problem", "n", "instances", "seconds", "fast /s", "twin /s", "fast / twin", "1000 take"):
        table.add_column(heading, justify="right")
    for problem in options.problems.split(","):
        solver = make_solver(problem)
        for size in map(int, options.sizes.split(",")):
            count = max(1, options.instances // SHARES.get(size, 20))
            instances = principal("U", problem, size).sample(count, named_generator(0, "benchmark"))
            took = seconds(solver, instances, options.repeats)
            rates = [f"{count / took[name]:.0f}" for name in WAYS]
            ratio, thousand = took["twin"] / took["fast"], 1000 * took["fast"] / count
            cells = (str(size), str(count), f"{took['fast']:.2f}", *rates, f"{ratio:.2f}", f"{thousand:.1f} s")
            table.add_row(problem, *cells)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
