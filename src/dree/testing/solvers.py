"""What a solver must keep to, checked in double precision on instances small enough to follow every decision.

Shapes: B instances, P tours of each, T actions, S = T - 1 decisions, K slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from dree.errors import DreeError
from dree.lifelong import LearnerSettings
from dree.problems import Instances, State, Tours
from dree.problems.check import check_cvrp, check_tsp
from dree.randomness import named_generator
from dree.settings import build
from dree.solvers import Solver
from dree.solvers.capture import taking_turns
from dree.tasks import principal
from dree.testing.common import check_constructor, global_chance_unused, located, problems, require

BATCH, CUSTOMERS = 3, 6
TOLERANCE = 1e-9  # between two ways to compute one thing
STEP = 1e-8  # of finite differences: larger ones meet kinks, such as those of a ReLU; smaller ones, rounding


def check_solver(make: Callable[[str], Solver], problem: str | None = None) -> None:
    """Check the solvers that `make(problem)` gives: for one problem, or for all.

    Tours are legal and cost what they are said to; `score` and `behave` agree with `decide`, step by step; gradients
    agree with finite differences; nothing depends on hidden randomness or, unless the solver says so by its
    `encoding_batch`, on what else is in the batch; nor, where it says `mixes_sizes`, on nodes that do not exist.
    """
    check_constructor(make, Solver, "settings", problem=problem or "tsp")
    for name in problems(problem):
        with located(f"in check_solver, {name}"):
            solver, teacher = make(name), make(name)
            require(isinstance(solver, Solver), f"make({name!r}) gives a {type(solver).__name__}, not a Solver.")
            require([*solver.parameters()], f"make({name!r}) gives a solver without any torch.nn.Parameter to learn.")
            build(LearnerSettings, solver.learning)
            require(solver.rules.name == name, f"make({name!r}) gives a solver with the rules of {solver.rules.name}.")
            with global_chance_unused("The solver"):
                _check(solver.double(), _shaken(teacher.double()))


def _check(solver: Solver, teacher: Solver) -> None:
    task = principal("U", solver.rules.name, CUSTOMERS)
    instances = task.sample(BATCH, named_generator(0, "check_solver"))
    instances = replace(instances, coords=instances.coords.double())
    before = [parameter.clone() for parameter in solver.parameters()]
    tours = _check_solving(solver, instances)
    _check_recording(solver, instances)
    _check_policies(solver, instances, tours)
    _check_scoring(solver, instances, tours)
    _check_rows(solver, instances, tours)
    _check_imitation(solver, teacher, instances, tours)
    if solver.mixes_sizes:
        _check_padding(solver, instances, tours.actions[..., 0])
    same = all(torch.equal(old, new) for old, new in zip(before, solver.parameters(), strict=True))
    require(same, "Solving and scoring change the solver's weights.")


def _check_solving(solver: Solver, instances: Instances) -> Tours:
    """Tours are legal, cost what they are said to, begin where they should, and repeat with their seed."""
    for generator in (_dice, lambda: None):
        kind = "without a generator" if generator() is None else "with a generator"
        tours, again = (solver.solve(instances, generator=generator()) for _ in range(2))
        require(torch.equal(tours.actions, again.actions), f"solve {kind} gives other tours the second time.")
        require(not tours.costs.requires_grad, f"solve {kind} gives costs with a gradient.")
        _check_tours(instances, tours, solver.starts(instances, generator()), f"solve {kind}")
        (turn,) = taking_turns([solver.solving(instances, generator=generator())], instances.device)
        require(torch.equal(turn.actions, tours.actions), f"solving {kind} gives other tours than solve.")
    starts = solver.rules.starts(instances)[:, 1:3]
    _check_tours(instances, solver.solve(instances, starts), starts, "solve from given starts")
    sampled = [solver.solve(instances, generator=_dice(seed)) for seed in range(2)]
    longest = max(tours.actions.shape[-1] for tours in sampled)
    one, other = (functional.pad(tours.actions, (0, longest - tours.actions.shape[-1])) for tours in sampled)
    require(not torch.equal(one, other), "solve gives the same tours whatever the seed of its generator.")
    return sampled[0]


def _check_tours(instances: Instances, tours: Tours, starts: Tensor, what: str) -> None:
    """The referee, who shares no code with the rules, agrees."""
    require(tours.actions.dtype == torch.int64, f"{what} gives actions in {tours.actions.dtype}, not torch.int64.")
    require(
        tours.actions.shape[:2] == starts.shape == tours.costs.shape,
        f"{what} gives actions of shape {list(tours.actions.shape)} and costs of shape {list(tours.costs.shape)} for "
        f"{list(starts.shape)} starts.",
    )
    require(torch.equal(tours.actions[..., 0], starts), f"{what} gives tours that do not begin with their starts.")
    for row in range(len(instances)):
        for column, actions in enumerate(tours.actions[row].tolist()):
            where = f"{what}, instance {row}, tour {column}"
            try:
                cost = _referee(instances, row, actions)
            except DreeError as error:
                raise DreeError(f"{where}: {error}") from None
            said = tours.costs[row, column].item()
            require(abs(said - cost) < 1e-6, f"{where}: the cost is said to be {said:.6f}, and is {cost:.6f}.")


def _referee(instances: Instances, row: int, actions: list[int]) -> float:
    coords = instances.coords[row].numpy()
    if instances.demands is None or instances.capacity is None:
        return check_tsp(coords, actions)
    return check_cvrp(coords, instances.demands[row].numpy(), int(instances.capacity[row]), actions)


def _check_recording(solver: Solver, instances: Instances) -> None:
    """`record` changes nothing but the time it takes."""
    results = []
    for record in (False, True):
        encoding = solver.encode(instances)
        tours = solver.solve(instances, generator=_dice(), encoding=encoding, record=record)
        solver.zero_grad()
        score = solver.score(instances, tours, _weights(tours), encoding=encoding)
        score.weighted.backward()  # type: ignore[no-untyped-call]
        results.append((tours.actions, score.per_tour, _gradient(solver)))
    plain, recorded = results
    require(torch.equal(plain[0], recorded[0]), "solve with record=True gives other tours than without.")
    _close(recorded[1], plain[1], "score after solve with record=True")
    _close(recorded[2], plain[2], "the gradient of score after solve with record=True")


def _check_policies(solver: Solver, instances: Instances, tours: Tours) -> None:
    """`decide` gives distributions over what the rules allow, and `behave` gives the same for a whole tour."""
    followed = torch.stack(list(_decisions(solver, instances, tours)), dim=2)  # [B, P, S, K]
    _close(followed.logsumexp(-1), torch.zeros_like(followed[..., 0]), "the sum of decide's probabilities, less one")
    for column in range(tours.actions.shape[1]):
        one = Tours(tours.actions[:, [column]], tours.costs[:, [column]])
        _close(solver.behave(instances, one), followed[:, column], f"behave, tour {column}, beside decide")
    slots = _slots(solver, instances, one)
    _check_gradient(solver, lambda: solver.behave(instances, one).gather(-1, slots[:, 0, :, None]).sum(), "behave")
    starts, first = tours.actions[..., 0], _slots(solver, instances, tours)[..., :1]
    state = solver.rules.begin(instances, starts)
    _check_gradient(solver, lambda: solver.decide(instances, starts, state).gather(-1, first).sum(), "decide")


def _decisions(solver: Solver, instances: Instances, tours: Tours) -> Iterator[Tensor]:
    """The policy before every action, going through the tours step by step."""
    starts, *actions = tours.actions.unbind(-1)
    state: State = solver.rules.begin(instances, starts)
    for step, action in enumerate(actions):
        policy = solver.decide(instances, starts, state).detach()
        nodes = solver.candidates(instances, state)
        where = f"before action {step + 1}"
        require(
            nodes.shape == policy.shape,
            f"candidates gives nodes of shape {list(nodes.shape)} for policies of shape {list(policy.shape)}, {where}.",
        )
        blocked = state.blocked.gather(-1, nodes.clamp(min=0)) | (nodes < 0)
        require(
            torch.equal(policy == -torch.inf, blocked),
            f"decide does not give minus infinity to just those nodes that are blocked, {where} (and to slots that "
            "have no node).",
        )
        open_slots = torch.zeros_like(state.served[..., None]).expand_as(state.blocked)
        times = open_slots.scatter_add(-1, nodes.clamp(min=0), (~blocked).long())
        require((times <= 1).all(), f"candidates gives a node that is allowed more than one slot, {where}.")
        yield policy
        state = solver.rules.advance(instances, state, action)


def _slots(solver: Solver, instances: Instances, tours: Tours) -> Tensor:
    """The slot of every action after the first: [B, P, S]."""
    starts, *actions = tours.actions.unbind(-1)
    state, slots = solver.rules.begin(instances, starts), []
    for step, action in enumerate(actions):
        match = solver.candidates(instances, state) == action[..., None]
        require(match.any(-1).all(), f"candidates does not have the node that solve chose as action {step + 1}.")
        slots.append(match.int().argmax(-1))
        state = solver.rules.advance(instances, state, action)
    return torch.stack(slots, dim=-1)


def _check_scoring(solver: Solver, instances: Instances, tours: Tours) -> None:
    """`score` adds up what `decide` says, weighs it, and has its gradient."""
    policies = torch.stack(list(_decisions(solver, instances, tours)), dim=2)
    expected = policies.gather(-1, _slots(solver, instances, tours)[..., None]).squeeze(-1).sum(-1)
    weights = _weights(tours)
    for what, score, factor in (
        ("score", solver.score(instances, tours), torch.ones_like(weights)),
        ("score with weights", solver.score(instances, tours, weights), weights),
    ):
        _close(score.per_tour, expected, f"{what}, beside the sum of decide's log-probabilities")
        _close(score.weighted, (expected * factor).sum(), f"{what}.weighted")
    if instances.problem == "cvrp":
        longer = Tours(functional.pad(tours.actions, (0, 2)), tours.costs)
        _close(solver.score(instances, longer).per_tour, expected, "score of tours that wait at the depot in the end")
    _check_gradient(solver, lambda: solver.score(instances, tours, weights).weighted, "score")


def _check_imitation(solver: Solver, teacher: Solver, instances: Instances, tours: Tours) -> None:
    """`imitate` is KL(teacher || policy): zero for itself, and otherwise what the two policies give by hand."""
    itself = solver.imitate(instances, tours, solver.encode(instances))
    _close(itself.per_tour, torch.zeros_like(tours.costs), "imitate with the solver itself as its teacher")
    encoding = teacher.encode(instances)
    target, policy = (torch.stack(list(_decisions(each, instances, tours)), dim=2) for each in (teacher, solver))
    terms = target.exp() * (target - policy).nan_to_num(0)
    score = solver.imitate(instances, tours, encoding)
    advice = " Of the teacher only its encoding is known, so all weights with which it decides must be in that."
    _close(score.per_tour, terms.sum((-1, -2)), "imitate, beside KL(teacher || policy)", advice)
    _close(score.weighted, terms.sum(), "imitate's weighted sum")
    _check_gradient(solver, lambda: solver.imitate(instances, tours, encoding).weighted, "imitate")


def _check_rows(solver: Solver, instances: Instances, tours: Tours) -> None:
    """An instance has the same answers alone as in a batch, and in any order; so have rows of an encoding.

    Where encodings depend on the batch (`encoding_batch`), only in any order, and with every instance there twice.
    """
    greedy = solver.solve(instances)
    score = solver.score(instances, tours).per_tour
    encoding = solver.encode(instances)
    backwards = torch.arange(len(instances) - 1, -1, -1)
    twice = torch.arange(2 * len(instances)) % len(instances)
    for rows in (slice(0, 1), slice(1, 3), backwards, twice):
        some, of_some = instances[rows], Tours(tours.actions[rows], tours.costs[rows])
        name = f"instances {torch.arange(len(instances))[rows].tolist()} of a batch"
        if solver.encoding_batch is None or isinstance(rows, Tensor):
            _close(solver.solve(some).costs, greedy.costs[rows], f"the costs of {name}, solved by themselves")
            _close(solver.score(some, of_some).per_tour, score[rows], f"the score of {name} by themselves")
        by_row = solver.score(some, of_some, encoding=encoding[rows])
        _close(by_row.per_tour, score[rows], f"the score of {name} with these rows of the batch's encoding")


def _check_padding(solver: Solver, instances: Instances, starts: Tensor) -> None:
    """Nodes that do not exist change no decision, and no gradient."""
    coords, *orders = instances.tensors()
    sizes = torch.full((len(instances),), instances.nodes, dtype=torch.int32)
    demands = [functional.pad(each, (0, 2)) for each in orders[:1]]
    more = Instances(functional.pad(coords, (0, 0, 0, 2)), *demands, *orders[1:])
    state = solver.rules.begin(instances, starts)
    blocked, visited = (functional.pad(each, (0, 2), value=True) for each in (state.blocked, state.visited))
    encoding = solver.encode_padded(more, sizes)
    padded = solver.decide(more, starts, replace(state, blocked=blocked, visited=visited), encoding=encoding)
    results = []
    for policy in (padded[..., : instances.nodes], solver.decide(instances, starts, state)):
        solver.zero_grad()
        policy.exp().square().sum().backward()  # type: ignore[no-untyped-call]
        results.append((policy.detach(), _gradient(solver)))
    _close(results[0][0], results[1][0], "decide after encode_padded, beside decide")
    _close(results[0][1], results[1][1], "the gradient of decide after encode_padded")


def _check_gradient(solver: Solver, function: Callable[[], Tensor], what: str) -> None:
    """The gradient in a random direction of all weights equals the slope in that direction."""
    generator = named_generator(0, "check_solver", "direction")
    directions = [
        torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype) for parameter in solver.parameters()
    ]
    solver.zero_grad()
    function().backward()  # type: ignore[no-untyped-call]
    gradient = _gradient(solver) @ torch.cat([direction.flatten() for direction in directions])
    first = [parameter.detach().clone() for parameter in solver.parameters()]
    values = []
    with torch.no_grad():
        for step in (STEP, -STEP, 0):
            for parameter, start, direction in zip(solver.parameters(), first, directions, strict=True):
                parameter.copy_(start + step * direction)
            values.append(function().item())
    slope = (values[0] - values[1]) / (2 * STEP)
    require(
        abs(gradient.item() - slope) <= 1e-4 * max(1.0, abs(slope)),
        f"The gradient of {what} is {gradient.item():.6g} in a direction in which its slope is {slope:.6g}.",
    )


def _gradient(solver: Solver) -> Tensor:
    """All gradients in one row; a weight that takes no part has zero."""
    gradients = (torch.zeros_like(each) if each.grad is None else each.grad for each in solver.parameters())
    return torch.cat([each.flatten() for each in gradients])


def _weights(tours: Tours) -> Tensor:
    generator = named_generator(0, "check_solver", "weights")
    return torch.randn(tours.costs.shape, generator=generator, dtype=tours.costs.dtype)


def _shaken(solver: Solver) -> Solver:
    """A solver with other weights than it was made with."""
    generator = named_generator(0, "check_solver", "teacher")
    with torch.no_grad():
        for parameter in solver.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype), alpha=0.3)
    return solver


def _dice(seed: int = 0) -> torch.Generator:
    return named_generator(seed, "check_solver", "solve")


def _close(found: Tensor, expected: Tensor, what: str, advice: str = "") -> None:
    require(found.shape == expected.shape, f"{what}: the shape is {list(found.shape)}, not {list(expected.shape)}.")
    apart = (found - expected).masked_fill(found == expected, 0).abs().max().item()  # equal infinities are equal
    require(apart <= TOLERANCE * max(1.0, CUSTOMERS), f"{what}: the largest difference is {apart:.3g}.{advice}")
