"""The decoder's kernels in CUDA C++ beside those in Triton, on this GPU and in one run: milliseconds, and their ratio.

    python benchmarks/warp_kernels.py [--problems tsp,cvrp] [--sizes 20,50,100] [--batch 256] [--repeats 9]

Rollouts are sampled and recorded, from all starts, by the solvers that come with dree, in bf16; the gradient is that of
their log-probabilities. Times are medians, and include what is done around a kernel, such as making room.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from unittest import mock

import torch
from rich.console import Console
from rich.table import Table

from dree.experiments import load_solver
from dree.experiments.shipped import SHIPPED, shipped_folder
from dree.randomness import named_generator
from dree.solvers import warp_rollout
from dree.solvers.decoding import AnyTape
from dree.solvers.kernel_decoder import KernelDecoder
from dree.solvers.precision import in_precision
from dree.tasks import principal


def works(problem: str, size: int, batch: int, device: torch.device) -> dict[str, Callable[[], object]]:
    """What is timed of one way to make recorded tours and their gradient."""
    solver = load_solver(shipped_folder(SHIPPED[problem])).to(device)
    generator = named_generator(0, "kernels", device=device)
    instances = principal("U", problem, size).sample(batch, generator)
    starts, longest = solver.starts(instances, generator), solver.rules.longest(instances)
    with torch.no_grad(), in_precision("bf16", device, learning=True):
        decoder = solver.encode(instances)
    assert isinstance(decoder, KernelDecoder), "kernels serve CUDA devices only"

    def roll() -> AnyTape:
        _, recorded = decoder.rollout(instances, starts, longest, 10.0, generator, record=True)
        assert recorded is not None
        return recorded[1]

    tape, weights = roll(), torch.randn(starts.shape, device=device, generator=generator)
    return {"rollout": roll, "gradient": lambda: tape.score(weights)}


def milliseconds(work: Callable[[], object], repeats: int) -> float:
    """The median time of some work."""
    times = []
    for _ in range(repeats + 1):
        torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default="tsp,cvrp")
    parser.add_argument("--sizes", default="20,50,100")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("These kernels need a CUDA device, and there is none.")
    table = Table(title=f"{options.batch} instances, {torch.cuda.get_device_name()}, torch {torch.__version__}")
    for heading in ("kernel", "problem", "n", "Triton, ms", "CUDA C++, ms", "ratio"):
        table.add_column(heading, justify="right")
    for problem in options.problems.split(","):
        for size in map(int, options.sizes.split(",")):
            fast = works(problem, size, options.batch, torch.device("cuda"))
            with mock.patch.object(warp_rollout, "serves", return_value=False):
                slow = works(problem, size, options.batch, torch.device("cuda"))
                before = {name: milliseconds(work, options.repeats) for name, work in slow.items()}
            for name, work in fast.items():
                now = milliseconds(work, options.repeats)
                row = (f"{before[name]:.2f}", f"{now:.2f}", f"{before[name] / now:.2f}")
                table.add_row(name, problem, str(size), *row)
    Console().print(table)


if __name__ == "__main__":
    main()
