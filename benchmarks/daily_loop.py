"""The daily loop on real days: what learning 20 of them does for days to come, and for the first ones.

    python benchmarks/daily_loop.py DATA.csv STATE_DIR [--method dree] [--days 20] [--minutes 1] [--start RUN]
        [--depot LAT,LON --capacity STOPS]

DATA is a file of orders with many days, such as one of LaDe-D. The first days with enough stops are learned in a new
state directory, exactly as `dree learn` does it. Then the solver of the start, the newest version and the version in
use are tested on days that come later (every third of the rest) and on the first five that were learned, on instances
that the daily loop has not seen, greedily in eight symmetric copies, against HGS. To compare methods with the same
budget, run them side by side with OMP_NUM_THREADS=1 each.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import dree  # noqa: F401  (before torch, to say how its threads wait)

# isort: split
from rich.console import Console
from rich.table import Table

from dree.data.orders import read_orders
from dree.data.orders_options import parse_capacity, parse_depot
from dree.files import write_json
from dree.service.budget import Budget
from dree.service.days import Given, settings_of, unlearnable
from dree.service.gate import MARGIN, forgetting
from dree.service.learning import Learning, learn_days
from dree.service.lock import locked, now
from dree.service.samples import Sample, draw_sample
from dree.service.starting import Wanted, first_settings
from dree.service.state import State
from dree.tasks.orders import Orders, OrdersTask

FIRST, EVERY = 5, 3
SEED = 1  # of the instances that are tested; those of the daily loop have another


def tests_of(days: list[Orders]) -> list[Sample]:
    return [draw_sample(OrdersTask(day), SEED) for day in days]


def told(state: State) -> None:
    version = state.versions[-1]
    print(version.day, version.stops, version.batches, version.today, version.past, version.reason, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("state", type=Path)
    parser.add_argument("--method", default="dree")
    parser.add_argument("--days", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--margin", type=float, default=MARGIN)
    parser.add_argument("--start", type=Path)
    parser.add_argument("--depot", type=parse_depot)
    parser.add_argument("--capacity", type=parse_capacity)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    read = read_orders(asked.data, depot=asked.depot, capacity=asked.capacity)
    usable = [day for day in read.days if unlearnable(day) is None]
    learned, later = usable[: asked.days], usable[asked.days :: EVERY]
    sets = {"later days": tests_of(later), "first days": tests_of(learned[:FIRST])}
    how = Learning(Budget(asked.minutes), asked.margin)
    settings, solver = first_settings(settings_of(learned[0], Given()), Wanted(asked.start, asked.method))
    began = time.perf_counter()
    with locked(asked.state, "benchmark"):
        state = State.create(asked.state, settings, solver, now())
        state = learn_days(state, learned, how, told)
    minutes = (time.perf_counter() - began) / 60
    found = {}
    for name, number in (("start", 0), ("newest", len(state.versions) - 1), ("in use", state.in_use)):
        solver = state.solver_of(state.versions[number])
        found[name] = {where: statistics.mean(test.gap(solver) for test in tests) for where, tests in sets.items()}
    table = Table(title=f"{asked.method}: mean gaps in per cent", caption=f"version in use: {state.in_use}")
    table.add_column("solver")
    for where, tests in sets.items():
        table.add_column(f"{len(tests)} {where}", justify="right")
    for name, gaps in found.items():
        table.add_row(name, *(f"{gaps[where]:.3f}" for where in sets))
    Console().print(table)
    lost = forgetting([gap for _, gap in past.gaps] for past in state.past)
    promoted = sum(version.promoted for version in state.versions[1:])
    batches = sum(version.batches for version in state.versions)
    print(f"{len(learned)} days in {minutes:.1f} minutes, {batches} batches, {promoted} versions put to use; {lost}")
    if asked.json:
        content = {"method": asked.method, "minutes": minutes, "batches": batches, "promoted": promoted, "gaps": found}
        write_json(asked.json, content)


if __name__ == "__main__":
    main()
