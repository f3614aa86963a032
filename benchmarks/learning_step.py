"""One learning step: the fast path (solve, then score) against the step-by-step twin, in one run.

    python benchmarks/learning_step.py [--problems tsp,cvrp] [--sizes 20,50,100] [--batch 64] [--repeats 5]
                                       [--precision fp32]

Prints the median time of each and their ratio, and the peak memory of each, which is measured in a process of its
own. Steps of the two are timed in turn, so that both meet the same machine. From n = 100 on, the batch is a quarter:
the twin would need more than 20 GiB. The twin is always in fp32.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import dree  # noqa: F401  (before torch, to say how its threads wait)

# isort: split
import torch
from rich.console import Console
from rich.table import Table

from dree.lifelong import FineTuning, Learner, LearnerSettings
from dree.problems import Instances
from dree.randomness import named_generator
from dree.solvers import make_solver
from dree.solvers.pomo_twin import rollout
from dree.solvers.precision import PRECISIONS
from dree.tasks import principal


def fast_step(problem: str, precision: str) -> Callable[[Instances], object]:
    settings = LearnerSettings(augmentation=1, precision=precision)
    return Learner(make_solver(problem), FineTuning(), settings).learn


def twin_step(problem: str, _precision: str) -> Callable[[Instances], object]:
    solver = make_solver(problem)
    adam = torch.optim.Adam(solver.parameters(), lr=1e-4, weight_decay=1e-6, fused=True)
    batches = 0

    def step(instances: Instances) -> None:
        nonlocal batches
        tours, log_prob = rollout(solver, instances, generator=named_generator(0, "solve", batches))
        loss = ((tours.costs - tours.costs.mean(1, keepdim=True)) * log_prob).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        batches += 1

    return step


STEPS: dict[str, Callable[[str, str], Callable[[Instances], object]]] = {
    "fast": fast_step,
    "twin": twin_step,
}


def draw(problem: str, size: int, batch: int) -> Instances:
    return principal("U", problem, size).sample(batch, named_generator(0, "benchmark"))


def times(problem: str, size: int, batch: int, repeats: int, precision: str) -> dict[str, float]:
    instances = draw(problem, size, batch)
    steps = {name: make(problem, precision) for name, make in STEPS.items()}
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for repeat in range(repeats + 1):
        for name, step in steps.items():
            began = time.perf_counter()
            step(instances)
            if repeat:  # the first is to warm up
                taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in taken.items()}


def peak_memory(name: str, problem: str, size: int, batch: int, precision: str) -> float:
    """MiB above what the process had before its first step, from a process of its own."""
    command = [sys.executable, __file__, "--memory-of", name, problem, str(size), str(batch), precision]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def memory_of(name: str, problem: str, size: int, batch: int, precision: str) -> float:
    step, instances = STEPS[name](problem, precision), draw(problem, size, batch)
    step(draw(problem, 5, 2))
    before = high_water()
    step(instances)
    return high_water() - before


def high_water() -> float:
    """The most memory this process ever had, in MiB."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default="tsp,cvrp")
    parser.add_argument("--sizes", default="20,50,100")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--precision", default="fp32", choices=PRECISIONS)
    parser.add_argument("--memory-of", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        name, problem, size, batch, precision = options.memory_of
        print(memory_of(name, problem, int(size), int(batch), precision))
        return
    table = Table(title=f"one learning step, {options.precision}, {torch.get_num_threads()} threads")
    for heading in ("problem", "n", "batch", *(f"{name} ms" for name in STEPS), "twin / fast"):
        table.add_column(heading, justify="right")
    for heading in ("fast MiB", "twin MiB", "twin / fast"):
        table.add_column(heading, justify="right")
    for problem in options.problems.split(","):
        for size in map(int, options.sizes.split(",")):
            batch = options.batch if size < 100 else options.batch // 4
            took = times(problem, size, batch, options.repeats, options.precision)
            memory = [peak_memory(name, problem, size, batch, options.precision) for name in STEPS]
            ratio = f"{took['twin'] / took['fast']:.2f}"
            cells = [f"{1000 * each:.0f}" for each in took.values()]
            table.add_row(
                problem,
                str(size),
                str(batch),
                *cells,
                ratio,
                *(f"{each:.0f}" for each in memory),
                f"{memory[1] / memory[0]:.1f}",
            )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
