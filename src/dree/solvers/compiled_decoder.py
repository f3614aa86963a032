"""POMO's decoder by kernels for the CPU: whole tours, and the gradient of their log-probabilities.

Shapes: B instances, P tours, T actions, N nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dree.compiled.tours import Batch, learning_kernel, rollout_kernel
from dree.errors import DreeError
from dree.problems import Instances
from dree.solvers.decoding import ENDLESS, AnyTape, Decoder, GlimpseDecoder
from dree.solvers.sampling import uniform_numbers

PARTS = 4  # of a batch, for each thread: tours are of different lengths, and a neighbour may take a processor


class CompiledDecoder(GlimpseDecoder):
    """Every tour from its start to its end in one loop. Single states are left to PyTorch's operations."""

    def rollout(
        self,
        instances: Instances,
        starts_BP: Tensor,
        longest: int,
        clip: float,
        generator: torch.Generator | None,
        *,
        record: bool,
    ) -> tuple[Tensor, tuple[Tensor, AnyTape] | None]:
        """All tours, by as many threads as PyTorch uses; nothing is recorded."""
        batch, tours = starts_BP.shape
        actions = torch.zeros(batch, tours, longest + 1, dtype=torch.int64)  # one more for a start at the depot
        actions[..., 0] = starts_BP
        lengths = torch.empty(batch, tours, dtype=torch.int64)
        drawn = torch.empty(0, 0, 0) if generator is None else uniform_numbers(starts_BP, longest, generator)
        given = (self._batch(instances, actions), drawn.numpy(), lengths.numpy(), np.float32(clip))
        threads = torch.get_num_threads()
        columns = ranges(tours, 1 if batch >= threads else PARTS * threads // batch)
        kernel = rollout_kernel(*self._shape)
        at_once(lambda part: kernel(*given, *part), product(ranges(batch, PARTS * threads), columns))
        if not lengths.all() or (not record and bool((lengths < 0).any())):  # a loss will not be finite, that is enough
            raise DreeError(ENDLESS)
        return actions[..., : int(lengths.abs().max())].contiguous(), None

    def score(
        self, instances: Instances, actions_BPT: Tensor, weights_BP: Tensor, clip: float
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """All tours once more, by as many threads as PyTorch uses."""
        batch = self._batch(instances, actions_BPT)
        return self._learn(batch, batch, weights_BP.to(torch.float32).expand(actions_BPT.shape[:2]), clip, taught=False)

    def imitate(
        self, instances: Instances, actions_BPT: Tensor, teacher: Decoder, clip: float
    ) -> tuple[Tensor, tuple[Tensor, ...]] | None:
        """Likewise, if kernels can read the teacher's nodes as they read ours."""
        ours, theirs = self.tensors[0], teacher.tensors[0]
        alike = isinstance(teacher, GlimpseDecoder) and teacher.heads == self.heads
        if not alike or (theirs.shape, theirs.dtype) != (ours.shape, ours.dtype):
            return None
        batch, target = (self.part(each.tensors)._batch(instances, actions_BPT) for each in (self, teacher))
        return self._learn(batch, target, torch.ones(actions_BPT.shape[:2]), clip, taught=True)

    def _learn(
        self, batch: Batch, teacher: Batch, weights_BP: Tensor, clip: float, *, taught: bool
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """What the kernel measures of each tour, and the gradient of the weighted sum for our tensors."""
        weights = weights_BP.contiguous()
        measured = torch.empty_like(weights)
        gradients = tuple(torch.zeros_like(tensor, memory_format=torch.contiguous_format) for tensor in self.tensors)
        arrays = (each.detach().numpy() for each in (weights, measured, *gradients))
        given = (batch, teacher, *arrays, np.float32(clip))
        kernel = learning_kernel(*self._shape, taught)
        at_once(lambda rows: kernel(*given, rows), ranges(len(weights), PARTS * torch.get_num_threads()))
        return measured, gradients

    @property
    def _shape(self) -> tuple[int, int, bool]:
        """Heads, their width, and whether there are routes: what kernels are compiled for."""
        return self.heads, self.tensors[0].shape[-1] // self.heads, self.routed

    def _batch(self, instances: Instances, actions_BPT: Tensor) -> Batch:
        """What kernels are given; where there are no demands, none that matter."""
        if (len(actions_BPT), *self.tensors[0].shape[:2]) != (len(instances), len(instances), instances.nodes):
            raise IndexError(
                f"there are {len(instances)} instances of {instances.nodes} nodes, tours of {len(actions_BPT)} and an "
                f"encoding of {self.tensors[0].shape[0]} with {self.tensors[0].shape[1]} nodes"
            )
        starts = actions_BPT[..., 0]
        if starts.numel() and not 0 <= int(starts.min()) <= int(starts.max()) < instances.nodes:
            raise IndexError(f"starts must be nodes, 0 to {instances.nodes - 1}")
        demands, capacity = instances.demands, instances.capacity
        if demands is None or capacity is None:
            demands = torch.zeros(len(instances), instances.nodes, dtype=torch.int64)
            capacity = demands[:, 0]
        tensors = (*self.tensors, demands, capacity, actions_BPT.to(torch.int64))
        return Batch(*(tensor.detach().contiguous().numpy() for tensor in tensors))


def ranges(count: int, parts: int) -> list[tuple[int, int]]:
    """Numbers up to a count as at most so many ranges of about the same length."""
    bounds = np.linspace(0, count, min(count, parts) + 1).astype(int).tolist()
    return list(pairwise(bounds))


def at_once(work: Callable[[Any], None], parts: Iterable[Any]) -> None:
    """Do every part of some work, by as many threads as PyTorch uses."""
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for _ in pool.map(work, parts):
            pass
