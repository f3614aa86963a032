"""Table 2 and its details: the solvers that learned order 1, on TSPLIB and CVRPLIB."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from dree.data.libraries import LibraryInstance, find_instances
from dree.data.published import published
from dree.evaluation.libraries import solve_library
from dree.experiments import RunSettings
from dree.experiments.tables import Cell, PaperRow, PaperTable
from dree.experiments.trained import load_trained, weights_digest
from dree.files import write_json
from dree.reproduce.base import REFERENCE, TITLES, Choice, Experiment, Found, laws_of, methods_of
from dree.reproduce.lines import notes_on

LIBRARIES = {"cvrp": "cvrplib", "tsp": "tsplib"}
FRAMES_IN_WORDS = {
    "fit": "moved and scaled to fill the unit square",
    "official": "divided by the largest and not moved, as in the official code",
}
Solved = dict[str, tuple[float, float]]  # instance -> distance, gap


class Table2(Experiment):
    """The mean gap, and every instance."""

    name = "table2"
    title = "Library instances"
    source = "Table 2 and the appendix's tables of each instance"

    def lacks(self, choice: Choice) -> str | None:
        """The libraries' files."""
        if choice.libraries is None:
            return "the files of TSPLIB and CVRPLIB. Say where they are with --libraries FOLDER"
        return None

    def runs(self, choice: Choice) -> list[RunSettings]:
        """All methods on the first order, with the first seed."""
        return methods_of(choice.with_first_seed(), list(TITLES))

    def tables(self, choice: Choice, found: Found) -> list[PaperTable]:
        """The means of both libraries, then the instances of each."""
        choice = choice.with_first_seed()
        solved: dict[tuple[str, str], Solved] = {}
        for problem in choice.problems:
            instances = _instances(choice, found, problem)
            for method in TITLES:
                solved[problem, method] = self._solved(choice, found, instances, problem, method)
        return [self._means(choice, solved), *(self._details(choice, problem, solved) for problem in choice.problems)]

    def _solved(
        self, choice: Choice, found: Found, instances: Sequence[LibraryInstance], problem: str, method: str
    ) -> Solved:
        """What a solver does on every instance; kept with digests of it and of them, so that it is done once."""
        path = found.run(choice.settings(problem=problem, method=method, seed=choice.seeds[0]))
        if path is None:
            return {}
        trained = load_trained(path, found.say)
        kept = found.out / "libraries" / f"{in_frame(path.name, choice.frame)}.json"
        weights = weights_digest(trained.solver)
        digests = {instance.name: instance.digest for instance in instances}
        solved = _read(kept, weights, digests)
        left = [instance for instance in instances if instance.name not in solved]
        if not left:
            return solved
        trained.solver.to(choice.settings().torch_device())
        with found.bars(len(left)) as part:
            for instance in left:
                done = part(f"{TITLES[method]} on {instance.name}", 1.0)
                result = solve_library(trained.solver, instance, frame=choice.frame)
                assert result.gap is not None  # the paper's instances have best known lengths
                solved[instance.name] = (result.distance, result.gap)
                done(1.0)
        rows = {name: {"instance": digests[name], "distance": each[0], "gap": each[1]} for name, each in solved.items()}
        write_json(kept, {"weights": weights, "solved": rows})
        return solved

    def _notes(self, choice: Choice) -> tuple[str, ...]:
        frame = f"Library coordinates {FRAMES_IN_WORDS[choice.frame]} (--frame {choice.frame})."
        return *notes_on(choice), *laws_of(self.runs(choice)), frame

    def _means(self, choice: Choice, solved: dict[tuple[str, str], Solved]) -> PaperTable:
        rows = []
        for method, title in TITLES.items():
            cells = []
            for problem in choice.problems:
                ours = solved[problem, method]
                gaps = [gap for _, gap in ours.values()]
                cells.append(Cell(_mean_and_std(gaps) if gaps else None, _printed(LIBRARIES[problem], title, ours)))
            rows.append(PaperRow((title,), tuple(cells), reference=method == REFERENCE))
        columns = tuple(LIBRARIES[problem].upper() for problem in choice.problems)
        title, notes = "Mean gap on library instances", (*self._notes(choice), *_partial(choice, solved))
        return PaperTable(in_frame("table2", choice.frame), title, "Table 2", ("method",), columns, tuple(rows), notes)

    def _details(self, choice: Choice, problem: str, solved: dict[tuple[str, str], Solved]) -> PaperTable:
        library, rows = LIBRARIES[problem], []
        names = list(dict.fromkeys(row["instance"] for row in published(library).rows))
        for name in names:
            cells = []
            for method, title in TITLES.items():
                printed = published(library).where(instance=name, method=title)
                for number, column in enumerate(("distance", "gap")):
                    ours = solved[problem, method].get(name)
                    cells.append(Cell(ours and ours[number], printed[0][column] if printed else None))
            rows.append(PaperRow((name,), tuple(cells)))
        columns = tuple(f"{title} {what}" for title in TITLES.values() for what in ("distance", "gap"))
        title, notes = f"Every instance of {library.upper()}", self._notes(choice)
        return PaperTable(
            in_frame(library, choice.frame), title, "Appendix", ("instance",), columns, tuple(rows), notes, ranked=False
        )


def _instances(choice: Choice, found: Found, problem: str) -> list[LibraryInstance]:
    """Those of a library that are there."""
    assert choice.libraries is not None
    own = choice.libraries / LIBRARIES[problem]  # each library in a folder of its own, or all files in one
    folder = own if own.is_dir() else choice.libraries
    return find_instances(folder, problem, LIBRARIES[problem], found.say)


def _read(path: Path, weights: str, digests: Mapping[str, str]) -> Solved:
    """What is kept of these weights on these very instances; of a damaged file nothing."""
    try:
        content = json.loads(path.read_bytes()) if path.is_file() else {}
        known = content.get("solved", {}) if content.get("weights") == weights else {}
        own = {name: each for name, each in known.items() if each["instance"] == digests.get(name)}
        return {name: (float(each["distance"]), float(each["gap"])) for name, each in own.items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


def _printed(library: str, method: str, solved: Collection[str]) -> tuple[float, float]:
    """The paper's mean: over the same instances, where these are not all."""
    rows = published(library).where(method=method)
    if solved and len(solved) < len(rows):
        return _mean_and_std([row["gap"] for row in rows if row["instance"] in solved])
    (printed,) = published("libraries").where(library=library, method=method)
    mean: tuple[float, float] = printed["gap"]
    return mean


def _partial(choice: Choice, solved: Mapping[tuple[str, str], Solved]) -> Iterator[str]:
    """Which means, the published ones too, are not over all of the paper's instances."""
    for problem in choice.problems:
        every = {row["instance"] for row in published(LIBRARIES[problem]).rows}
        most = max(len(solved[problem, method]) for method in TITLES)
        if 0 < most < len(every):
            yield f"{LIBRARIES[problem].upper()}: {most} of {len(every)} instances, ours and the paper's."


def _mean_and_std(gaps: Sequence[float]) -> tuple[float, float]:
    return float(np.mean(gaps)), float(np.std(gaps))


def in_frame(name: str, frame: str) -> str:
    """The name of what was made in a frame: of what was made in another one nothing is replaced."""
    return name if frame == Choice.frame else f"{name}-{frame}"
