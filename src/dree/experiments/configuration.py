"""What a run is: every setting, with the paper's values as defaults, and presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from dree.bars import Bars, Say, no_bar
from dree.data.lade import load_deliveries
from dree.errors import DreeError, unknown
from dree.lifelong import LearnerSettings, make_method, method_class
from dree.problems import rules
from dree.settings import build, changed, check_types
from dree.solvers import Solver, make_solver, solver_class
from dree.tasks import SCENARIOS, RecordedStream, Stream, Task, make_stream
from dree.tasks.lade import check_ratio

DEVICES = ("auto", "cpu", "cuda")
TESTS = ("principal", "finer")
LADE = "lade"  # the scenario of real days
OF_LADE = ("data", "region", "ratio")  # settings that it has alone
# What is otherwise in this scenario: TSPs, an epoch for each day that is learned, and tests every 10 of them.
LADE_START: dict[str, Any] = {"scenario": LADE, "problem": "tsp", "epochs": None, "sizes": {}, "test_every": 10}
LISTED = 20  # regions that an error names
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
    data: str | None = None  # scenario lade: a CSV file of LaDe-D, or a folder of them
    region: str | None = None  # scenario lade: such as sh-2
    ratio: float | None = None  # scenario lade: a day's share in an instance; None: the paper's for the city
    method: str = "fine-tuning"
    options: Mapping[str, Any] = field(default_factory=dict)  # the method's own, where not its defaults
    base: str = "pomo"  # the base solver
    start: str | None = None  # the folder of a run, or of a solver from elsewhere, whose weights are the first
    batch_size: int = 32
    processes: int = 1  # that learn it together, each a share of every batch, on a GPU of its own
    batches: int | None = None  # new batches an epoch; None: the method's own number
    tests: str = "principal"  # what is tested: the principal tasks, or finer: 41 tasks along the drift
    test_every: int = 20  # epochs
    test_instances: int | None = None  # of each test task; None: all there are
    checkpoint_seconds: float = 60.0  # from one checkpoint to the next, at least; 0: one after every epoch
    seed: int = 0
    device: str = "auto"
    solver: Mapping[str, Any] = field(default_factory=dict)  # the base solver's own, where not its defaults
    learner: Mapping[str, Any] = field(default_factory=dict)  # the learner's, where not the base solver's choice

    def __post_init__(self) -> None:
        """Refuse what cannot be run, before anything is written; of groups keep what differs from the defaults."""
        check_types(self)
        for name in ("epochs", "batch_size", "processes", "batches", "test_every", "test_instances"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise DreeError(f"Setting '{name}' must be at least 1, not {value}.")
        if self.batch_size % self.processes:
            raise DreeError(
                f"{self.processes} processes cannot share batches of {self.batch_size} equally. Change batch_size or "
                "processes."
            )
        if not 0 <= self.checkpoint_seconds < float("inf"):
            raise DreeError(f"Setting 'checkpoint_seconds' must be at least 0, not {self.checkpoint_seconds}.")
        if self.device not in DEVICES:
            raise unknown("device", self.device, DEVICES)
        if self.tests not in TESTS:
            raise unknown("kind of tests", self.tests, TESTS)
        rules(self.problem)
        defaults = self._groups({}, {}, {})
        for name, values in self._groups(self.options, self.solver, self.learner).items():
            changed = {each: value for each, value in values.items() if (each, value) not in defaults[name].items()}
            object.__setattr__(self, name, changed)
        if self.scenario == LADE:
            self._check_lade()
            return
        if self.scenario not in SCENARIOS and "." not in self.scenario:  # else a user's own
            raise unknown("scenario", self.scenario, [*SCENARIOS, LADE])
        given = [name for name in OF_LADE if getattr(self, name) is not None]
        if given:
            raise DreeError(f"Only real days have a setting '{given[0]}'. Add --scenario {LADE}, or leave it out.")
        self.test_tasks(self.stream())

    def stream(self, say: Say = lambda _: None, bars: Bars = no_bar) -> Stream:
        """The stream of tasks; that of real days needs their files, and what is wrong with those is said."""
        if self.scenario != LADE:
            epochs = self.epochs or PAPER_EPOCHS.get(self.scenario, PAPER_EPOCHS["drift"])
            return make_stream(self.scenario, self.problem, self.order, epochs, self.spec, self.sizes)
        assert self.data is not None
        assert self.region is not None
        return load_deliveries(Path(self.data), say, bars).stream(self.region, self.ratio)

    def test_tasks(self, stream: Stream) -> Mapping[str, Task]:
        """The tasks of the stream that the run is tested on, by the names of the gap matrix's columns."""
        return stream.finer() if self.tests == "finer" else stream.tests()

    def _check_lade(self) -> None:
        """Refuse what is no stream of real days, as far as that can be said without the data."""
        if self.data is None:
            raise DreeError(
                f"The scenario {LADE} needs --data, a CSV file of LaDe-D or a folder of them"
                + ("" if self.region else ", and --region, such as sh-2")
                + "."
            )
        if self.region is None:
            known = [each.name for each in load_deliveries(Path(self.data)).names]
            names = ", ".join(known[:LISTED]) + (", ..." if len(known) > LISTED else "")
            raise DreeError(
                f"The scenario {LADE} needs --region, one of those in {self.data}: {names}. "
                f"More about them: dree data lade {self.data}"
            )
        if self.ratio is not None:
            check_ratio(self.ratio)
        own: dict[str, Any] = {
            "problem": "tsp",
            "epochs": None,
            "sizes": {},
            "order": 1,
            "spec": "text",
            "tests": "principal",
        }
        for name, value in own.items():
            if getattr(self, name) != value:
                raise DreeError(
                    f"Setting '{name}' cannot be {getattr(self, name)} in the scenario {LADE}, which has TSPs, an "
                    "epoch for each day that is learned, and tests of its own. Leave it out."
                )

    def _groups(
        self, options: Mapping[str, Any], solver: Mapping[str, Any], learner: Mapping[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """The groups with these members, and all others at their defaults."""
        own, learning = self._solver_settings(solver)
        return {
            "options": self._method_options(options),
            "solver": own,
            "learner": asdict(build(LearnerSettings, {**learning, **learner}, "learner.")),
        }

    def _method_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The method's options with these members, and all others at their defaults."""
        return asdict(make_method(self.method, options).options)

    def _solver_settings(self, solver: Mapping[str, Any]) -> tuple[dict[str, Any], Mapping[str, Any]]:
        """The base solver's settings likewise, and what it wants otherwise of the learner."""
        kind = solver_class(self.base)
        return asdict(build(kind.settings_class, solver, "solver.")), kind.learning

    def spelled_out(self) -> dict[str, Any]:
        """Every setting, members of groups that are at their defaults too."""
        return asdict(self) | self._groups(self.options, self.solver, self.learner)

    @property
    def learning(self) -> LearnerSettings:
        """How the run learns, whatever the method."""
        return build(LearnerSettings, self.spelled_out()["learner"])

    @property
    def batches_per_epoch(self) -> int:
        """New batches in an epoch: as set, or the method's own number, or the base solver's share of that."""
        return self.batches or int(method_class(self.method).batches_per_epoch * solver_class(self.base).epoch_share)

    @property
    def known_batches(self) -> int | None:
        """The same; None where it is the number of a method that is not here."""
        return self.batches_per_epoch

    def make_solver(self) -> Solver:
        """The base solver with random weights, on the CPU."""
        return make_solver(self.problem, self.base, self.solver, self.seed)

    def torch_device(self) -> torch.device:
        """Where to learn: on a GPU where there is one, unless told otherwise."""
        return torch_device(self.device)


class RecordedSettings(RunSettings):
    """Settings of a run whose method, base solver, scenario or laws cannot be had here as they were.

    What belongs to them is as recorded.
    """

    def stream(self, say: Say = lambda _: None, bars: Bars = no_bar) -> Stream:
        """The stream; of a user's own scenario or law that is not here, what is known without it."""
        try:
            return super().stream(say, bars)
        except DreeError as error:
            if self.scenario == LADE:
                raise
            epochs = self.epochs or PAPER_EPOCHS.get(self.scenario, PAPER_EPOCHS["drift"])
            return RecordedStream.of(self.scenario, self.problem, self.order, epochs, self.spec, self.sizes, why=error)

    def _method_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return super()._method_options(options)
        except DreeError:
            if "." not in self.method:
                raise
            return dict(options)

    def _solver_settings(self, solver: Mapping[str, Any]) -> tuple[dict[str, Any], Mapping[str, Any]]:
        try:
            return super()._solver_settings(solver)
        except DreeError:
            if "." not in self.base:
                raise
            return dict(solver), {}

    @property
    def known_batches(self) -> int | None:
        """As set."""
        return self.batches


def torch_device(name: str) -> torch.device:
    """A device by name; `auto` is a GPU where there is one."""
    if name not in DEVICES:
        raise unknown("device", name, DEVICES)
    if name == "cuda" and not torch.cuda.is_available():
        raise DreeError("There is no CUDA device here. Use --device cpu.")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


DEMO = RunSettings(
    epochs=50,
    sizes={"U": 10, "R": 10, "E": 20, "G": 20, "C": 30, "GM": 30},
    batches=23,  # of fine-tuning; DREE's are 18, in the paper's ratio
    test_every=2,
    device="cpu",
    solver={"width": 64, "heads": 4, "layers": 3, "feed_forward": 128},
    learner={"learning_rate": 1e-3, "augmentation": 1},
)

PRESETS: dict[str, RunSettings] = {"paper": RunSettings(), "demo": DEMO}


def preset(name: str) -> RunSettings:
    """A preset by name."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]


def changed_preset(name: str, changes: Mapping[str, Any], kind: type[RunSettings] = RunSettings) -> RunSettings:
    """A preset with changes by dotted names; among them scenario and base solver, with what belongs to these."""
    start = vars(preset(name)) | (LADE_START if changes.get("scenario") == LADE else {})
    if "base" in changes:
        start |= {"base": changes["base"], "solver": suited(preset(name).solver, changes["base"])}
    return build(kind, changed(start, changes))


def suited(solver: Mapping[str, Any], base: str) -> dict[str, Any]:
    """Those settings of a small network that another base solver has too, and that make it no larger.

    None of one that cannot be had: to learn with it will be refused, to read its runs need not.
    """
    try:
        defaults = asdict(solver_class(base).settings_class())
    except DreeError:
        return {}
    return {name: value for name, value in solver.items() if name in defaults and value <= defaults[name]}


def preset_of(settings: RunSettings, name: str) -> RunSettings:
    """The preset with which settings can be compared: with the same method, base solver and, if real, days."""
    same: dict[str, Any] = {"method": settings.method, "base": settings.base}
    if settings.scenario == LADE:
        same |= {"scenario": LADE, "data": settings.data, "region": settings.region}
    return changed_preset(name, same, type(settings))
