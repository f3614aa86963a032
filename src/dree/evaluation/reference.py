"""Reference tours: what a strong classical solver finds, the yardstick for the neural ones.

The solver stops after a number of iterations without improvement and never by the clock, so its answers are
repeatable. Every answer is checked and costed by `dree.problems.check`; that cost is the reference.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import torch

from dree.data.testsets import FILES, SetKey, TestSet, sound_entry, write_test
from dree.errors import DreeError
from dree.evaluation.cache import Cache, cache_folder, key_of
from dree.evaluation.hgs import Problem, SolverError, Worker, solver_version
from dree.problems import Instances
from dree.problems.check import check_cvrp, check_tsp
from dree.tasks import principal

SOLVER_SEED = 1
Progress = Callable[[int, int], None]


class Reference(NamedTuple):
    """A tour as in `Tours.actions`, without padding, and its float64 cost."""

    actions: list[int]
    cost: float


def reference_costs(
    instances: Instances,
    *,
    iterations: int = 2000,
    seed: int = SOLVER_SEED,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Reference]:
    """A near-optimal tour of every instance with its cost; `progress` hears (instances done, all).

    What was solved before in the same way is taken from the cache, whatever interrupted that.
    """
    made = _made(iterations, seed)
    for name, value in (("iterations", iterations), ("workers", workers)):
        if value < 1:
            raise DreeError(f"The number of {name} must be at least 1, not {value}.")
    problems = _problems(instances.validated())
    found: list[Reference] = []
    with ExitStack() as stack:
        cache = stack.enter_context(Cache(cache_folder() / "references.sqlite"))
        idle: SimpleQueue[Worker] = SimpleQueue()
        for _ in range(workers):
            idle.put(stack.enter_context(Worker()))

        def solve(row: int, problem: Problem, known: list[int] | None) -> list[int]:
            if known is not None:
                return known
            worker = idle.get()
            try:
                return _solve(row, problem, worker, iterations, seed)
            finally:
                idle.put(worker)

        threads = stack.enter_context(ThreadPoolExecutor(workers))
        stack.callback(threads.shutdown, cancel_futures=True)
        keys = [key_of(problem.content(), made) for problem in problems]
        known = [cache.get(key) for key in keys]
        futures = [threads.submit(solve, row, *each) for row, each in enumerate(zip(problems, known, strict=True))]
        for key, problem, tour, future in zip(keys, problems, known, futures, strict=True):
            actions = future.result()
            found.append(Reference(actions, _cost(problem, actions)))
            if tour is None:
                cache.put(key, actions)
            if progress is not None:
                progress(len(found), len(problems))
    return found


def build_test(
    problem: str,
    law: str,
    size: int,
    *,
    count: int = 100,
    spec: str = "text",
    seed: int = 1,
    iterations: int = 2000,
    workers: int = 1,
    force: bool = False,
    folder: Path = FILES,
    progress: Progress | None = None,
) -> Path:
    """Sample a test set, solve it and write it; one that is already there, undamaged, is kept as it is.

    The instances are what `dree.tasks.principal` samples from a generator seeded by `generator_seed`.
    """
    task = principal(law, problem, size, spec)
    key = SetKey(problem, law, size, spec)
    if count < 1:
        raise DreeError(f"A test set needs at least 1 instance, not {count}.")
    made = {"seed": seed, "solver": _made(iterations, SOLVER_SEED)}
    if not force and _is_built(key, {"instances": count, **made}, folder):
        return folder / key.file
    instances = task.sample(count, torch.Generator().manual_seed(generator_seed(seed, key)))
    found = reference_costs(instances, iterations=iterations, workers=workers, progress=progress)
    references = torch.tensor([cost for _, cost in found], dtype=torch.float64)
    tours = torch.nn.utils.rnn.pad_sequence([torch.tensor(actions) for actions, _ in found], batch_first=True)
    return write_test(key, TestSet(key.name, task.name, instances, references, tours), made, folder)


def generator_seed(seed: int, key: SetKey) -> int:
    """The seed of the instances of a test set.

    It is made of the first 8 bytes, big-endian and without the top bit, of the SHA-256 of
    `{seed}/{problem}-{law}{size}-{spec}`.
    """
    digest = hashlib.sha256(f"{seed}/{key.name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % 2**63


def _is_built(key: SetKey, wanted: dict[str, Any], folder: Path) -> bool:
    """Whether the file is there and sound; that it was made otherwise than wanted is an error."""
    entry = sound_entry(key, folder)
    if entry is None:
        return False
    for name, value in wanted.items():
        if entry.get(name) != value:
            raise DreeError(
                f"The test set {key.name} is already there, made with {name} {entry.get(name)}, not {value}. "
                "Ask for what is there, or force the build to replace it."
            )
    return True


def _problems(instances: Instances) -> list[Problem]:
    coords = instances.coords.double().cpu().numpy()
    if instances.demands is None or instances.capacity is None:
        return [Problem(points, None, 0) for points in coords]
    demands, capacity = instances.demands.cpu().numpy(), instances.capacity.tolist()
    return [Problem(*one) for one in zip(coords, demands, capacity, strict=True)]


def _made(iterations: int, seed: int) -> dict[str, Any]:
    """How a tour was found, as the index of the test sets says it."""
    return {"name": "hygese", "version": solver_version(), "iterations": iterations, "seed": seed}


def _solve(row: int, problem: Problem, worker: Worker, iterations: int, seed: int) -> list[int]:
    """The solver's tour of one instance, as in `Tours.actions`."""
    try:
        routes = worker.solve(problem, iterations, seed)
    except SolverError as error:
        raise DreeError(f"Instance {row}: the reference solver failed: {error}") from None
    if not routes:
        raise DreeError(
            f"Instance {row}: the reference solver found no feasible tour within {iterations} iterations. "
            "Allow it more."
        )
    if problem.demands is None:
        return [0, *(node for route in routes for node in route)]
    return [node for route in routes for node in (*route, 0)]


def _cost(problem: Problem, actions: list[int]) -> float:
    """The cost of a tour, as the referee sees it."""
    coords, demands, capacity = problem
    if demands is None:
        return check_tsp(coords, actions)
    return check_cvrp(coords, demands, capacity, actions)
