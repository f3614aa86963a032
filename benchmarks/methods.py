"""What methods cost beside fine-tuning, in one run: time of a batch, memory of buffers, operations of behaviour replay.

    python benchmarks/methods.py [--problems tsp,cvrp] [--sizes 20,50] [--batch 32] [--augmentation 1] [--repeats 5]
    OMP_NUM_THREADS=1 python benchmarks/methods.py --clock cpu                 # on a machine that has other work to do

Times are the shortest of the repeats, since neighbours on the machine can only add to them; the methods take turns,
batch by batch. MT-Ref does what fine-tuning does: how far it is from 1 says how far to trust the others. Buffers are
warm: full, and as after a million batches, when a new one is hardly ever kept. DREE is timed with and without instance
replay, and as a mixture of the two with an instance replay every 3.56 batches, as often as in the paper. An epoch has
128 batches with DREE and 164 with fine-tuning.

Operations are those of one behaviour replay, as `dree reproduce flops` counts them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dree  # noqa: F401  (before torch, to say how its threads wait)

# isort: split
import torch
from rich.console import Console
from rich.table import Table

from dree.lifelong import DREE, LLRBC, Learner, LearnerSettings, Li, make_method
from dree.lifelong.methods.dree import ABLATION_INTERVAL, DREEOptions
from dree.lifelong.methods.li import LiOptions
from dree.lifelong.methods.llr_bc import LLRBCOptions
from dree.randomness import named_generator
from dree.reproduce.flops import experience, published_flops, replay_flops
from dree.solvers import make_solver
from dree.tasks import DriftStream

NEVER, ALWAYS = {"lower": 1e9, "upper": 1e9}, {"lower": 1.0, "upper": 1.0}
TIMED: dict[str, tuple[str, dict[str, Any]]] = {  # title: method and options
    "fine-tuning": ("fine-tuning", {}),
    "dree, no replay due": ("dree", {"buffer": 4, **NEVER}),
    "dree, replay due": ("dree", {"buffer": 4, **ALWAYS}),
    "llr-bc": ("llr-bc", {"buffer": 16}),
    "li": ("li", {}),
    "mt-ref": ("mt-ref", {}),
    "mt-cumulative": ("mt-cumulative", {"segments": 1}),
}
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
EPOCHS = 50
FULL_SIZES = (20, 50, 100)


@dataclass(frozen=True)
class Case:
    problem: str
    size: int
    batch: int
    augmentation: int

    def stream(self) -> DriftStream:
        """A drift from uniform nodes to uniform nodes: every batch has the same size and costs the same."""
        return DriftStream(self.problem, ("U", "U"), EPOCHS, sizes=(("U", self.size),))

    def learner(self, method: str = "dree", options: dict[str, Any] | None = None) -> Learner:
        settings = LearnerSettings(augmentation=self.augmentation)
        return Learner(make_solver(self.problem), make_method(method, options), settings)


def batches(case: Case, learner: Learner, clock: Callable[[], float]) -> Iterator[float]:
    """Seconds that each batch takes, from choosing its task to remembering it; the method is warm before the first."""
    stream, method, epoch = case.stream(), learner.method, EPOCHS // 2
    method.begin(learner, stream, epoch)
    for number in range(10**9):
        generator = named_generator(0, "instances", number)
        began = clock()
        learner.learn(method.choose(stream, epoch, generator).sample(case.batch, generator))
        seconds = clock() - began
        if is_warm(method):
            yield seconds
        else:
            method.end(learner, stream, epoch)


def is_warm(method: object) -> bool:
    """Whether the method does its full work in the next batch; its buffer is then told that it has seen a lot."""
    if isinstance(method, DREE):
        full = len(method.buffer) == method.buffer.capacity
        method.buffer.seen = 10**6 if full else method.buffer.seen
        return full
    if isinstance(method, LLRBC):
        method.collected.seen = 10**6 if method.replayed else method.collected.seen
        return bool(method.replayed)
    return method.exemplar is not None if isinstance(method, Li) else True


def measure(case: Case, repeats: int, clock: Callable[[], float]) -> dict[str, float]:
    """The seconds of a batch of every method."""
    running = {title: batches(case, case.learner(*how), clock) for title, how in TIMED.items()}
    taken: dict[str, list[float]] = {title: [] for title in TIMED}
    for repeat in range(repeats + 1):
        for title, turns in running.items():
            seconds = next(turns)
            if repeat:  # the first is to warm up
                taken[title].append(seconds)
    shortest = {title: min(values) for title, values in taken.items()}
    share = 1 / ABLATION_INTERVAL
    mixed = (1 - share) * shortest["dree, no replay due"] + share * shortest["dree, replay due"]
    return {**shortest, "dree": mixed}


def times_table(cases: Sequence[Case], repeats: int, clock: str) -> Table:
    titles = ["fine-tuning", "dree", *(title for title in TIMED if title != "fine-tuning")]
    results = [measure(case, repeats, CLOCKS[clock]) for case in cases]
    title = f"time of a batch / that of fine-tuning, batch {cases[0].batch}, augmentation {cases[0].augmentation}, "
    table = Table("method", title=title + f"{clock} clock, {torch.get_num_threads()} threads")
    for case in cases:
        table.add_column(f"{case.problem} {case.size}", justify="right")
    table.add_row("fine-tuning, ms", *(f"{1000 * result['fine-tuning']:.0f}" for result in results), end_section=True)
    for name in titles[1:]:
        table.add_row(name, *(f"{result[name] / result['fine-tuning']:.2f}" for result in results))
    epoch = [128 * result["dree"] / (164 * result["fine-tuning"]) for result in results]
    table.add_section()
    table.add_row("dree, an epoch", *(f"{ratio:.2f}" for ratio in epoch))
    return table


def step_bytes(case: Case) -> int:
    """What LLR-BC keeps of one step of a batch."""
    learner, stream = case.learner("llr-bc", {"buffer": 1}), case.stream()
    method = learner.method
    assert isinstance(method, LLRBC)
    method.begin(learner, stream, 1)
    with torch.no_grad():
        instances = stream.task(0).sample(case.batch, named_generator(0, "instances"))
        method.replay(learner, learner.attempt(instances, "solve"))
    return method.collected.items[0].bytes


def memory_table(problems: Sequence[str], batch: int) -> Table:
    """What full buffers hold at the defaults; LLR-BC's two, which share most steps, at their worst."""
    kept, steps, remembered = DREEOptions().buffer, LLRBCOptions().buffer, LiOptions().buffer
    table = Table(title=f"memory of full buffers in MiB (of one item in KiB), batch {batch}")
    for heading in (
        "problem",
        "n",
        f"dree\n{kept} batches",
        f"llr-bc\n2 x {steps} steps",
        f"li, no past\n{remembered} batches",
        "li\na solver",
    ):
        table.add_column(heading, justify="right")
    for problem in problems:
        for size in FULL_SIZES:
            case = Case(problem, size, batch, 1)
            instances = case.stream().task(0).sample(batch, named_generator(0, "instances"))
            items = {  # how many, and the bytes of one
                "dree": (kept, experience("pomo", problem, size, batch)[1].bytes),
                "llr-bc": (2 * steps, step_bytes(case)),
                "li, no past": (remembered, sum(tensor.nbytes for tensor in instances.tensors())),
                "li": (1, sum(weight.nbytes for weight in make_solver(problem).parameters())),
            }
            cells = [f"{count * each / 2**20:.0f} ({each / 1024:.0f})" for count, each in items.values()]
            table.add_row(problem, str(size), *cells)
    return table


def flops_table(problems: Sequence[str], batch: int) -> Table:
    """Ours beside the paper's formula for tours with as many depot returns m as the longest of ours."""
    table = Table(title=f"10^9 operations of one behaviour replay, batch {batch}, m depot returns")
    for heading in ("problem", "n", "m", "forward", "with backward", "paper", "ratio"):
        table.add_column(heading, justify="right")
    for problem in problems:
        for size in FULL_SIZES:
            learner, old = experience("pomo", problem, size, batch)
            forward, both = replay_flops(learner, old)
            returns = old.actions.shape[1] - size
            there = published_flops("pomo", problem, size, returns)
            cells = (f"{number / 1e9:.2f}" for number in (forward, both, there))
            table.add_row(problem, str(size), str(returns), *cells, f"{both / there:.2f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default="tsp,cvrp")
    parser.add_argument("--sizes", default="20,50", help="of the instances that are timed")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--augmentation", type=int, default=1, choices=(1, 8))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clock", default="wall", choices=CLOCKS)
    options = parser.parse_args()
    problems, console = options.problems.split(","), Console()
    console.print(flops_table(problems, options.batch))
    console.print(memory_table(problems, options.batch))
    cases = [
        Case(problem, int(size), options.batch, options.augmentation)
        for problem in problems
        for size in options.sizes.split(",")
    ]
    console.print(times_table(cases, options.repeats, options.clock))


if __name__ == "__main__":
    main()
