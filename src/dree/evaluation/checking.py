"""How good the references of a test set are: a sample of it solved again, with more effort and by other solvers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dree.data import SetKey, load_set, write_test
from dree.data.testsets import known_entry
from dree.errors import DreeError
from dree.evaluation.building import padded, recipe_of
from dree.evaluation.classical import HGS, ClassicalSolver
from dree.evaluation.reference import Progress, Reference, reference_costs
from dree.randomness import named_generator

SAME = 1e-9  # costs that differ less, relatively, are those of one tour


class Better(NamedTuple):
    """A tour that beats the stored reference of an instance."""

    instance: int  # its row in the test set
    stored: float  # the reference's cost
    found: Reference
    solver: dict[str, Any]  # how it was found

    @property
    def percent(self) -> float:
        """How much shorter it is."""
        return (1 - self.found.cost / self.stored) * 100


@dataclass(frozen=True)
class Check:
    """What came of checking one test set."""

    key: SetKey
    sample: int
    solvers: tuple[dict[str, Any], ...]
    better: tuple[Better, ...]

    @property
    def mean(self) -> float:
        """By how many per cent the references of the sample can be improved on average."""
        return sum(each.percent for each in self.better) / self.sample

    @property
    def worst(self) -> float:
        """By how many per cent the worst of them can be improved."""
        return max((each.percent for each in self.better), default=0.0)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "set": self.key.name,
            "sample": self.sample,
            "improved": len(self.better),
            "mean_percent": self.mean,
            "worst_percent": self.worst,
            "solvers": list(self.solvers),
            "better": [
                {
                    "instance": each.instance,
                    "stored": each.stored,
                    "found": each.found.cost,
                    "percent": each.percent,
                    "solver": each.solver["name"],
                    "tour": each.found.actions,
                }
                for each in self.better
            ],
        }


def stronger(key: SetKey, effort: int, folder: Path | None = None) -> HGS:
    """HGS with `effort` times the iterations that the references of a test set had in all, and another seed."""
    if effort < 1:
        raise DreeError(f"The effort must be at least 1, not {effort}.")
    recipe = recipe_of(key, known_entry(key, folder), {})
    return HGS(recipe.iterations * recipe.restarts * effort, recipe.restarts + 1)


def check_set(
    key: SetKey,
    solvers: Sequence[ClassicalSolver],
    folder: Path | None = None,
    *,
    sample: int = 50,
    seed: int = 0,
    workers: int = 1,
    progress: Progress | None = None,
) -> Check:
    """Solve a random sample of a test set again, with every solver, and compare the best with the stored costs.

    `progress` hears (instances solved, all) of each solver in turn.
    """
    if sample < 1:
        raise DreeError(f"The sample must have at least 1 instance, not {sample}.")
    test = load_set(key, folder)
    generator = named_generator(seed, "check", key.name)
    rows = torch.randperm(len(test.instances), generator=generator)[:sample].sort().values
    best: dict[int, Better] = {}
    for solver in solvers:
        found = reference_costs(test.instances[rows], solver, workers=workers, progress=progress)
        for row, reference in zip(rows.tolist(), found, strict=True):
            stored = float(test.references[row])
            record = best[row].found.cost if row in best else stored
            if reference.cost < record - SAME * stored:
                best[row] = Better(row, stored, reference, solver.made())
    better = tuple(best[row] for row in sorted(best))
    return Check(key, len(rows), tuple(solver.made() for solver in solvers), better)


def keep(check: Check, folder: Path) -> Path:
    """Put the better tours into the test set; its entry in the index says which, and how they were found."""
    test, entry = load_set(check.key, folder), known_entry(check.key, folder)
    if test.tours is None:
        raise DreeError(f"The test set {check.key.name} has no tours, only costs. Build it again with --force.")
    references, tours = test.references.clone(), test.tours.tolist()
    for each in check.better:
        references[each.instance] = each.found.cost
        tours[each.instance] = each.found.actions
    improved = [{"instance": each.instance, "solver": each.solver} for each in check.better]
    made = {**entry, "improved": [*entry.get("improved", []), *improved]}
    return write_test(check.key, replace(test, references=references, tours=padded(tours)), made, folder)
