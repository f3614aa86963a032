"""Reference tours: what a strong classical solver finds, the yardstick for the neural ones.

Every tour is checked and costed by `dree.problems.check`, whoever found it; that cost is the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from typing import NamedTuple

from dree.errors import DreeError
from dree.evaluation.cache import Cache, key_of
from dree.evaluation.classical import HGS, ClassicalSolver, Problem, SolverError
from dree.evaluation.classical.worker import Worker
from dree.files import cache_folder
from dree.problems import Instances
from dree.problems.check import check_cvrp, check_tsp

Progress = Callable[[int, int], None]
STANDARD = HGS()


class Reference(NamedTuple):
    """A tour as in `Tours.actions`, without padding, and its float64 cost."""

    actions: list[int]
    cost: float


def reference_costs(
    instances: Instances,
    solver: ClassicalSolver = STANDARD,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Reference]:
    """A near-optimal tour of every instance with its cost; `progress` hears (instances done, all).

    What was solved before in the same way is taken from the cache, whatever interrupted that, unless the solver
    stops by the clock: it may do better the next time.
    """
    made = solver.made()
    if workers < 1:
        raise DreeError(f"The number of workers must be at least 1, not {workers}.")
    if instances.problem not in solver.problems:
        able = " and ".join(solver.problems)
        raise DreeError(f"{solver.package} solves {able} only, not {instances.problem}. Use another solver.")
    problems = _problems(instances.validated())
    found: list[Reference] = []
    with ExitStack() as stack:
        cache = stack.enter_context(Cache(cache_folder() / "references.sqlite"))
        idle: SimpleQueue[Worker] = SimpleQueue()
        for _ in range(workers):
            idle.put(stack.enter_context(Worker(solver)))

        def solve(row: int, problem: Problem, known: list[int] | None) -> list[int]:
            if known is not None:
                return known
            worker = idle.get()
            try:
                return _solve(row, problem, worker)
            finally:
                idle.put(worker)

        threads = stack.enter_context(ThreadPoolExecutor(workers))
        stack.callback(threads.shutdown, cancel_futures=True)
        keys = [key_of(problem.content(), made) for problem in problems]
        known = [cache.get(key) if solver.repeatable else None for key in keys]
        futures = [threads.submit(solve, row, *each) for row, each in enumerate(zip(problems, known, strict=True))]
        for key, problem, tour, future in zip(keys, problems, known, futures, strict=True):
            actions = future.result()
            source = "the solver" if tour is None else f"the cache {cache.path} (delete it)"
            found.append(Reference(actions, _cost(problem, actions, f"Instance {len(found)}, tour from {source}")))
            if tour is None and solver.repeatable:
                cache.put(key, actions)
            if progress is not None:
                progress(len(found), len(problems))
    return found


def _problems(instances: Instances) -> list[Problem]:
    coords = instances.coords.double().cpu().numpy()
    if instances.demands is None or instances.capacity is None:
        return [Problem(points, None, 0) for points in coords]
    demands, capacity = instances.demands.cpu().numpy(), instances.capacity.tolist()
    return [Problem(*one) for one in zip(coords, demands, capacity, strict=True)]


def _solve(row: int, problem: Problem, worker: Worker) -> list[int]:
    """The solver's tour of one instance, as in `Tours.actions`."""
    try:
        routes = worker.solve(problem)
    except SolverError as error:
        raise DreeError(f"Instance {row}: the reference solver failed: {error}") from None
    if not routes:
        raise DreeError(f"Instance {row}: the reference solver found no feasible tour. Allow it more iterations.")
    if problem.demands is None:
        return [0, *(node for route in routes for node in route)]
    return [node for route in routes for node in (*route, 0)]


def _cost(problem: Problem, actions: list[int], where: str) -> float:
    """The cost of a tour, as the referee sees it."""
    coords, demands, capacity, *_ = problem
    try:
        return check_tsp(coords, actions) if demands is None else check_cvrp(coords, demands, capacity, actions)
    except DreeError as error:
        raise DreeError(f"{where}: {error}") from None
