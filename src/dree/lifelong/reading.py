"""Numbers read from a device, which is not waited for until they are needed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dree.turns import others_turn


class Reading:
    """Scalars on their way to the host."""

    def __init__(self, scalars: Sequence[Tensor]) -> None:
        numbers = torch.stack([scalar.float() for scalar in scalars]) if scalars else torch.empty(0)
        self._numbers = numbers.to("cpu", non_blocking=True)
        self._read = torch.cuda.Event() if numbers.is_cuda else None  # type: ignore[no-untyped-call]
        if self._read is not None:
            self._read.record()

    @property
    def here(self) -> bool:
        """Whether they have always been on the host."""
        return self._read is None

    def values(self) -> list[float]:
        """The numbers, as soon as the device has them."""
        if self._read is not None:
            with others_turn():
                self._read.synchronize()
        return self._numbers.tolist()
