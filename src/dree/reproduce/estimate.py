"""How long runs will take on the hardware found, about."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from functools import cache

import torch

from dree.experiments import RunSettings
from dree.experiments.bench import interpolate
from dree.experiments.engines.base import Job
from dree.lifelong import Lesson, reinforce
from dree.randomness import named_generator
from dree.solvers import make_solver
from dree.tasks import Stream, SyntheticStream, principal

# Milliseconds of learning one instance, all its starts, with the full-size network: README, `Speed`.
CPU_MS = {"tsp": {20: 1.55, 50: 6.1, 100: 25.8}, "cvrp": {20: 1.67, 50: 5.7, 100: 24.6}}
# The same on an H200 in a batch of 256, which is what a batch of 32 with its copies is.
GPU_MS = {"tsp": {20: 0.0062, 50: 0.013, 100: 0.060}, "cvrp": {20: 0.0075, 50: 0.016, 100: 0.077}}
# What a method does in the time of learning a batch, and what in that of one without its symmetric copies: times of
# docs/methods/README.md with and without them.
METHODS = {"dree": (1.3, 0.8), "llr-bc": (1.3, 13.1), "li": (1.5, 0.0)}
INVIT_METHODS = {"dree": 1.5, "llr-bc": 1.3}  # by its runs in results/invit-T100: it replays states, not instances
INVIT = {"cpu": 60.0, "cuda": 25.0}  # beside POMO
YEAR = 365 * 86400  # seconds
START_SECONDS = 1.0  # of any run
PROBE, PROBED = 20, 8  # customers of the instances that are timed, and how many of these
POMO_SIZES = ("width", "heads", "layers", "feed_forward")  # what the time of a network depends on
OTHERWISE = 60  # customers of a day that has not been read


def seconds(jobs: Sequence[Job]) -> float:
    """Of all jobs, one after the other."""
    return sum(run_seconds(job.settings) for job in jobs)


def run_seconds(settings: RunSettings) -> float:
    """Of one run's learning."""
    instances = settings.batches_per_epoch * settings.batch_size * settings.learning.augmentation
    factor = _beside_fine_tuning(settings)
    table, speed = _speed(settings)
    each = sum(count * interpolate(table, size) for size, count in _sizes(settings).items())
    return START_SECONDS + instances * each * factor * speed / 1000 / settings.processes


def _beside_fine_tuning(settings: RunSettings) -> float:
    """How much longer than a batch of fine-tuning with POMO a batch takes."""
    if settings.base == "invit":
        return INVIT[settings.torch_device().type] * INVIT_METHODS.get(settings.method, 1.0)
    whole, without_copies = METHODS.get(settings.method, (1.0, 0.0))
    return whole + without_copies / settings.learning.augmentation


def _sizes(settings: RunSettings) -> Counter[int]:
    """How many epochs there are of each size."""
    if settings.data is not None:  # to know a region's days, its files would have to be read
        return Counter({OTHERWISE: 150})
    return _stream_sizes(settings.problem, settings.stream())


@cache
def _stream_sizes(problem: str, stream: Stream) -> Counter[int]:
    assert isinstance(stream, SyntheticStream)
    return Counter(stream.task(epoch).size for epoch in range(1, stream.epochs + 1))


def _speed(settings: RunSettings) -> tuple[dict[int, float], float]:
    """The times of the device at hand, and how much slower or faster this network is on it than they say."""
    if settings.torch_device().type == "cuda":
        return GPU_MS[settings.problem], 1.0
    table = CPU_MS[settings.problem]
    sizes = {name: value for name, value in settings.solver.items() if name in POMO_SIZES}
    return table, _probed(settings.problem, tuple(sizes.items())) / table[PROBE]


@cache
def _probed(problem: str, network: tuple[tuple[str, object], ...]) -> float:
    """Milliseconds of learning one instance on this processor with a network of this size."""
    solver, taken = make_solver(problem, settings=dict(network)), []
    instances = principal("U", problem, PROBE).sample(PROBED, named_generator(0, "probe"))
    for number in range(3):
        began = time.perf_counter()
        encoding = solver.encode(instances)
        generator = named_generator(0, "solve", number)
        tours = solver.solve(instances, generator=generator, encoding=encoding, record=True)
        reinforce(solver, Lesson(instances, tours, encoding)).backward()  # type: ignore[no-untyped-call]
        taken.append(time.perf_counter() - began)
    return 1000 * min(taken) / PROBED


def in_words(duration: float) -> str:
    """A duration for people."""
    if duration < 90:
        return f"{duration:.0f} s"
    if duration < 90 * 60:
        return f"{duration / 60:.0f} min"
    if duration < 48 * 3600:
        return f"{duration / 3600:.1f} h"
    return f"{duration / 86400:.0f} days" if duration < 2 * YEAR else f"{duration / YEAR:.0f} years"


def device_in_words(settings: RunSettings) -> str:
    """The hardware found."""
    device = settings.torch_device()
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name()}, as fast as an H200"
    return f"this processor, {torch.get_num_threads()} threads"
