"""What a run is: every setting, with the paper's values as defaults, and presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from dree.errors import DreeError, unknown
from dree.lifelong import LearnerSettings, make_method, method_class
from dree.problems import rules
from dree.solvers import POMOSettings
from dree.tasks import SyntheticStream, Task, make_stream

DEVICES = ("auto", "cpu", "cuda")
TESTS = ("principal", "finer")
PAPER_EPOCHS = {"drift": 1000, "periodic": 1200, "sudden": 1000}  # periodic: six tasks of 200


@dataclass(frozen=True)
class RunSettings:
    """One lifelong training run."""

    problem: str = "cvrp"
    scenario: str = "drift"
    order: int | list[str] = 1  # the paper's orders 1 to 5, or law names
    epochs: int | None = None  # None: the paper's number for the scenario
    spec: str = "text"  # instances as the paper's text has them, or as the official code does
    sizes: Mapping[str, int] = field(default_factory=dict)  # law -> scale, where it is not the paper's
    method: str = "fine-tuning"
    options: Mapping[str, Any] = field(default_factory=dict)  # the method's own, where not its defaults
    batch_size: int = 32
    batches: int | None = None  # new batches an epoch; None: the method's own number
    tests: str = "principal"  # what is tested: the principal tasks, or finer: 41 tasks along the drift
    test_every: int = 20  # epochs
    test_instances: int | None = None  # of each test task; None: all there are
    checkpoint_seconds: float = 60.0  # from one checkpoint to the next, at least; 0: one after every epoch
    seed: int = 0
    device: str = "auto"
    solver: POMOSettings = field(default_factory=POMOSettings)
    learner: LearnerSettings = field(default_factory=LearnerSettings)

    def __post_init__(self) -> None:
        """Refuse what cannot be run, before anything is written."""
        for name in ("epochs", "batch_size", "batches", "test_every", "test_instances"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise DreeError(f"Setting '{name}' must be at least 1, not {value}.")
        if not 0 <= self.checkpoint_seconds < float("inf"):
            raise DreeError(f"Setting 'checkpoint_seconds' must be at least 0, not {self.checkpoint_seconds}.")
        if self.device not in DEVICES:
            raise unknown("device", self.device, DEVICES)
        if self.tests not in TESTS:
            raise unknown("kind of tests", self.tests, TESTS)
        rules(self.problem)
        make_method(self.method, self.options)
        self.test_tasks()

    def stream(self) -> SyntheticStream:
        """The stream of tasks."""
        epochs = self.epochs or PAPER_EPOCHS.get(self.scenario, 1000)
        return make_stream(self.scenario, self.problem, self.order, epochs, self.spec, self.sizes)

    def test_tasks(self) -> dict[str, Task]:
        """The tasks the run is tested on, by the names of the gap matrix's columns."""
        stream = self.stream()
        return stream.finer() if self.tests == "finer" else stream.tests()

    @property
    def batches_per_epoch(self) -> int:
        """New batches in an epoch: as set, or the method's own number."""
        return self.batches or method_class(self.method).batches_per_epoch

    def torch_device(self) -> torch.device:
        """Where to learn: on a GPU where there is one, unless told otherwise."""
        if self.device == "cuda" and not torch.cuda.is_available():
            raise DreeError("There is no CUDA device here. Use --device cpu.")
        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return torch.device(self.device)


DEMO = RunSettings(
    epochs=50,
    sizes={"U": 10, "R": 10, "E": 20, "G": 20, "C": 30, "GM": 30},
    batches=32,  # of fine-tuning; DREE's are 25, in the paper's ratio
    test_every=2,
    device="cpu",
    solver=POMOSettings(width=64, heads=4, layers=3, feed_forward=128),
    learner=LearnerSettings(learning_rate=1e-3, augmentation=1),
)

PRESETS: dict[str, RunSettings] = {"paper": RunSettings(), "demo": DEMO}


def preset(name: str) -> RunSettings:
    """A preset by name."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]
