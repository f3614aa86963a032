"""The stream of an operator's days as a learner meets it: today, and nothing of the past but what it remembers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from dree.errors import DreeError, unknown
from dree.lifelong import method_class
from dree.lifelong.methods.multi_task import CumulativeMultiTask, MultiTask
from dree.tasks import Stream, Task
from dree.tasks.orders import OrdersTask


@dataclass(frozen=True)
class Today(Stream):
    """A stream that has come to its newest day, which is its last epoch so far."""

    can_sample_past: ClassVar[bool] = False
    earliest: ClassVar[int] = 1

    problem: str = field(init=False)
    today: OrdersTask
    epochs: int  # days learned so far, and this one

    def __post_init__(self) -> None:
        """Route what the day routes."""
        object.__setattr__(self, "problem", self.today.problem)

    def task(self, t: int) -> OrdersTask:
        """Today's task; earlier ones are gone."""
        self.check_epoch(t)
        if t != self.epochs:
            raise DreeError(f"The orders of day {t} are not kept. Use a method that keeps what it needs of the past.")
        return self.today

    def tests(self) -> Mapping[str, Task]:
        """None: what is tested is the state's business."""
        return {}

    def active(self, name: str) -> list[tuple[int, int]]:
        """There are no test tasks."""
        raise unknown("test task", name, [])


def check_method(name: str) -> str:
    """Refuse methods that learn past days again, whose orders are not kept."""
    if issubclass(method_class(name), MultiTask | CumulativeMultiTask):
        raise DreeError(f"The method {name} needs the orders of all days, past or future. Use another, such as dree.")
    return name
