"""A learning step of POMO and greedy solving, against a peer's, on one machine in one run.

    python -m venv peer && peer/bin/pip install rl4co==0.7.0
    python benchmarks/peers.py peer/bin/python [--problems tsp,cvrp] [--sizes 20,50,100] [--batch 64] [--repeats 5]
                               [--work learn,solve] [--device cpu|cuda]

The peer, RL4CO, is a library of neural solvers; its POMO has the same encoder, heads and starts. Both learn from as
many uniform instances, or solve four times as many greedily from all starts, with an untrained network: in fp32 on a
CPU, and on a GPU with matrix products in 16 bits, as both recommend. From n = 100 on, batches are a quarter as large.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import dree  # noqa: F401  (before torch, to say how its threads wait)

# isort: split
from rich.console import Console
from rich.table import Table

from dree.evaluation.evaluate import best_tours
from dree.lifelong import FineTuning, Learner, LearnerSettings
from dree.problems import Instances
from dree.randomness import named_generator
from dree.solvers import POMO, make_solver
from dree.tasks import principal
from workers import Worker, in_turn, serve, where

PEER = Path(__file__).with_name("peer_rl4co.py")


def learn(solver: POMO) -> Callable[[Instances], object]:
    return Learner(solver, FineTuning(), LearnerSettings(augmentation=1)).learn


def solve(solver: POMO) -> Callable[[Instances], object]:
    return lambda instances: best_tours(solver, instances)


WORK = {"learn": learn, "solve": solve}
TIMES = {"learn": 1, "solve": 4}  # batches at once


def work(name: str, problem: str, size: int, batch: int, device: str) -> None:
    """Do it when told to."""
    do = WORK[name](make_solver(problem).to(device))
    instances, small = (
        principal("U", problem, nodes).sample(count, named_generator(0, "benchmark")).to(device)
        for nodes, count in ((size, batch), (5, 2))
    )
    serve(lambda: do(instances), lambda: do(small), device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", nargs="?", help="a Python that has rl4co")
    parser.add_argument("--problems", default="tsp,cvrp")
    parser.add_argument("--sizes", default="20,50,100")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--work", default="learn,solve")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--worker", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        name, problem, size, batch, device = options.worker
        work(name, problem, int(size), int(batch), device)
        return
    if options.peer is None:
        parser.error("which Python has rl4co? Make one as said above, and name it")
    table = Table(title=f"dree and RL4CO, POMO, {where(options.device)}")
    for heading in ("", "problem", "n", "batch", "dree ms", "RL4CO ms", "RL4CO / dree"):
        table.add_column(heading, justify="right")
    for heading in ("dree MiB", "RL4CO MiB", "RL4CO / dree"):
        table.add_column(heading, justify="right")
    for name in options.work.split(","):
        for problem in options.problems.split(","):
            for size in map(int, options.sizes.split(",")):
                batch = options.batch * TIMES[name] // (1 if size < 100 else 4)
                what = (name, problem, size, batch, options.device)
                commands = [(sys.executable, __file__, "--worker"), (options.peer, PEER)]
                workers = [Worker(*command, *what) for command in commands]
                ours, theirs = in_turn(workers, options.repeats)
                memory = [worker.memory() for worker in workers]
                times = (f"{1000 * ours:.0f}", f"{1000 * theirs:.0f}", f"{theirs / ours:.1f}")
                kept = (*(f"{each:.0f}" for each in memory), f"{memory[1] / memory[0]:.1f}")
                table.add_row(name, problem, str(size), str(batch), *times, *kept)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
