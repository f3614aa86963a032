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

from dree.experiments.bench_parts import twin_step
from dree.lifelong import FineTuning, Learner, LearnerSettings
from dree.problems import Instances
from dree.randomness import named_generator
from dree.settings import build
from dree.solvers import SOLVERS, Solver, make_solver
from dree.solvers.precision import PRECISIONS
from dree.tasks import principal

Step = Callable[[Instances], object]


def fast_step(solver: Solver, precision: str) -> Step:
    settings = build(LearnerSettings, {**solver.learning, "augmentation": 1, "precision": precision})
    return Learner(solver, FineTuning(), settings).learn


def slow_step(solver: Solver, _precision: str) -> Step:
    return twin_step(solver, build(LearnerSettings, solver.learning))


STEPS: dict[str, Callable[[Solver, str], Step]] = {"fast": fast_step, "twin": slow_step}


def draw(problem: str, size: int, batch: int, device: str) -> Instances:
    return principal("U", problem, size).sample(batch, named_generator(0, "benchmark")).to(device)


class Worker:
    """One of the two in a process of its own."""

    def __init__(self, *what: object) -> None:
        command = [sys.executable, __file__, "--worker", *map(str, what)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def step(self) -> float:
        """Seconds that one step takes."""
        assert self.process.stdin
        print(file=self.process.stdin, flush=True)
        return self.answer()

    def memory(self) -> float:
        """The end: MiB above what the process had before its first step; of a GPU, all that was in use."""
        assert self.process.stdin
        self.process.stdin.close()
        return self.answer()

    def answer(self) -> float:
        assert self.process.stdout
        return float(self.process.stdout.readline())


def work(name: str, base: str, problem: str, size: int, batch: int, precision: str, device: str) -> None:
    """Make a step for every line that comes in, and say how long it took; at the end, how much memory."""
    step = STEPS[name](make_solver(problem, base).to(device), precision)
    instances = draw(problem, size, batch, device)
    step(draw(problem, 5, 2, device))
    before = high_water(device)
    for _ in sys.stdin:
        wait(device)
        began = time.perf_counter()
        step(instances)
        wait(device)
        print(time.perf_counter() - began, flush=True)
    print(high_water(device) - (before if device == "cpu" else 0))


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def high_water(device: str) -> float:
    """The most memory this process ever had, in MiB."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


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
    where = f"{torch.get_num_threads()} threads" if options.device == "cpu" else torch.cuda.get_device_name()
    table = Table(title=f"one learning step of {options.solver}, {options.precision}, {where}")
    for heading in ("problem", "n", "batch", *(f"{name} ms" for name in STEPS), "twin / fast"):
        table.add_column(heading, justify="right")
    for heading in ("fast MiB", "twin MiB", "twin / fast"):
        table.add_column(heading, justify="right")
    for problem in options.problems.split(","):
        for size in map(int, options.sizes.split(",")):
            batch = options.batch if size < 100 else options.batch // 4
            what = (options.solver, problem, size, batch, options.precision, options.device)
            workers = [Worker(name, *what) for name in STEPS]
            rounds = [[worker.step() for worker in workers] for _ in range(options.repeats + 1)]
            fast, twin = map(statistics.median, zip(*rounds[1:], strict=True))  # the first is to warm up
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
