"""Tasks and streams: which instances a learner meets, and when."""

from dree.tasks.laws import LAWS, SPECS, Law
from dree.tasks.mixture import SyntheticTask, Task, capacity_for, mix, principal
from dree.tasks.streams import (
    ORDERS,
    SCENARIOS,
    DriftStream,
    PeriodicStream,
    Stream,
    SuddenStream,
    SyntheticStream,
    make_stream,
    resolve_order,
)

__all__ = [
    "LAWS",
    "ORDERS",
    "SCENARIOS",
    "SPECS",
    "DriftStream",
    "Law",
    "PeriodicStream",
    "Stream",
    "SuddenStream",
    "SyntheticStream",
    "SyntheticTask",
    "Task",
    "capacity_for",
    "make_stream",
    "mix",
    "principal",
    "resolve_order",
]
