"""Tasks: distributions of instances, made of nodes of one law or of two laws mixed.

Shapes: B instances, n nodes of one law.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from dree.errors import DreeError, unknown
from dree.problems import PROBLEMS, Instances
from dree.tasks.dice import Dice
from dree.tasks.laws import LAWS, SPECS, law_named


def rounded(numerator: int, denominator: int) -> int:
    """The quotient to the nearest integer, halves up, exactly."""
    return (2 * numerator + denominator) // (2 * denominator)


def capacity_for(size: int) -> int:
    """The vehicle capacity for `size` customers: linear through 30 at 20, 40 at 50 and 50 at 100.

    The outer lines are continued below 20 and above 100.
    """
    return 30 + rounded(size - 20, 3) if size <= 50 else 40 + rounded(size - 50, 5)


class Task(ABC):
    """A distribution of instances of one problem and size."""

    problem: str

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name for tables and logs."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of customers, the paper's problem scale."""

    @abstractmethod
    def sample(self, batch: int, generator: torch.Generator) -> Instances:
        """Fresh instances on the generator's device; the same generator state gives the same instances."""


@dataclass(frozen=True)
class SyntheticTask(Task):
    """Instances whose nodes come in groups, each drawn by its own law; groups without nodes are dropped."""

    problem: str
    groups: tuple[tuple[str, int], ...]  # (law, number of nodes)
    spec: str = "text"

    def __post_init__(self) -> None:
        """Refuse names and numbers no instance can be made of."""
        if self.problem not in PROBLEMS:
            raise unknown("problem", self.problem, PROBLEMS)
        if self.spec not in SPECS:
            raise unknown("specification", self.spec, SPECS)
        for law, n in self.groups:
            law_named(law)
            if n < 0:
                raise DreeError(f"Law '{law}' cannot give {n} nodes; the number must not be negative.")
        object.__setattr__(self, "groups", tuple((law, n) for law, n in self.groups if n))
        least = 2 if self.problem == "tsp" else 1
        if self.size < least:
            raise DreeError(
                f"A {self.problem} task needs at least {least} customers, this one has {self.size}. "
                "Give it larger groups."
            )

    @property
    def name(self) -> str:
        """Laws with their numbers of nodes, such as `U20` or `E38+C12`."""
        return "+".join(f"{law}{n}" for law, n in self.groups)

    @property
    def size(self) -> int:
        """The nodes of all groups together."""
        return sum(n for _, n in self.groups)

    @property
    def capacity(self) -> int:
        """The vehicle capacity that goes with the size (CVRP)."""
        return capacity_for(self.size)

    def sample(self, batch: int, generator: torch.Generator) -> Instances:
        """The depot first, uniform for every instance, then the groups in order."""
        if self.problem == "tsp":
            parts = [self._drawn(law, batch, n, generator, None)[0] for law, n in self.groups]
            return Instances(torch.cat(parts, dim=1))
        depot_B2 = Dice(batch, generator).uniform(2)
        coords = [depot_B2[:, None]]
        demands = [torch.zeros((batch, 1), dtype=torch.int64, device=generator.device)]
        for law, n in self.groups:
            coords_Bn2, demands_Bn = self._drawn(law, batch, n, generator, depot_B2)
            coords.append(coords_Bn2)
            demands.append(demands_Bn)
        capacity = torch.full((batch,), self.capacity, dtype=torch.int64, device=generator.device)
        return Instances(torch.cat(coords, dim=1), torch.cat(demands, dim=1), capacity)

    def _drawn(
        self, law: str, batch: int, n: int, generator: torch.Generator, depot_B2: Tensor | None
    ) -> tuple[Tensor, ...]:
        """Coordinates and, given depots, demands of one law's nodes; a user's own law may draw something else."""
        drawn = law_named(law).draw(batch, n, generator, depot_B2, self.spec)
        shapes = [getattr(each, "shape", None) for each in drawn]
        if shapes[:1] != [(batch, n, 2)] or (depot_B2 is not None and shapes[1:] != [(batch, n)]):
            raise DreeError(
                f"Law '{law}' must draw coordinates of shape [{batch}, {n}, 2] and, given depots, demands of shape "
                f"[{batch}, {n}], as two tensors."
            )
        return tuple(each for each in drawn if each is not None)


def own_source(task: Task) -> str | None:
    """Which code of the user's own draws a task's instances, in words: a law, or the task; None where it is dree's."""
    if not isinstance(task, SyntheticTask):
        return f"Task '{task.name}'"
    own = [f"'{law}'" for law, _ in task.groups if law not in LAWS]
    return f"Law {' or '.join(own)}" if own else None


def check_drawn(instances: Instances, source: str) -> None:
    """Refuse instances that cannot be solved or leave the unit square, as what code of the user's own draws may."""
    try:
        instances.validated()
    except DreeError as error:
        raise DreeError(f"{source} gives instances that cannot be solved. {error}") from None
    low, high = instances.coords.min().item(), instances.coords.max().item()
    if low < 0 or high > 1:
        raise DreeError(
            f"{source} gives coordinates from {low:.4g} to {high:.4g}; they must lie in the unit square, whose "
            "symmetries make copies of them."
        )


def principal(law: str, problem: str, size: int | None = None, spec: str = "text") -> SyntheticTask:
    """A task of one law, at the paper's scale unless a size is given."""
    return SyntheticTask(problem, ((law, law_named(law).size if size is None else size),), spec)


def task_named(name: str, problem: str, spec: str = "text") -> SyntheticTask:
    """The task with this name, such as `U20` or `E38+C12`."""
    groups = [re.fullmatch(r"(.*?)(\d+)", part) for part in name.split("+")]
    if not all(groups):
        raise DreeError(f"'{name}' names no task. Write laws with their numbers of nodes, such as U20 or E38+C12.")
    return SyntheticTask(problem, tuple((group[1], int(group[2])) for group in groups if group), spec)


def mix(first: SyntheticTask, second: SyntheticTask, numerator: int, denominator: int) -> SyntheticTask:
    """The task that lies numerator/denominator of the way from one principal task to another.

    Its size lies as far between the two sizes, and that share of its nodes comes from the second law.
    """
    if not 0 <= numerator <= denominator or denominator == 0:
        raise DreeError(f"The share {numerator}/{denominator} of a mixture must lie between 0 and 1.")
    if (first.problem, first.spec) != (second.problem, second.spec):
        raise DreeError(
            f"Only tasks of one problem and specification mix, not {first.problem} ({first.spec}) "
            f"with {second.problem} ({second.spec})."
        )
    if len(first.groups) > 1 or len(second.groups) > 1:
        raise DreeError(f"Only tasks of a single law can be mixed, not {first.name} with {second.name}.")
    size = rounded((denominator - numerator) * first.size + numerator * second.size, denominator)
    new = rounded(numerator * size, denominator)
    groups = ((first.groups[0][0], size - new), (second.groups[0][0], new))
    return SyntheticTask(first.problem, groups, first.spec)
