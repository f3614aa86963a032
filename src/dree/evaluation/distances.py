"""The Gromov-Wasserstein distances of all pairs of many sets, in parallel processes and kept on disk."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dree.errors import DreeError
from dree.evaluation.cache import DistanceCache, key_of
from dree.evaluation.gromov_wasserstein import Nodes, gromov_wasserstein, made
from dree.files import cache_folder

Say = Callable[[str], object]
Progress = Callable[[float], None]  # hears which share of the work was done since the last call

CHUNK = 100_000  # work that a process is given at once, about a second
OVERHEAD = 1300  # what a pair of very small sets takes, where a pair of m and n nodes takes m * n more
# One thread for each process, for all cores have one; POT would load torch and others where they are installed.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    **{f"POT_BACKEND_DISABLE_{name}": "1" for name in ("PYTORCH", "JAX", "CUPY", "TENSORFLOW")},
}


class Pair(NamedTuple):
    """Two of the sets by number, and the key of their distance."""

    first: int
    second: int
    key: bytes


def pair_distances(
    sets: Sequence[Nodes], workers: int = 1, say: Say = lambda _: None, progress: Progress = lambda _: None
) -> NDArray[np.float64]:
    """The symmetric matrix of distances; what was computed before is taken from the cache, whatever interrupted it."""
    if workers < 1:
        raise DreeError(f"The number of workers must be at least 1, not {workers}.")
    matrix = np.zeros((len(sets), len(sets)))
    pairs = _pairs(sets)
    with DistanceCache(cache_folder() / "gromov-wasserstein.sqlite") as cache:
        missing = []
        for pair in pairs:
            known = cache.get(pair.key)
            if known is None:
                missing.append(pair)
            else:
                matrix[pair.first, pair.second] = known
        if len(missing) < len(pairs):
            say(f"{len(pairs) - len(missing)} of {len(pairs)} distances are known from before.")
        with closing(_computed(sets, missing, workers, progress)) as chunks:
            for chunk, distances in chunks:
                cache.put((pair.key, distance) for pair, distance in zip(chunk, distances, strict=True))
                for pair, distance in zip(chunk, distances, strict=True):
                    matrix[pair.first, pair.second] = distance
    return matrix + matrix.T


def _pairs(sets: Sequence[Nodes]) -> list[Pair]:
    how, digests = made(), [digest(nodes) for nodes in sets]
    return [Pair(i, j, key_of(digests[i] + digests[j], how)) for i, j in combinations(range(len(sets)), 2)]


def digest(nodes: Nodes) -> bytes:
    """What a set is known by, where distances are kept."""
    return hashlib.sha256(np.ascontiguousarray(nodes).tobytes()).digest()


def _computed(
    sets: Sequence[Nodes], pairs: Sequence[Pair], workers: int, progress: Progress
) -> Generator[tuple[list[Pair], list[float]], None, None]:
    """Chunks of pairs and their distances, as they are finished."""
    if not pairs:
        return
    total = sum(_work(sets, pair) for pair in pairs)
    with _environment(ENVIRONMENT), _processes(workers) as pool:
        chunks: dict[Future[list[float]], list[Pair]] = {
            pool.submit(_distances, [(sets[pair.first], sets[pair.second]) for pair in chunk]): chunk
            for chunk in _chunks(sets, pairs)
        }
        for future in as_completed(chunks):
            chunk = chunks[future]
            try:
                yield chunk, future.result()
            except BrokenProcessPool:
                raise DreeError(
                    "A process that computed distances was ended from outside, perhaps for want of memory. What was "
                    "computed is kept: go on with the same command and fewer --workers."
                ) from None
            progress(sum(_work(sets, pair) for pair in chunk) / total)


def _chunks(sets: Sequence[Nodes], pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
    """Pairs in groups of about the same work."""
    chunk: list[Pair] = []
    work = 0
    for pair in pairs:
        chunk.append(pair)
        work += _work(sets, pair)
        if work >= CHUNK:
            yield chunk
            chunk, work = [], 0
    if chunk:
        yield chunk


def _work(sets: Sequence[Nodes], pair: Pair) -> int:
    return OVERHEAD + len(sets[pair.first]) * len(sets[pair.second])


@contextmanager
def _processes(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes, which end when this does; what they have not begun they never will."""
    # Not forked: this process has threads, of torch and of progress bars.
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _leave_interrupts_to_the_parent)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Environment variables that processes started in the meantime inherit."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _distances(pairs: Sequence[tuple[Nodes, Nodes]]) -> list[float]:
    """What a process does."""
    return [gromov_wasserstein(first, second) for first, second in pairs]
