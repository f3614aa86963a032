"""Tasks and streams: which instances a learner meets, and when."""

from dree.tasks.laws import LAWS, SPECS, Law, law_named
from dree.tasks.mixture import (
    SyntheticTask,
    Task,
    capacity_for,
    check_drawn,
    mix,
    own_source,
    principal,
    task_named,
)
from dree.tasks.recorded import RecordedStream
from dree.tasks.streams import (
    FINER_PARTS,
    ORDERS,
    SCENARIOS,
    DriftStream,
    PeriodicStream,
    Stream,
    SuddenStream,
    SyntheticStream,
    make_stream,
    resolve_order,
    scenario_class,
)

__all__ = [
    "FINER_PARTS",
    "LAWS",
    "ORDERS",
    "SCENARIOS",
    "SPECS",
    "DriftStream",
    "Law",
    "PeriodicStream",
    "RecordedStream",
    "Stream",
    "SuddenStream",
    "SyntheticStream",
    "SyntheticTask",
    "Task",
    "capacity_for",
    "check_drawn",
    "law_named",
    "make_stream",
    "mix",
    "own_source",
    "principal",
    "resolve_order",
    "scenario_class",
    "task_named",
]
