"""A fixed number of items out of a stream of unknown length, each seen one equally likely to be among them."""

from __future__ import annotations

from typing import Generic, TypeVar

import torch

from dree.errors import DreeError

Item = TypeVar("Item")


class Reservoir(Generic[Item]):
    """Reservoir sampling. An item is offered first, so that what is not taken need not be made."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise DreeError(f"A buffer must hold at least 1 batch, not {capacity}.")
        self.capacity = capacity
        self.seen = 0
        self.items: list[Item] = []

    def __len__(self) -> int:
        """How many items it holds."""
        return len(self.items)

    def offer(self, generator: torch.Generator) -> int | None:
        """Count one more item as seen. The slot it shall be `put` in, or None if it is not taken."""
        (slot,) = self.foresee(1, generator)
        self.seen += 1
        return slot

    def foresee(self, count: int, generator: torch.Generator) -> list[int | None]:
        """The slots that `offer` would give the next items, each being put there at once; none is counted as seen."""
        free = range(len(self.items), min(len(self.items) + count, self.capacity))
        drawn = [draw(self.seen + number, generator) for number in range(len(free) + 1, count + 1)]
        return [*free, *(slot if slot < self.capacity else None for slot in drawn)]

    def put(self, slot: int, item: Item) -> None:
        """Keep an item in a slot that `offer` gave, or that it is in already."""
        if slot == len(self.items):
            self.items.append(item)
        else:
            self.items[slot] = item

    def shrink(self, capacity: int, generator: torch.Generator) -> None:
        """Hold fewer items from now on; which ones go is a matter of chance, so that what stays is still uniform."""
        self.capacity = min(self.capacity, capacity)
        while len(self.items) > self.capacity:
            del self.items[draw(len(self.items), generator)]

    def sample(self, count: int, generator: torch.Generator) -> list[int]:
        """The slots of `count` different items (all, if there are no more), each equally likely."""
        return torch.randperm(len(self.items), generator=generator, device=generator.device)[:count].tolist()


def draw(count: int, generator: torch.Generator) -> int:
    """A uniform number below `count`."""
    return int(torch.randint(count, (1,), generator=generator, device=generator.device))
