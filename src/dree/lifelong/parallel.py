"""Several processes that learn one run together, each its share of every batch, with the same weights in all.

Everything that is decided on the host is decided alike by all of them: from `learner.chance`, which is the same for
all, and from numbers that were averaged here. What is remembered of a batch each process remembers of its own share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

from dree.problems import Instances

PATIENCE = timedelta(hours=2)  # while the first process tests, the others wait


class Together:
    """One process that learns alone: all of these do nothing."""

    rank = 0
    size = 1

    def share(self, batch: Instances) -> Instances:
        """The part of a batch that this process learns."""
        return batch

    def whole(self, share: Instances) -> Instances:
        """The batch of which every process has a share."""
        return share

    def average(self, tensor: Tensor) -> None:
        """Replace a tensor by its mean over all processes, in place."""

    def mean(self, tensor: Tensor) -> Tensor:
        """The mean over all processes."""
        return tensor

    def largest(self, tensor: Tensor) -> Tensor:
        """The largest of all processes."""
        return tensor

    def agreed(self, value: int) -> int:
        """The number that the first process has."""
        return value

    def states(self, state: Mapping[str, Any]) -> list[Any]:
        """In the first process, those of all others; elsewhere nothing."""
        return []


class Several(Together):
    """One of several processes."""

    def __init__(self) -> None:
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()

    def share(self, batch: Instances) -> Instances:
        """Every so-many-th instance."""
        return batch[slice(self.rank, None, self.size)]

    def whole(self, share: Instances) -> Instances:
        """The shares again in their order."""
        tensors = []
        for mine in share.tensors():
            parts = [torch.empty_like(mine) for _ in range(self.size)]
            distributed.all_gather(parts, mine.contiguous())
            tensors.append(torch.stack(parts, dim=1).flatten(0, 1))
        return Instances(*tensors)

    def average(self, tensor: Tensor) -> None:
        """The sum, divided: gloo knows no means."""
        distributed.all_reduce(tensor)
        tensor /= self.size

    def mean(self, tensor: Tensor) -> Tensor:
        """A new tensor."""
        mean = tensor.detach().clone()
        self.average(mean)
        return mean

    def largest(self, tensor: Tensor) -> Tensor:
        """A new tensor."""
        largest = tensor.clone()
        distributed.all_reduce(largest, distributed.ReduceOp.MAX)
        return largest

    def agreed(self, value: int) -> int:
        """Told by the first process to all."""
        told = torch.tensor(value)
        distributed.broadcast(told, 0)
        return int(told)

    def states(self, state: Mapping[str, Any]) -> list[Any]:
        """Sent to the first process."""
        gathered: list[Any] | None = [None] * self.size if self.rank == 0 else None
        distributed.gather_object(None if self.rank == 0 else _on_cpu(state), gathered)
        return [] if gathered is None else gathered[1:]


@contextmanager
def joined(rank: int, size: int, meeting: Path, device: torch.device) -> Iterator[Together]:
    """What this process is among several, which meet at a file that none of them has made."""
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(
        backend, init_method=f"file://{meeting}", rank=rank, world_size=size, timeout=PATIENCE
    )
    try:
        yield Several()
    finally:
        distributed.destroy_process_group()


def _on_cpu(value: Any) -> Any:
    """The same state with its tensors on the CPU: another process does not have this one's device."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, Mapping):
        return {name: _on_cpu(item) for name, item in value.items()}
    return [_on_cpu(item) for item in value] if isinstance(value, list | tuple) else value
