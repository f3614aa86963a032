"""How fast learning and solving are on this machine."""

from __future__ import annotations

import gc
import itertools
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from dree.errors import DreeError
from dree.evaluation.evaluate import best_tours
from dree.experiments.bench_parts import backward, draw, random_learner, record, recorded, twin_step
from dree.experiments.configuration import PAPER_EPOCHS
from dree.experiments.memory import within_memory
from dree.lifelong import DREE, FineTuning, Learner, LearnerSettings, reinforce
from dree.lifelong.experience import Experience
from dree.lifelong.methods.dree import ABLATION_INTERVAL, DREEOptions
from dree.problems import SYMMETRIES, Instances, augment
from dree.randomness import named_generator
from dree.settings import build
from dree.solvers import make_solver
from dree.solvers.precision import precision_on
from dree.tasks import ORDERS, SyntheticTask, make_stream, principal

PHASES = ("generate", "encode", "solve", "score_and_backward", "behaviour_replay", "optimiser")
SOLVED = 1000  # instances of one measurement of greedy solving, as many as a test set has; fewer, if they are large:
SOLVED_STATES = {"cpu": 2**17, "cuda": 2**24}  # instances x starts x nodes, at most
WARM_UP = 4  # steps of DREE until it has done everything once: its first instance replay is with the fourth batch
SLOW_REPEATS = 3  # at most, of the twin and of greedy solving: what takes long varies little


@dataclass(frozen=True)
class Plan:
    """What is measured."""

    sizes: tuple[int, ...]
    batch: int  # instances; each is learned in its eight symmetric copies
    repeats: int
    solve_sizes: tuple[int, ...]
    base: str = "pomo"  # the solver


DEFAULTS = {
    "cpu": Plan(sizes=(20,), batch=4, repeats=3, solve_sizes=(20, 50)),
    "cuda": Plan(sizes=(20, 50, 100), batch=32, repeats=20, solve_sizes=(20, 50, 100, 200, 500, 1000)),
}


@dataclass(frozen=True)
class Effort:
    """How many steps are taken between two looks at the clock, so that a GPU need not wait for each."""

    steps: int  # of fine-tuning
    cycle: int  # of DREE: about a whole number of its instance replays
    cycles: int


EFFORT = {"cpu": Effort(steps=1, cycle=7, cycles=1), "cuda": Effort(steps=10, cycle=25, cycles=5)}


@dataclass(frozen=True)
class StepTimes:
    """One size's learning step, in milliseconds, and its phases, each measured on its own."""

    problem: str
    n: int
    batch: int
    precision: str
    step_ms: float  # of fine-tuning
    dree_ms: float  # of DREE: the mean, with as many instance replays as the paper has
    phases: Mapping[str, float]
    twin_ms: float | None  # None where it was not measured, or did not fit
    twin_fits: bool
    peak_bytes: int | None  # of a step of fine-tuning; None where the device does not count

    @property
    def ratio(self) -> float | None:
        """How many times as long as our step the twin's takes."""
        return None if self.twin_ms is None else self.twin_ms / self.step_ms

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "phases": dict(self.phases), "ratio": self.ratio}


@dataclass(frozen=True)
class RunTime:
    """How long a run of DREE through one of the paper's orders would take, tests and checkpoints not counted."""

    problem: str
    order: int
    seconds_per_epoch: float
    hours: float


@dataclass(frozen=True)
class SolvingRate:
    """How fast instances are solved greedily, from all starts of the solver's."""

    problem: str
    n: int
    instances: int
    precision: str
    seconds: float

    @property
    def rate(self) -> float:
        """Instances per second."""
        return self.instances / self.seconds

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "instances_per_second": self.rate}


def check_room(problem: str, n: int, plan: Plan, device: torch.device) -> None:
    """Refuse a size of which the tours of one batch, which everything holds, are more than there is memory for."""
    one = draw(principal("U", problem, n), 1, device)
    tours = plan.batch * SYMMETRIES * make_solver(problem, plan.base).starts(one).shape[1]
    try:
        with within_memory(device):
            torch.empty(tours, n, dtype=torch.int64, device=device)
    except torch.OutOfMemoryError:
        raise DreeError(
            f"There is not enough memory for n = {n}: the {tours} tours of a batch alone take {tours * n / 2**27:.3g} "
            "GiB. Use smaller --sizes or a smaller --batch."
        ) from None


def measure(
    problem: str, n: int, plan: Plan, precision: str, device: torch.device, *, with_twin: bool = True
) -> StepTimes:
    """The learning step of one problem and size."""
    task = principal("U", problem, n)
    instances = draw(task, plan.batch, device)
    step_ms, peak_bytes, used = _step(plan, problem, instances, precision)
    dree_ms = _dree_step(plan, problem, instances, precision)
    phases = _phases(task, plan, precision, device)
    twin_ms = _twin_step(plan, problem, instances) if with_twin else None
    fits = not with_twin or twin_ms is not None
    return StepTimes(problem, n, plan.batch, used, step_ms, dree_ms, phases, twin_ms, fits, peak_bytes)


def measure_solving(problem: str, n: int, plan: Plan, device: torch.device, precision: str) -> SolvingRate:
    """Greedy solving as `dree evaluate` does it: from all of the solver's starts, no augmentation."""
    count = min(SOLVED, max(1, SOLVED_STATES[device.type] // (n * (n + 1))))
    solver, instances = make_solver(problem, plan.base).to(device), draw(principal("U", problem, n), count, device)

    def solve(_: object) -> None:
        best_tours(solver, instances, precision=precision)

    taken = _milliseconds(solve, device, min(plan.repeats, SLOW_REPEATS))
    return SolvingRate(problem, n, count, precision_on(device, precision, learning=False), taken / 1000)


def run_times(steps: Sequence[StepTimes]) -> list[RunTime]:
    """For every problem of which at least two sizes were measured, the paper's orders."""
    times: dict[str, dict[int, float]] = {}
    for each in steps:
        times.setdefault(each.problem, {})[each.n] = each.dree_ms + each.phases["generate"]
    return [run_time(problem, order, of) for problem, of in times.items() if len(of) > 1 for order in ORDERS]


def run_time(problem: str, order: int, batch_ms: Mapping[int, float]) -> RunTime:
    """A run through one order, from the milliseconds that a new batch takes at some sizes."""
    epochs = PAPER_EPOCHS["drift"]
    stream = make_stream("drift", problem, order, epochs)
    sizes = Counter(stream.task(epoch).size for epoch in range(1, epochs + 1))
    batches_ms = sum(count * interpolate(batch_ms, size) for size, count in sizes.items())
    seconds = batches_ms * DREE.batches_per_epoch / 1000
    return RunTime(problem, order, seconds / epochs, seconds / 3600)


def interpolate(known: Mapping[int, float], n: int) -> float:
    """The value at a size: between its neighbours, or beyond the outermost two, a power of the size."""
    sizes = sorted(known)
    left, right = next((pair for pair in itertools.pairwise(sizes) if n <= pair[1]), (sizes[-2], sizes[-1]))
    share = math.log(n / left) / math.log(right / left)
    return math.exp((1 - share) * math.log(known[left]) + share * math.log(known[right]))


def _step(plan: Plan, problem: str, instances: Instances, precision: str) -> tuple[float, int | None, str]:
    """A step of fine-tuning, in milliseconds, its peak memory in bytes, and the precision that the learner chose."""
    device = instances.device
    steps = EFFORT[device.type].steps
    _free(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    learner = random_learner(plan.base, problem, FineTuning(), precision, device)
    taken = _milliseconds(lambda _: _learn(learner, instances, steps), device, plan.repeats) / steps
    # A graph that is replayed asks for no memory: what counts is what was asked for when it was captured.
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
    return taken, peak, precision_on(device, precision, learning=True)


def _dree_step(plan: Plan, problem: str, instances: Instances, precision: str) -> float:
    """A step of DREE, in milliseconds: the mean over cycles with as many instance replays as the paper has."""
    device = instances.device
    effort = EFFORT[device.type]
    # Filled while warming up: what is timed then takes in few new experiences, as most of a long run does.
    options = DREEOptions(buffer=WARM_UP, lower=ABLATION_INTERVAL, upper=ABLATION_INTERVAL)
    learner = random_learner(plan.base, problem, DREE(options), precision, device)
    _learn(learner, instances, WARM_UP)
    taken = _milliseconds(lambda _: _learn(learner, instances, effort.cycle), device, effort.cycles, warm_up=0)
    return taken / effort.cycle


def _phases(task: SyntheticTask, plan: Plan, precision: str, device: torch.device) -> dict[str, float]:
    """Every part of a step on its own, launched piece by piece, in milliseconds."""
    method = DREE()
    learner = random_learner(plan.base, task.problem, method, precision, device, captured=False)
    instances = draw(task, plan.batch, device)
    copies = augment(instances, learner.settings.augmentation)
    old = Experience.of(learner.solver, learner.attempt(instances, "old"))
    draws = named_generator(0, "bench", device=device)

    def timed(work: Callable[[Any], object], prepare: Callable[[], Any] = lambda: None) -> float:
        return _milliseconds(work, device, plan.repeats, prepare)

    return {
        "generate": timed(lambda _: task.sample(plan.batch, draws)),
        "encode": timed(lambda _: learner.encode(copies)),
        "solve": timed(lambda encoding: record(learner, copies, encoding), lambda: learner.encode(copies)),
        "score_and_backward": timed(
            lambda lesson: backward(reinforce(learner.solver, lesson)), lambda: recorded(learner, copies)
        ),
        "behaviour_replay": timed(lambda _: backward(method.behaviour_replay(learner, old))),
        "optimiser": timed(lambda _: learner.optimiser.step()),
    }


def _twin_step(plan: Plan, problem: str, instances: Instances) -> float | None:
    """A step of the twin on the same batch, in milliseconds; None if it does not fit in the device's memory."""
    device = instances.device
    _free(device)
    solver = make_solver(problem, plan.base).to(device)
    settings = build(LearnerSettings, solver.learning)
    step, copies = twin_step(solver, settings), augment(instances, settings.augmentation)
    try:
        with within_memory(device):
            return _milliseconds(lambda _: step(copies), device, min(plan.repeats, SLOW_REPEATS))
    except torch.OutOfMemoryError:
        return None


def _learn(learner: Learner, instances: Instances, steps: int) -> None:
    for _ in range(steps):
        learner.learn(instances)


def _milliseconds(
    work: Callable[[Any], object],
    device: torch.device,
    repeats: int,
    prepare: Callable[[], Any] = lambda: None,
    warm_up: int = 1,
) -> float:
    """The median time of some work, which is given what was prepared for it; first it is done once to warm up."""
    taken = []
    for _ in range(warm_up + repeats):
        prepared = prepare()
        _wait(device)
        began = time.perf_counter()
        work(prepared)
        _wait(device)
        taken.append(time.perf_counter() - began)
    return 1000 * statistics.median(taken[warm_up:])


def _wait(device: torch.device) -> None:
    """Until everything launched is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _free(device: torch.device) -> None:
    """Give back what earlier measurements held."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
