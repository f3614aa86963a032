"""How good a solver is: greedy, from all its starts, no augmentation unless asked for, against reference costs.

Shapes: B instances, P tours of each, T actions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional

from dree.data import TestSet
from dree.problems import Instances, Tours, augment
from dree.problems.check import check_tours
from dree.solvers import Solver
from dree.solvers.chunks import split
from dree.solvers.precision import in_precision
from dree.turns import others_turn

# Instances x starts x nodes solved together. On a CPU, four times as many took nine times the memory at n = 1000.
STATES_AT_ONCE = {"cpu": 2**19, "cuda": 2**24}
Progress = Callable[[float], object]  # hears how many instances were done since the last call, parts included


@dataclass(frozen=True)
class Evaluation:
    """How good a solver is on a test set; gaps in per cent."""

    task: str
    test: str  # the name of the test set
    mean: float
    std: float  # over the instances, of a population
    instances: int
    seconds: float

    @property
    def rate(self) -> float:
        """Instances per second."""
        return self.instances / self.seconds


def evaluate(
    solver: Solver, test: TestSet, copies: int = 1, progress: Progress | None = None, precision: str = "auto"
) -> Evaluation:
    """Solve a test set, greedily from all starts, the best over `copies` (1 or 8) symmetric copies."""
    began = time.perf_counter()
    tours = best_tours(solver, test.instances, copies, progress, precision)
    seconds = time.perf_counter() - began
    with others_turn():
        costs = _checked(test.instances, tours)
    each = gaps(costs, test.references)
    mean, std = float(each.mean()), float(each.std(correction=0))
    return Evaluation(test.task, test.name, mean, std, len(test.instances), seconds)


def _checked(instances: Instances, tours: Tours) -> Tensor:
    """What the tours cost, by the referee: [B]."""
    coords, *orders = (tensor.cpu().numpy() for tensor in instances.tensors())
    return torch.from_numpy(check_tours(coords, tours.actions[:, 0].numpy(), *orders))


def average_gap(solver: Solver, test: TestSet) -> float:
    """The mean gap in per cent on a test set."""
    return evaluate(solver, test).mean


def gaps(costs: Tensor, references: Tensor) -> Tensor:
    """Excess over the reference in per cent, for each instance."""
    return (costs.double() / references.double() - 1) * 100


@torch.no_grad()
def best_tours(
    solver: Solver,
    instances: Instances,
    copies: int = 1,
    progress: Progress | None = None,
    precision: str = "auto",
    most_starts: int | None = None,
) -> Tours:
    """The best greedy tour of each instance over all starts and symmetric copies (P = 1), on the CPU.

    With `most_starts`, of more starts than that only so many are taken, evenly spread over the nodes' numbers.
    Instances, and the starts of large ones, are solved in chunks, so that memory is bounded. Where encodings depend on
    the batch, that has nothing to do with these chunks: it is the next `solver.encoding_batch` instances, or what is
    left of them, with all their copies.
    """
    together = solver.encoding_batch or len(instances)
    batches = [instances[first : first + together] for first in range(0, len(instances), together)]
    return _join([_best_of_batch(solver, each, copies, progress, precision, most_starts) for each in batches], dim=0)


def _best_of_batch(
    solver: Solver,
    instances: Instances,
    copies: int,
    progress: Progress | None,
    precision: str,
    most_starts: int | None,
) -> Tours:
    device = next(solver.parameters()).device
    every = augment(instances, copies)
    starts = solver.starts(every)
    if most_starts is not None and starts.shape[1] > most_starts:
        starts = starts[:, torch.arange(most_starts) * starts.shape[1] // most_starts]
    with in_precision(precision, device, learning=False):
        whole = None if solver.encoding_batch is None else solver.encode(every.to(device))
    chunks = split(len(every), starts.shape[1], every.nodes, STATES_AT_ONCE[device.type])
    found = []
    for rows, parts in groupby(chunks, key=lambda chunk: chunk[0]):
        batch = every[rows].to(device)
        with in_precision(precision, device, learning=False):
            encoding = solver.encode(batch) if whole is None else whole[rows]
        some = []
        for _, columns in parts:
            first = starts[rows, columns].to(device)
            some.append(solver.solve(batch, first, encoding=encoding).best())
            if progress is not None:
                progress(first.numel() / (starts.shape[1] * copies))
        best = _join(some, dim=1).best()
        found.append(Tours(best.actions.cpu(), best.costs.cpu()))
    tours = _join(found, dim=0)
    actions, costs = tours.actions.squeeze(1), tours.costs.squeeze(1)
    return Tours(actions.view(copies, len(instances), -1).transpose(0, 1), costs.view(copies, -1).T).best()


def _join(tours: Sequence[Tours], dim: int) -> Tours:
    """Tours of several starts (1) or instances (0) together; shorter ones stay at the depot to the end."""
    longest = max(each.actions.shape[-1] for each in tours)
    actions = [functional.pad(each.actions, (0, longest - each.actions.shape[-1])) for each in tours]
    return Tours(torch.cat(actions, dim), torch.cat([each.costs for each in tours], dim))
