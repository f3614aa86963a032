"""What a new state directory begins with, and what a person may still say of one that is there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from dree.errors import DreeError
from dree.experiments.shipped import SHIPPED, shipped_folder
from dree.experiments.trained import Trained, load_trained, weights_digest
from dree.lifelong import make_method
from dree.service.records import Settings
from dree.service.stream import check_method
from dree.solvers import Solver

METHOD = "dree"
OPTIONS = {"dree": {"buffer_bytes": 2**27}}  # of methods, where not their defaults: the learner's file stays small
# A quarter of the paper's batch, for the small budgets of a CPU, and so about a quarter of its rate.
BATCH_SIZE = 8
LEARNER = {"learning_rate": 3e-5}


@dataclass(frozen=True)
class Wanted:
    """What a person wants of a state, beside its days; None: what it has or, of a new one, the default."""

    start: Path | None = None  # a run whose solver is version 0
    method: str | None = None


def first_settings(settings: Settings, wanted: Wanted) -> tuple[Settings, Solver]:
    """The settings of a new state and the solver that it starts from."""
    trained = load_trained(wanted.start or shipped_folder(SHIPPED[settings.problem]))
    if trained.settings.problem != settings.problem:
        raise DreeError(
            f"The solver in {wanted.start} is for {trained.settings.problem}, and these orders are a "
            f"{settings.problem}. Start from another one."
        )
    method = check_method(wanted.method or METHOD)
    chosen = replace(
        settings,
        base=trained.settings.base,
        network=trained.settings.spelled_out()["solver"],
        start=_name_of(trained),
        method=method,
        options=OPTIONS.get(method, {}),
        learner=LEARNER,
        batch_size=BATCH_SIZE,
    )
    make_method(chosen.method, chosen.options)
    return chosen, trained.solver


def _name_of(trained: Trained) -> str:
    """What a state calls the solver that it started from."""
    return f"{trained.run.resolve().name} {weights_digest(trained.solver)[:12]}"


def check_wanted(settings: Settings, wanted: Wanted) -> None:
    """Refuse what the state has otherwise."""
    start = None if wanted.start is None else _name_of(load_trained(wanted.start))
    for what, said, fixed in (("--start", start, settings.start), ("--method", wanted.method, settings.method)):
        if said is not None and said != fixed:
            raise DreeError(
                f"{what} says {said}, but this state began with {fixed}. Leave it out, or learn in another folder."
            )
