"""How large a reproduction is: as the paper's, small enough for a workstation, or just to see everything work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dree.errors import unknown
from dree.experiments.configuration import DEMO, LADE, LADE_START, RunSettings, suited
from dree.lifelong import METHODS, method_class
from dree.settings import build
from dree.solvers import solver_class


@dataclass(frozen=True)
class Scale:
    """What is not as in the paper."""

    name: str
    title: str
    changes: Mapping[str, Any] = field(default_factory=dict)  # of any run; `solver` where a base solver has such
    epochs: Mapping[str, int] = field(default_factory=dict)  # by scenario
    batches: int | None = None  # fine-tuning's an epoch; other methods and solvers have theirs in the paper's ratio
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of methods that count in epochs
    builds_finer: bool = False  # whether finer test sets are built on the spot, small ones

    def settings(self, **changes: Any) -> RunSettings:
        """The settings of a run of the paper at this scale: `changes` are what sets it apart from fine-tuning."""
        values = {**self.changes, **changes}
        if values.get("scenario") == LADE:  # real days have sizes and numbers of their own
            values = {**values, **LADE_START}
        else:
            values.setdefault("epochs", self.epochs.get(values.get("scenario", "drift")))
        method = values.get("method", RunSettings.method)
        if method in self.options:
            values["options"] = {**self.options[method], **values.get("options", {})}
        values["solver"] = suited(self.changes.get("solver", {}), values.get("base", RunSettings.base))
        if self.batches is not None:
            values["batches"] = self._batches(method, values)
        return build(RunSettings, values)

    def _batches(self, method: str, values: Mapping[str, Any]) -> int:
        assert self.batches is not None
        share = method_class(method).batches_per_epoch / METHODS["fine-tuning"].batches_per_epoch
        return max(1, round(self.batches * share * solver_class(values.get("base", RunSettings.base)).epoch_share))


EVERY_EPOCH = {"li": {"refresh_every": 1}}  # the paper's 25 of 1000 epochs; of so few, 25 would be never
SCALES = {
    "paper": Scale("paper", "the paper's own settings"),
    "small": Scale(
        "small",
        "25 epochs, 10 to 30 customers, a small network: the ranking in an hour or two on a workstation",
        {
            "sizes": dict(DEMO.sizes),
            "solver": dict(DEMO.solver),
            "learner": dict(DEMO.learner),
            "test_every": 1,
            "test_instances": 50,
        },
        {"drift": 25, "periodic": 24, "sudden": 50},
        batches=51,
        options=EVERY_EPOCH,
        builds_finer=True,
    ),
    "smoke": Scale(
        "smoke",
        "a few batches of tiny runs: shows that everything works, its numbers mean nothing",
        {
            "sizes": dict(DEMO.sizes),
            "solver": {"width": 16, "heads": 2, "layers": 1, "feed_forward": 32},
            "learner": {"learning_rate": 1e-3, "augmentation": 1},
            "batch_size": 4,
            "test_every": 5,
            "test_instances": 4,
        },
        {"drift": 10, "periodic": 12, "sudden": 50},
        batches=1,
        options=EVERY_EPOCH,
        builds_finer=True,
    ),
}


def scale(name: str) -> Scale:
    """A scale by name."""
    if name not in SCALES:
        raise unknown("scale", name, SCALES)
    return SCALES[name]
