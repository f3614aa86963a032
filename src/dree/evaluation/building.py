"""How test sets are made: instances from a seed, tours from HGS. The same recipe gives the same set."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from dree.data import FILES, SetKey, TestSet, find_set, load_set, user_folder, write_test
from dree.data.testsets import build_command
from dree.errors import DreeError
from dree.evaluation.classical import HGS
from dree.evaluation.reference import Progress, reference_costs
from dree.problems import Instances
from dree.tasks import LAWS, SyntheticTask, check_drawn, law_named, own_source, task_named


@dataclass(frozen=True)
class Recipe:
    """How one test set is made."""

    count: int  # instances
    seed: int  # of the instances
    iterations: int  # of HGS without improvement
    restarts: int = 1  # of HGS, each from another seed; the best tour is kept

    def __post_init__(self) -> None:
        """Refuse sets without instances, and instances without search."""
        for name in ("count", "iterations", "restarts"):
            if getattr(self, name) < 1:
                raise DreeError(f"A test set needs a {name} of at least 1, not {getattr(self, name)}.")

    @property
    def solvers(self) -> list[HGS]:
        """The solvers of the references, one for each start."""
        return [HGS(self.iterations, seed) for seed in range(1, self.restarts + 1)]

    def made(self) -> dict[str, Any]:
        """How the set is made, as an index says it."""
        again = {"restarts": self.restarts} if self.restarts > 1 else {}
        return {"seed": self.seed, "solver": self.solvers[0].made() | again}


def standard_recipe(task: SyntheticTask) -> Recipe:
    """How the shipped sets were made, but for CVRP G50's three starts, and others are unless asked for otherwise.

    The paper's own tasks have 1000 instances, mixtures 200 and all others 100. HGS starts three times where once is
    not enough (CVRP beyond n = 50), and has more iterations where they cost little (small tasks that are not the
    paper's).
    """
    if len(task.groups) > 1:
        count = 200
    else:
        count = 1000 if task.size == law_named(task.groups[0][0]).size else 100
    demanding = task.problem == "cvrp" and task.size > 50
    return Recipe(count, 1, 5000 if count == 100 and task.size <= 30 else 2000, 3 if demanding else 1)


def recipe_of(key: SetKey, entry: Mapping[str, Any], asked: Mapping[str, int | None]) -> Recipe:
    """What is asked for; the rest as the set's entry in an index has it, if it has one, or else as is standard."""
    solver = entry.get("solver", {})
    made = {
        "count": entry.get("instances"),
        "seed": entry.get("seed"),
        "iterations": solver.get("iterations"),
        "restarts": solver.get("restarts", 1) if solver else None,
    }
    values = asdict(standard_recipe(_task(key)))
    for known in (made, asked):
        values |= {name: value for name, value in known.items() if value is not None}
    return Recipe(**values)


def must_build(key: SetKey, recipe: Recipe, folder: Path | None = None, *, force: bool = False) -> bool:
    """Whether a test set is missing or damaged, or to be replaced; one made by another recipe is not, unless forced.

    Without a folder all places are meant in which `load_set` looks. Shipped sets are never replaced. A law of the
    user's own that draws what cannot be learned is refused.
    """
    if own_source(_task(key)) is not None and not _same(*(_drawn(key, recipe.count, recipe.seed) for _ in range(2))):
        raise _not_repeatable(_own_laws(key))
    stored = find_set(key, folder)
    if stored is None:
        return True
    made = asdict(recipe_of(key, stored.entry, {}))
    wanted = asdict(recipe).items()
    differences = ", ".join(f"{name} {made[name]}, not {value}" for name, value in wanted if made[name] != value)
    shipped = folder is None and stored.folder == FILES
    if shipped and (force or differences):
        raise DreeError(
            f"The test set {key.name} is shipped with dree{differences and f', made with {differences}'}. Shipped sets "
            "stay as they are, so that results can be compared. Build your own in another folder with --folder."
        )
    if differences and not force:
        raise DreeError(
            f"The test set {key.name} is already there, made with {differences}. "
            "Replace it with --force, or build in another folder with --folder."
        )
    if not force:
        check_law(key, folder)
    return force


def check_law(key: SetKey, folder: Path | None = None) -> None:
    """Refuse a test set whose law, one of the user's own, draws other instances by now than the set has.

    And one whose law draws what cannot be learned, whether the set has that or not.
    """
    stored = find_set(key, folder)
    own = _own_laws(key)
    if stored is None or not own:
        return
    kept, seed = load_set(key, folder).instances, stored.entry.get("seed")
    drawn = _drawn(key, len(kept), 1 if seed is None else seed)
    if seed is not None and not _same(drawn, kept):
        if not _same(drawn, _drawn(key, len(kept), seed)):
            raise _not_repeatable(own)
        raise DreeError(
            f"The test set {key.name} was made before {' and '.join(own)} was edited: other instances are drawn now. "
            f"Make it again with: {build_command([key])} --force"
        )


def build_test(
    key: SetKey,
    recipe: Recipe,
    folder: Path | None = None,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> Path:
    """Sample a test set, solve it and write it, into the user's folder unless another is given.

    The instances are what the task samples from a generator seeded by `generator_seed`.
    """
    instances = _drawn(key, recipe.count, recipe.seed)
    starts = [reference_costs(instances, solver, workers=workers, progress=progress) for solver in recipe.solvers]
    found = [min(same, key=lambda reference: reference.cost) for same in zip(*starts, strict=True)]
    references = torch.tensor([cost for _, cost in found], dtype=torch.float64)
    test = TestSet(key.name, key.task, instances, references, padded([actions for actions, _ in found]))
    return write_test(key, test, recipe.made(), folder or user_folder())


def _own_laws(key: SetKey) -> list[str]:
    return [law for law, _ in _task(key).groups if law not in LAWS]


def _same(first: Instances, second: Instances) -> bool:
    return all(map(torch.equal, first.tensors(), second.tensors()))


def _not_repeatable(laws: Sequence[str]) -> DreeError:
    return DreeError(
        f"{' and '.join(laws)} draws other instances each time, with the same generator. A law must draw from the "
        "generator that it is given and from nothing else: torch.rand(..., generator=generator)."
    )


def _drawn(key: SetKey, count: int, seed: int) -> Instances:
    """The instances of a test set; what a user's own law draws is checked."""
    task = _task(key)
    instances = task.sample(count, torch.Generator().manual_seed(generator_seed(seed, key)))
    if (source := own_source(task)) is not None:
        check_drawn(instances, source)
    return instances


def _task(key: SetKey) -> SyntheticTask:
    return task_named(key.task, key.problem, key.spec)


def padded(tours: Sequence[Sequence[int]]) -> torch.Tensor:
    """Tours of several lengths in one tensor, the shorter ones followed by 0."""
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(tour) for tour in tours], batch_first=True)


def generator_seed(seed: int, key: SetKey) -> int:
    """The seed of the instances of a test set.

    It is made of the first 8 bytes, big-endian and without the top bit, of the SHA-256 of
    `{seed}/{problem}-{task}-{spec}`.
    """
    digest = hashlib.sha256(f"{seed}/{key.name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % 2**63
