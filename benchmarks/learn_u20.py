"""Does it learn? TSP, uniform, 20 nodes, full-size network on the CPU for a given number of minutes.

    python benchmarks/learn_u20.py [--minutes 10]

Prints the average gap on the built-in test set as it goes.
"""

from __future__ import annotations

import argparse
import time

from dree.data import load_test
from dree.evaluation.evaluate import average_gap
from dree.lifelong import FineTuning, Learner, LearnerSettings
from dree.randomness import named_generator
from dree.solvers import make_solver
from dree.tasks import principal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=5e-4)
    options = parser.parse_args()
    settings = LearnerSettings(learning_rate=options.rate, augmentation=1)
    learner = Learner(make_solver("tsp"), FineTuning(), settings)
    task, test = principal("U", "tsp"), load_test("tsp", "U", 20)
    spent = 0.0
    while spent < 60 * options.minutes:
        began = time.perf_counter()
        for _ in range(200):
            generator = named_generator(0, "instances", learner.batches)
            learner.learn(task.sample(options.batch, generator))
        spent += time.perf_counter() - began
        gap = average_gap(learner.solver, test)
        print(f"{spent / 60:5.2f} min  {learner.batches:6d} batches  gap {gap:.2f} %", flush=True)


if __name__ == "__main__":
    main()
