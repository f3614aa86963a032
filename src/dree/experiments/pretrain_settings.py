"""What a pretraining is: every setting, with Omni's values as defaults, and presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dree.errors import DreeError, unknown
from dree.experiments.configuration import DEMO, RunSettings
from dree.lifelong.meta import MetaSettings

BASE = "omni"  # the base solver that is meta-learned
REFERENCES = ("hgs", "own")


@dataclass(frozen=True)
class PretrainSettings(MetaSettings):
    """One pretraining of a model to start from."""

    problem: str = "tsp"
    reference: str = "hgs"  # what gaps of distributions are to: HGS, or own: the best tours found so far
    reference_iterations: int = 500  # of HGS without improvement
    reference_workers: int = 1  # processes that it runs in
    solver: Mapping[str, Any] = field(default_factory=dict)  # the network's settings, where not the defaults
    sizes: Mapping[str, int] = field(default_factory=dict)  # of the test sets, where not the paper's
    test_instances: int | None = None  # of each test set; None: all there are
    checkpoint_seconds: float = 60.0  # from one checkpoint to the next, at least
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        """Refuse what cannot be pretrained, before anything is written."""
        super().__post_init__()
        if self.reference not in REFERENCES:
            raise unknown("reference", self.reference, REFERENCES)
        for name in ("reference_iterations", "reference_workers"):
            if getattr(self, name) < 1:
                raise DreeError(f"Setting '{name}' must be at least 1, not {getattr(self, name)}.")
        self.as_run()

    def as_run(self) -> RunSettings:
        """The settings of a run with the same solver and tests, as whoever takes a run's folder wants them."""
        return RunSettings(
            problem=self.problem,
            base=BASE,
            solver=self.solver,
            sizes=self.sizes,
            test_instances=self.test_instances,
            checkpoint_seconds=self.checkpoint_seconds,
            seed=self.seed,
            device=self.device,
            learner={"precision": self.precision},
        )


SMALL = PretrainSettings(
    iterations=600,
    batch_size=32,
    learning_rate=1e-3,
    decay_at=540,
    smallest=10,
    largest=20,
    curriculum=540,
    refresh_every=60,
    pool=32,
    probe=16,
    reference="own",
    solver=DEMO.solver,
    sizes={law: size for law, size in DEMO.sizes.items() if law not in ("U", "R")},  # of which there are sets of 20
    test_instances=100,
    device="cpu",
)

PRESETS = {"paper": PretrainSettings(), "small": SMALL}


def pretrain_preset(name: str) -> PretrainSettings:
    """A preset by name."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]
