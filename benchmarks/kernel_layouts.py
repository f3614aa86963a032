"""How the decoder's Triton kernels are best cut on this GPU: each way of cutting them, timed, the fastest first.

    python benchmarks/kernel_layouts.py [--problem cvrp] [--sizes 70,100] [--tiles 128,64+16,64+32+16]
        [--rows 64x4,32x2,16x1] [--stages 1,3] [--registers 0,168] [--batch 256] [--workers 8] [--best 6]

Rollouts are sampled and recorded, from all starts, by the solver that comes with dree, in bf16; the gradient is that of
their log-probabilities. Rows are so many tours or states to a program x so many warps; registers are at most so many to
a thread, 0 for as many as it likes. Tiles that do not hold a size's nodes, or would do with one less, are left out.
What `dree.kernels.layout` says now has a star. Kernels are compiled by several processes, and timed by one at a time.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.synchronize import Lock
from unittest import mock

import torch
from rich.console import Console
from rich.table import Table

from dree.experiments import load_solver
from dree.experiments.shipped import SHIPPED, shipped_folder
from dree.kernels.layout import Layout, gradient_layout, rollout_layout, tiles
from dree.randomness import named_generator
from dree.solvers import kernel_decoder, kernel_gradients, warp_rollout
from dree.solvers.kernel_decoder import KernelDecoder, KernelTape
from dree.solvers.precision import in_precision
from dree.tasks import principal

KERNELS = {"rollout": rollout_layout, "gradient": gradient_layout}


@dataclass(frozen=True)
class Case:
    """A kernel for instances of one size, and a way to cut it."""

    kernel: str
    problem: str
    size: int
    layout: Layout
    tiles: tuple[int, ...]

    @property
    def nodes(self) -> int:
        return self.size + (self.problem == "cvrp")

    @property
    def today(self) -> bool:
        """Whether it is cut so now."""
        now = KERNELS[self.kernel](self.nodes, torch.bfloat16)
        return self.layout == now and self.tiles == tiles(self.nodes)


def milliseconds(case: Case, batch: int, repeats: int, device: str, precision: str, lock: Lock) -> float:
    """The median time of the kernel and what is done around it, such as making room; compiled before it is timed."""
    cut = kernel_decoder if case.kernel == "rollout" else kernel_gradients
    with (
        mock.patch.object(kernel_decoder, "tiles", return_value=case.tiles),
        mock.patch.object(kernel_gradients, "tiles", return_value=case.tiles),
        mock.patch.object(cut, f"{case.kernel}_layout", return_value=case.layout),
        mock.patch.object(warp_rollout, "serves", return_value=False),
    ):
        launched(case, 1, device, precision)()
        with lock:
            launch = launched(case, batch, device, precision)
            launch()
            return 1000 * statistics.median(seconds(launch, device) for _ in range(repeats))


def launched(case: Case, batch: int, device: str, precision: str) -> Callable[[], object]:
    """A way to launch the kernel on so many instances."""
    solver = load_solver(shipped_folder(SHIPPED[case.problem])).to(device)
    instances = principal("U", case.problem, case.size).sample(batch, named_generator(0, "layouts")).to(device)
    generator = named_generator(0, "layouts", device=torch.device(device))
    starts, longest = solver.starts(instances, generator), solver.rules.longest(instances)
    with torch.no_grad(), in_precision(precision, instances.device, learning=True):
        decoder = solver.encode(instances)
    assert isinstance(decoder, KernelDecoder), "kernels serve CUDA devices only"

    def roll() -> KernelTape:
        _, recorded = decoder.rollout(instances, starts, longest, 10.0, generator, record=True)
        assert recorded is not None
        return recorded[1]

    if case.kernel == "rollout":
        return roll
    tape = roll()
    return lambda: tape.score(torch.ones_like(tape.log_prob))


def seconds(work: Callable[[], object], device: str) -> float:
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    wait()
    began = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - began


def tried(case: Case, *how: object) -> float | None:
    """The same, or None where it cannot be cut so."""
    try:
        return milliseconds(case, *how, LOCK)  # type: ignore[arg-type]
    except Exception as error:  # such as too little shared memory, or registers
        print(f"{case}: {type(error).__name__}: {str(error)[:200]}")
        return None


LOCK: Lock


def share(lock: Lock) -> None:
    global LOCK
    LOCK = lock


def cases(problem: str, sizes: Iterable[int], cuts: Iterable[tuple[int, ...]], layouts: list[Layout]) -> list[Case]:
    """All of them, those of today included."""
    found = []
    for size, kernel in itertools.product(sizes, KERNELS):
        nodes = size + (problem == "cvrp")
        fitting = [cut for cut in cuts if sum(cut[:-1]) < nodes <= sum(cut)]
        found += [Case(kernel, problem, size, layout, cut) for layout in layouts for cut in fitting]
        found.append(Case(kernel, problem, size, KERNELS[kernel](nodes, torch.bfloat16), tiles(nodes)))
    return list(dict.fromkeys(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", default="cvrp", choices=SHIPPED)
    parser.add_argument("--sizes", default="70,100")
    parser.add_argument("--tiles", default="128,64+16,64+32+16")
    parser.add_argument("--rows", default="64x4,32x2,16x1")
    parser.add_argument("--stages", default="1,3")
    parser.add_argument("--registers", default="0,168")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--best", type=int, default=6)
    options = parser.parse_args()
    shapes = [tuple(map(int, shape.split("x"))) for shape in options.rows.split(",")]
    stages, registers = (map(int, each.split(",")) for each in (options.stages, options.registers))
    layouts = [
        Layout(*shape, ahead, most or None) for shape, ahead, most in itertools.product(shapes, stages, registers)
    ]
    cuts = [tuple(map(int, cut.split("+"))) for cut in options.tiles.split(",")]
    todo = cases(options.problem, map(int, options.sizes.split(",")), cuts, layouts)
    spawn = get_context("spawn")
    with ProcessPoolExecutor(options.workers, spawn, initializer=share, initargs=(spawn.Lock(),)) as pool:
        running = [pool.submit(tried, case, options.batch, options.repeats, "cuda", "bf16") for case in todo]
        times = {case: each.result() for case, each in zip(todo, running, strict=True)}
    table = Table(title=f"{options.problem}, {options.batch} instances, {torch.cuda.get_device_name()}")
    for heading in ("kernel", "n", "ms", "tiles", "rows x warps", "stages", "registers", "now"):
        table.add_column(heading)
    for (kernel, size), group in itertools.groupby(todo, key=lambda case: (case.kernel, case.size)):
        done = sorted((when, number, case) for number, case in enumerate(group) if (when := times[case]) is not None)
        for rank, (when, _, case) in enumerate(done):
            if rank < options.best or case.today:
                cut, layout = "+".join(map(str, case.tiles)), case.layout
                shape = f"{layout.rows} x {layout.warps}"
                most, star = str(layout.registers or ""), "*" if case.today else ""
                table.add_row(kernel, str(size), f"{when:.2f}", cut, shape, str(layout.stages), most, star)
    Console().print(table)


if __name__ == "__main__":
    main()
