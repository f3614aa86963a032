"""Whether the fast path computes what its step-by-step twin does, on this machine."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dree.errors import DreeError
from dree.experiments.bench_padded import padded_against_alone
from dree.experiments.bench_parts import backward, compare, draw, random_learner, recorded, twin_of
from dree.lifelong import DREE, FineTuning, Learner, LearnerSettings, Lesson, Li, Method
from dree.lifelong.experience import Experience
from dree.problems import Instances, Tours, augment
from dree.problems.check import check_cvrp, check_tsp
from dree.randomness import named_generator
from dree.settings import build
from dree.solvers import Solver, make_solver
from dree.solvers.capture import taking_turns
from dree.solvers.divergence import kl_divergence
from dree.solvers.precision import in_precision
from dree.tasks import principal

CHECKED = 8  # instances, at least: the gradients of fewer may nearly cancel, and then bf16's rounding shows
LOG_PROB_BAR = {"fp32": 1e-5, "bf16": 2e-2}  # relative, by precision
GRADIENT_BAR = {"cpu": 1e-4, "cuda": 1e-3}  # relative, in fp32; 4e-4 was seen on an H200 at n = 100
CAPTURED_BAR = {"fp32": 1e-3, "bf16": 2e-2}
IMITATION_BAR = {"fp32": 1e-3, "bf16": 2e-2}
TURNS = 5  # times that two solvers take turns
REFEREED = 4  # instances whose tours the referee sees, and of each so many tours


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


def check(base: str, problem: str, n: int, batch: int, precision: str, device: torch.device) -> list[Finding]:
    """The fast path on sampled tours of a random network, against twin and referee."""
    instances = draw(principal("U", problem, n), batch, device)
    learner = random_learner(base, problem, FineTuning(), precision, device)
    solver = learner.solver
    lesson = recorded(learner, instances)
    illegal, wrong_cost = _refereed(instances, lesson.tours)
    log_prob, cosine, distance = _against_twin(solver, lesson)
    finding = partial(Finding, problem, n, precision)

    def of_gradient(what: str, cosine: float, distance: float) -> Finding:
        if precision == "fp32":
            return finding(what, distance, at_most=GRADIENT_BAR[device.type])
        return finding(f"{what}, cosine", cosine, at_least=0.98)

    found = [
        finding("illegal tours", illegal, at_most=0),
        finding("costs (referee)", wrong_cost, at_most=1e-5),
        finding("log-probability", log_prob, at_most=LOG_PROB_BAR[precision]),
        of_gradient("gradient", cosine, distance),
    ]
    if precision == "fp32":
        cost, identical = _greedy(solver, instances)
        found += [finding("greedy costs", cost, at_most=1e-3), finding("same greedy tours", identical)]
    if solver.mixes_sizes:
        smaller = draw(principal("U", problem, max(2, n // 2)), batch, device)
        # In single precision a number near zero may fall on the other side of a ReLU; kernels know nothing else.
        exact = device.type == "cpu" and precision == "fp32"
        fresh = random_learner(
            base, problem, FineTuning(), precision, device, exact=exact
        )  # captured work meets no other
        batches = [_double(each) if exact else each for each in (instances, smaller)]
        chance, *gradient = padded_against_alone(fresh, batches)
        found.append(finding("padded decisions", chance, at_most=LOG_PROB_BAR[precision]))
        found.append(of_gradient("padded gradient", *gradient))
    if solver.captures_itself:
        others = turns_against_alone(base, problem, augment(instances), precision)
        found.append(finding("tours in turns", others, at_most=0))
    imitation = _imitation(learner, make_solver(problem, base, seed=1).to(device), lesson)
    found.append(finding("imitation", imitation, at_most=IMITATION_BAR[precision]))
    if learner.captures(instances.nodes):
        for what, difference in (("gradient", captured_difference), ("pull", captured_pull_difference)):
            apart = difference(base, problem, instances, precision)
            found.append(finding(f"captured {what}", apart, at_most=CAPTURED_BAR[precision]))
    return found


def turns_against_alone(base: str, problem: str, instances: Instances, precision: str) -> int:
    """How many sampled tours are others if two solvers make them in turns, so side by side on a CUDA device.

    The first time they have not captured their steps yet, so that one does while the other is at work.
    """
    device = instances.device
    solvers = [make_solver(problem, base, seed=seed).to(device) for seed in (0, 1)]
    with in_precision(precision, device, learning=True):
        encodings = [solver.encode(instances) for solver in solvers]

    def solving(number: int) -> Generator[None, None, Tours]:
        generator = named_generator(0, "turns", number, device=device)
        return solvers[number].solving(instances, generator=generator, encoding=encodings[number])

    def in_turns() -> list[Tours]:
        return taking_turns([solving(0), solving(1)], device)

    first = in_turns()
    alone = [taking_turns([solving(number)], device)[0].costs for number in (0, 1)]
    rounds = [first, *(in_turns() for _ in range(TURNS - 1))]
    return sum(int((tours.costs != costs).sum()) for each in rounds for tours, costs in zip(each, alone, strict=True))


def captured_difference(base: str, problem: str, instances: Instances, precision: str) -> float:
    """How far the gradient of captured work is from that of the same work launched piece by piece.

    The work is a lesson and behaviour replay, captured with other instances than it is compared on.
    """
    batches = _two_batches(instances)
    other = make_solver(problem, base, seed=1).to(instances.device)
    stranger = Learner(other, DREE(), build(LearnerSettings, {**other.learning, "precision": precision}))
    stranger._graphs = None
    remembered = [Experience.of(stranger.solver, stranger.attempt(each, "old")) for each in batches]

    def loss(learner: Learner, number: int) -> Tensor:
        assert isinstance(learner.method, DREE)
        own = learner.loss(learner.attempt(batches[number], "solve"))
        return own + learner.method.behaviour_replay(learner, remembered[number])

    return _captured_or_not(base, problem, DREE, precision, instances.device, loss)


def captured_pull_difference(base: str, problem: str, instances: Instances, precision: str) -> float:
    """The same of a lesson with Li's pull, captured with other instances and another exemplar."""
    batches = _two_batches(instances)
    strangers = [make_solver(problem, base, seed=seed).state_dict() for seed in (1, 2)]

    def loss(learner: Learner, number: int) -> Tensor:
        assert isinstance(learner.method, Li)
        learner.method._hold(strangers[number], learner)
        return learner.loss(learner.attempt(batches[number], "solve"))

    return _captured_or_not(base, problem, Li, precision, instances.device, loss)


def _two_batches(instances: Instances) -> tuple[Instances, Instances]:
    """The same instances in another order, and as they are."""
    return instances[torch.arange(len(instances) - 1, -1, -1, device=instances.device)], instances


def _captured_or_not(
    base: str,
    problem: str,
    method: type[Method],
    precision: str,
    device: torch.device,
    loss: Callable[[Learner, int], Tensor],
) -> float:
    """How far the gradients of the second loss are from each other."""
    gradients = []
    for captured in (True, False):
        learner = random_learner(base, problem, method(), precision, device, captured=captured)
        for number in range(2):
            learner._flat.clear_gradient()
            backward(loss(learner, number))
        gradients.append([parameter.grad for parameter in learner.solver.parameters()])
    return compare(*(_flat(each) for each in gradients))[1]


def _against_twin(solver: Solver, lesson: Lesson) -> tuple[float, float, float]:
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
    _, log_prob = twin_of(exact)(exact, _double(lesson.instances), forced=solver.rules.trimmed(lesson.tours.actions))
    twin = _flat(torch.autograd.grad((weights * log_prob).sum(), list(exact.parameters()), materialize_grads=True))
    log_prob = log_prob.detach()
    difference = (score.per_tour - log_prob).abs().max() / log_prob.abs().mean()
    return (float(difference), *compare(fast, twin))


def _imitation(learner: Learner, teacher: Solver, lesson: Lesson) -> float:
    """How far the distance from a teacher on some tours is from what both policies on each of them give, relatively.

    The differences of the value and of its gradient, added up.
    """
    solver, instances = learner.solver, lesson.instances
    encoding, target = learner.encode(instances), learner.encode(instances, teacher).map(Tensor.detach)
    tours = Tours(lesson.tours.actions[:, :REFEREED], lesson.tours.costs[:, :REFEREED])
    fast = solver.imitate(instances, tours, target, encoding=encoding).weighted
    slow = torch.zeros_like(fast)
    for column in range(tours.costs.shape[1]):
        tour = Tours(tours.actions[:, [column]], tours.costs[:, [column]])
        policy = solver.behave(instances, tour, encoding=encoding)
        slow = slow + kl_divergence(policy, teacher.behave(instances, tour, encoding=target), dims=3)
    gradients = [
        _flat(torch.autograd.grad(each, list(solver.parameters()), retain_graph=True, materialize_grads=True))
        for each in (fast, slow)
    ]
    return abs(float(fast.detach() / slow.detach() - 1)) + compare(*gradients)[1]


def _double(instances: Instances) -> Instances:
    return replace(instances, coords=instances.coords.double())


def _greedy(solver: Solver, instances: Instances) -> tuple[float, float]:
    """How far greedy costs are from the twin's, relatively and on average; and the share of identical tours."""
    with torch.no_grad():
        fast, (twin, _) = solver.solve(instances), twin_of(solver)(solver, instances)
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


def _flat(gradients: Sequence[Tensor | None]) -> Tensor:
    return torch.cat([each.flatten().double() for each in gradients if each is not None])
