"""How fast learning and solving are on this machine, and whether the fast path still computes what its twin does."""

from __future__ import annotations

import copy
import gc
import itertools
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dree.errors import DreeError
from dree.evaluation.evaluate import best_tours
from dree.experiments.configuration import PAPER_EPOCHS
from dree.lifelong import DREE, FineTuning, Learner, LearnerSettings, Lesson, Method, reinforce
from dree.lifelong.experience import Experience
from dree.lifelong.learner import shared_baseline
from dree.lifelong.methods.dree import ABLATION_INTERVAL, DREEOptions
from dree.problems import Instances, Tours, augment
from dree.problems.check import check_cvrp, check_tsp
from dree.randomness import named_generator
from dree.solvers import POMO, make_solver
from dree.solvers.pomo_twin import rollout
from dree.solvers.precision import precision_on
from dree.tasks import ORDERS, SyntheticTask, make_stream, principal

PHASES = ("generate", "encode", "solve", "score_and_backward", "behaviour_replay", "optimiser")
SOLVED = 1000  # instances of one measurement of greedy solving, as many as a test set has; fewer, if they are large:
SOLVED_STATES = {"cpu": 2**17, "cuda": 2**24}  # instances x starts x nodes, at most
WARM_UP = 4  # steps of DREE until it has done everything once: its first instance replay is with the fourth batch
SLOW_REPEATS = 3  # at most, of the twin and of greedy solving: what takes long varies little
CHECKED = 8  # instances, at least: the gradients of fewer may nearly cancel, and then bf16's rounding shows
LOG_PROB_BAR = {"fp32": 1e-5, "bf16": 2e-2}  # relative, by precision
GRADIENT_BAR = {"cpu": 1e-4, "cuda": 1e-3}  # relative, in fp32; 4e-4 was seen on an H200 at n = 100
CAPTURED_BAR = {"fp32": 1e-3, "bf16": 2e-2}
REFEREED = 4  # instances whose tours the referee sees, and of each so many tours


@dataclass(frozen=True)
class Plan:
    """What is measured."""

    sizes: tuple[int, ...]
    batch: int  # instances; each is learned in its eight symmetric copies
    repeats: int
    solve_sizes: tuple[int, ...]


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
    """How fast instances are solved greedily from all starts."""

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


@dataclass(frozen=True)
class Finding:
    """One comparison of the fast path with the twin or the referee; without a bar it is for information."""

    problem: str
    n: int
    precision: str
    what: str
    value: float
    at_most: float | None = None
    at_least: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the value is on the right side of its bar; what is not a number is not."""
        below = self.at_most is None or self.value <= self.at_most
        return below and (self.at_least is None or self.value >= self.at_least)

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "ok": self.ok}


def measure(
    problem: str, n: int, plan: Plan, precision: str, device: torch.device, *, with_twin: bool = True
) -> StepTimes:
    """The learning step of one problem and size."""
    task = principal("U", problem, n)
    instances = _draw(task, plan.batch, device)
    step_ms, peak_bytes, used = _step(problem, instances, precision, plan.repeats)
    dree_ms = _dree_step(problem, instances, precision)
    phases = _phases(task, plan, precision, device)
    twin_ms = _twin_step(problem, instances, min(plan.repeats, SLOW_REPEATS)) if with_twin else None
    fits = not with_twin or twin_ms is not None
    return StepTimes(problem, n, plan.batch, used, step_ms, dree_ms, phases, twin_ms, fits, peak_bytes)


def measure_solving(problem: str, n: int, repeats: int, device: torch.device, precision: str) -> SolvingRate:
    """Greedy solving as `dree evaluate` does it: all starts, no augmentation."""
    count = min(SOLVED, max(1, SOLVED_STATES[device.type] // (n * (n + 1))))
    solver, instances = make_solver(problem).to(device), _draw(principal("U", problem, n), count, device)

    def solve(_: object) -> None:
        best_tours(solver, instances, precision=precision)

    taken = _milliseconds(solve, device, min(repeats, SLOW_REPEATS))
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


def check(problem: str, n: int, batch: int, precision: str, device: torch.device) -> list[Finding]:
    """The fast path on sampled tours of a random network, against twin and referee."""
    instances = _draw(principal("U", problem, n), batch, device)
    solver = make_solver(problem).to(device)
    learner = Learner(solver, FineTuning(), LearnerSettings(precision=precision))
    lesson = _attempt(learner, instances)
    illegal, wrong_cost = _refereed(instances, lesson.tours)
    log_prob, cosine, distance = _against_twin(solver, lesson)
    found = [
        Finding(problem, n, precision, "illegal tours", illegal, at_most=0),
        Finding(problem, n, precision, "costs (referee)", wrong_cost, at_most=1e-5),
        Finding(problem, n, precision, "log-probability", log_prob, at_most=LOG_PROB_BAR[precision]),
    ]
    if precision == "fp32":
        found.append(Finding(problem, n, precision, "gradient", distance, at_most=GRADIENT_BAR[device.type]))
        cost, identical = _greedy(solver, instances)
        found.append(Finding(problem, n, precision, "greedy costs", cost, at_most=1e-3))
        found.append(Finding(problem, n, precision, "same greedy tours", identical))
    else:
        found.append(Finding(problem, n, precision, "gradient, cosine", cosine, at_least=0.98))
    if learner.captures:
        captured = captured_difference(problem, instances, precision)
        found.append(Finding(problem, n, precision, "captured gradient", captured, at_most=CAPTURED_BAR[precision]))
    return found


def captured_difference(problem: str, instances: Instances, precision: str) -> float:
    """How far the gradient of captured work is from that of the same work launched piece by piece.

    The work is a lesson and behaviour replay, captured with other instances than it is compared on.
    """
    others = instances[torch.arange(len(instances) - 1, -1, -1, device=instances.device)]
    stranger = Learner(make_solver(problem, seed=1).to(instances.device), DREE(), LearnerSettings(precision=precision))
    stranger._graphs = None
    remembered = [Experience.of(stranger.solver, stranger.attempt(each, "old")) for each in (others, instances)]
    gradients = []
    for captured in (True, False):
        learner = _learner(problem, DREE(), precision, instances.device, captured=captured)
        assert isinstance(learner.method, DREE)
        for given, old in zip((others, instances), remembered, strict=True):
            learner._flat.clear_gradient()
            lesson = learner.attempt(given, "solve")
            _backward(learner.loss(lesson) + learner.method.behaviour_replay(learner, old))
        gradients.append([parameter.grad for parameter in learner.solver.parameters()])
    return _compare(*(_flat(each) for each in gradients))[1]


def _step(problem: str, instances: Instances, precision: str, repeats: int) -> tuple[float, int | None, str]:
    """A step of fine-tuning, in milliseconds, its peak memory in bytes, and the precision that the learner chose."""
    device = instances.device
    steps = EFFORT[device.type].steps
    _free(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    learner = _learner(problem, FineTuning(), precision, device)
    taken = _milliseconds(lambda _: _learn(learner, instances, steps), device, repeats) / steps
    # A graph that is replayed asks for no memory: what counts is what was asked for when it was captured.
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
    return taken, peak, precision_on(device, precision, learning=True)


def _dree_step(problem: str, instances: Instances, precision: str) -> float:
    """A step of DREE, in milliseconds: the mean over cycles with as many instance replays as the paper has."""
    device = instances.device
    effort = EFFORT[device.type]
    # Filled while warming up: what is timed then takes in few new experiences, as most of a long run does.
    options = DREEOptions(buffer=WARM_UP, lower=ABLATION_INTERVAL, upper=ABLATION_INTERVAL)
    learner = _learner(problem, DREE(options), precision, device)
    _learn(learner, instances, WARM_UP)
    taken = _milliseconds(lambda _: _learn(learner, instances, effort.cycle), device, effort.cycles, warm_up=0)
    return taken / effort.cycle


def _phases(task: SyntheticTask, plan: Plan, precision: str, device: torch.device) -> dict[str, float]:
    """Every part of a step on its own, launched piece by piece, in milliseconds."""
    method = DREE()
    learner = _learner(task.problem, method, precision, device, captured=False)
    instances = _draw(task, plan.batch, device)
    copies = augment(instances, learner.settings.augmentation)
    old = Experience.of(learner.solver, learner.attempt(instances, "old"))
    draws = named_generator(0, "bench", device=device)

    def timed(work: Callable[[Any], object], prepare: Callable[[], Any] = lambda: None) -> float:
        return _milliseconds(work, device, plan.repeats, prepare)

    return {
        "generate": timed(lambda _: task.sample(plan.batch, draws)),
        "encode": timed(lambda _: learner.encode(copies)),
        "solve": timed(lambda encoding: _solve(learner, copies, encoding), lambda: learner.encode(copies)),
        "score_and_backward": timed(
            lambda lesson: _backward(reinforce(learner.solver, lesson)), lambda: _attempt(learner, copies)
        ),
        "behaviour_replay": timed(lambda _: _backward(method.behaviour_replay(learner, old))),
        "optimiser": timed(lambda _: learner.optimiser.step()),
    }


def _twin_step(problem: str, instances: Instances, repeats: int) -> float | None:
    """A step of the twin on the same batch, in milliseconds; None if it does not fit in the device's memory."""
    device, settings = instances.device, LearnerSettings()
    _free(device)
    solver, copies = make_solver(problem).to(device), augment(instances, settings.augmentation)
    adam = torch.optim.Adam(
        solver.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )
    generator = named_generator(0, "twin", device=device)

    def step(_: None) -> None:
        tours, log_prob = rollout(solver, copies, generator=generator)
        adam.zero_grad()
        _backward((shared_baseline(tours) * log_prob).mean())
        adam.step()

    try:
        return _milliseconds(step, device, repeats)
    except torch.OutOfMemoryError:
        return None


def _against_twin(solver: POMO, lesson: Lesson) -> tuple[float, float, float]:
    """Of recorded tours and a random weighted sum of their log-probabilities, against the twin along the same tours.

    The twin computes in double precision. The largest difference of a log-probability in units of their mean, and of
    the gradients the cosine and the relative distance.
    """
    costs = lesson.tours.costs
    weights = torch.randn(
        costs.shape, generator=named_generator(0, "weights", device=costs.device), device=costs.device
    )
    parameters = list(solver.parameters())
    score = solver.score(lesson.instances, lesson.tours, weights, encoding=lesson.encoding)
    fast = _flat(torch.autograd.grad(score.weighted, parameters, materialize_grads=True))
    exact = copy.deepcopy(solver).double()
    _, log_prob = rollout(exact, _double(lesson.instances), forced=solver.rules.trimmed(lesson.tours.actions))
    twin = _flat(torch.autograd.grad((weights * log_prob).sum(), list(exact.parameters()), materialize_grads=True))
    log_prob = log_prob.detach()
    difference = (score.per_tour - log_prob).abs().max() / log_prob.abs().mean()
    return (float(difference), *_compare(fast, twin))


def _double(instances: Instances) -> Instances:
    return replace(instances, coords=instances.coords.double())


def _greedy(solver: POMO, instances: Instances) -> tuple[float, float]:
    """How far greedy costs are from the twin's, relatively and on average; and the share of identical tours."""
    with torch.no_grad():
        fast, (twin, _) = solver.solve(instances), rollout(solver, instances)
    length = max(fast.actions.shape[-1], twin.actions.shape[-1])
    ours, theirs = (functional.pad(each.actions, (0, length - each.actions.shape[-1])) for each in (fast, twin))
    same = (ours == theirs).all(-1).float().mean()
    return abs(float((fast.costs / twin.costs - 1).mean())), float(same)


def _refereed(instances: Instances, tours: Tours) -> tuple[int, float]:
    """Of some tours, how many the referee refuses, and how far the others' costs are from its own, relatively."""
    illegal, worst = 0, 0.0
    for row in range(min(REFEREED, len(instances))):
        coords, *orders = (tensor[row].cpu().numpy() for tensor in instances.tensors())
        for actions, cost in zip(tours.actions[row].tolist()[:REFEREED], tours.costs[row].tolist(), strict=False):
            try:
                right = check_cvrp(coords, orders[0], int(orders[1]), actions) if orders else check_tsp(coords, actions)
            except DreeError:
                illegal += 1
            else:
                worst = max(worst, abs(cost / right - 1))
    return illegal, worst


def _compare(one: Tensor, other: Tensor) -> tuple[float, float]:
    """The cosine of two gradients, and their distance relative to the second."""
    return float(functional.cosine_similarity(one, other, dim=0)), float((one - other).norm() / other.norm())


def _flat(gradients: Sequence[Tensor | None]) -> Tensor:
    return torch.cat([each.flatten().double() for each in gradients if each is not None])


def _learner(problem: str, method: Method, precision: str, device: torch.device, *, captured: bool = True) -> Learner:
    """A learner with a random network of full size."""
    learner = Learner(make_solver(problem).to(device), method, LearnerSettings(precision=precision))
    if not captured:
        learner._graphs = None
    return learner


def _learn(learner: Learner, instances: Instances, steps: int) -> None:
    for _ in range(steps):
        learner.learn(instances)


def _attempt(learner: Learner, instances: Instances) -> Lesson:
    """These very instances, encoded and solved with a record, ready to be scored."""
    encoding = learner.encode(instances)
    return Lesson(instances, _solve(learner, instances, encoding), encoding)


def _solve(learner: Learner, instances: Instances, encoding: Any) -> Tours:
    generator = learner.generator("solve")
    return learner.solver.solve(instances, generator=generator, encoding=encoding, record=True)


def _backward(loss: Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


def _draw(task: SyntheticTask, batch: int, device: torch.device) -> Instances:
    return task.sample(batch, named_generator(0, "benchmark", device=device))


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
