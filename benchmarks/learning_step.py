"""One learning step: the fast path (solve, then score) against the step-by-step twin, in one run.

    python benchmarks/learning_step.py [--solver pomo|invit] [--problems tsp,cvrp] [--sizes 20,50,100] [--batch 64]
                                       [--repeats 5] [--precision fp32] [--device cpu|cuda]

Prints the median time of each and their ratio, and the peak memory of each. Each has a process of its own, so that
neither works in memory that the other has cut up; their steps are timed in turn, so that both meet the same machine.
From n = 100 on, the batch is a quarter: POMO's twin would need more than 20 GiB. The twin is always in fp32. INViT's
step has a tour of each instance and the greedy tour of a frozen copy, as its learner makes them; so has its twin's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import dree  # noqa: F401  (before torch, to say how its threads wait)

# isort: split
from rich.console import Console
from rich.table import Table

from dree.experiments.bench_parts import twin_step
from dree.lifelong import FineTuning, Learner, LearnerSettings
from dree.problems import Instances
from dree.randomness import named_generator
from dree.settings import build
from dree.solvers import SOLVERS, Solver, make_solver
from dree.solvers.precision import PRECISIONS
from dree.tasks import principal
from workers import Worker, in_turn, serve, where

Step = Callable[[Instances], object]


def fast_step(solver: Solver, precision: str) -> Step:
    settings = build(LearnerSettings, {**solver.learning, "augmentation": 1, "precision": precision})
    return Learner(solver, FineTuning(), settings).learn


def slow_step(solver: Solver, _precision: str) -> Step:
    return twin_step(solver, build(LearnerSettings, solver.learning))


STEPS: dict[str, Callable[[Solver, str], Step]] = {"fast": fast_step, "twin": slow_step}


def draw(problem: str, size: int, batch: int, device: str) -> Instances:
    return principal("U", problem, size).sample(batch, named_generator(0, "benchmark")).to(device)


def work(name: str, base: str, problem: str, size: int, batch: int, precision: str, device: str) -> None:
    """Make steps when told to."""
    step = STEPS[name](make_solver(problem, base).to(device), precision)
    instances, small = draw(problem, size, batch, device), draw(problem, 5, 2, device)
    serve(lambda: step(instances), lambda: step(small), device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--solver", default="pomo", choices=SOLVERS)
    parser.add_argument("--problems", default="tsp,cvrp")
    parser.add_argument("--sizes", default="20,50,100")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--precision", default="fp32", choices=PRECISIONS)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--worker", nargs=7, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        name, base, problem, size, batch, precision, device = options.worker
        work(name, base, problem, int(size), int(batch), precision, device)
        return
    title = f"one learning step of {options.solver}, {options.precision}, {where(options.device)}"
    table = Table(title=title)
    for heading in ("problem", "n", "batch", *(f"{name} ms" for name in STEPS), "twin / fast"):
        table.add_column(heading, justify="right")
    for heading in ("fast MiB", "twin MiB", "twin / fast"):
        table.add_column(heading, justify="right")
    for problem in options.problems.split(","):
        for size in map(int, options.sizes.split(",")):
            batch = options.batch if size < 100 else options.batch // 4
            what = (options.solver, problem, size, batch, options.precision, options.device)
            workers = [Worker(sys.executable, __file__, "--worker", name, *what) for name in STEPS]
            fast, twin = in_turn(workers, options.repeats)
            memory = [worker.memory() for worker in workers]
            table.add_row(
                problem,
                str(size),
                str(batch),
                f"{1000 * fast:.0f}",
                f"{1000 * twin:.0f}",
                f"{twin / fast:.2f}",
                *(f"{each:.0f}" for each in memory),
                f"{memory[1] / memory[0]:.1f}",
            )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
