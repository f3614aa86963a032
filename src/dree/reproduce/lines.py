"""Tables of metrics: a row for each kind of run, over orders and seeds, beside the paper's."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dree.data.published import Row, published
from dree.errors import DreeError
from dree.evaluation.metrics import AT_THE_END, METRICS, Metrics
from dree.experiments import RunSettings
from dree.experiments.naming import keyed_name
from dree.experiments.tables import Cell, PaperRow, PaperTable, Value
from dree.reproduce.base import Choice, Experiment, Found, laws_of

EXACT = 14  # up to so many pairs, all signs are tried; beyond, as many as that would be, at random
OF_METHOD = ("method", "options", "batches")  # settings in which runs of a pair may differ


@dataclass(frozen=True)
class Line:
    """A row to be: its words, the runs that it is the mean of, and what the paper has printed."""

    keys: tuple[str, ...]
    runs: tuple[RunSettings, ...]
    published: Row
    reference: bool = False  # as MT-Ref: it learns all tasks at once, so it forgets nothing and competes with nobody


class MetricsExperiment(Experiment, ABC):
    """An experiment that is a table of metrics."""

    heads: tuple[str, ...] = ("problem", "method")
    columns: tuple[str, ...] = tuple(METRICS)
    table: str | None = None  # the short name of the published table, if the paper has one
    tests: str | None = None  # finer, or the stream's own

    @abstractmethod
    def lines(self, choice: Choice) -> list[Line]:
        """The rows, in the paper's order."""

    def row(self, **wanted: Any) -> Row:
        """The published row with these values; empty where the paper has none."""
        if self.table is None:
            raise DreeError(
                f"{self._kind()} asks for a published row without a published table. Give the class a 'table', such as "
                "'orders', or its lines {} for the published row."
            )
        rows = published(self.table).where(**wanted)
        return rows[0] if rows else {}

    def runs(self, choice: Choice) -> list[RunSettings]:
        """All runs of all rows."""
        lines = self.lines(choice)
        for line in lines:  # here, so that nobody trains for a table that cannot be made
            self._check(line)
        return [run for line in lines for run in line.runs]

    def tables(self, choice: Choice, found: Found) -> list[PaperTable]:
        """One table."""
        lines = self.lines(choice)
        rows = [self._row(line, found) for line in lines]
        notes = [
            *(published(self.table).notes_on([line.published for line in lines]) if self.table else ()),
            *notes_on(choice),
            *laws_of(self.runs(choice)),
            *incomplete(lines, found),
        ]
        notes += compared(lines, found, self.tests)
        return [PaperTable(self.name, self.title, self.source, self.heads, self.columns, tuple(rows), tuple(notes))]

    def _check(self, line: Line) -> None:
        """Refuse a line of which no row could be made, or one that would say something else than is meant."""
        if not isinstance(line.keys, tuple) or not all(isinstance(word, str) for word in line.keys):
            raise DreeError(f"{self._kind()} has a line with the words {line.keys!r}. Give it a tuple of texts.")
        if len(line.keys) != len(self.heads):
            raise DreeError(
                f"{self._kind()} has a line with {len(line.keys)} words, {line.keys}, and its table has "
                f"{len(self.heads)} columns for words. Give the line a word for each, or change 'heads', which is "
                f"{self.heads}."
            )
        mine = f"{self._kind()}: the line {line.keys}"
        if not isinstance(line.runs, tuple | list) or not all(isinstance(run, RunSettings) for run in line.runs):
            raise DreeError(f"{mine} has runs that are no tuple of settings. Give it (choice.settings(...),).")
        if len({keyed_name(run) for run in line.runs}) < len(line.runs):
            raise DreeError(f"{mine} has a run twice. Give each its own seed: choice.settings(..., seed=seed).")
        if not isinstance(line.published, dict):
            raise DreeError(f"{mine} has {line.published!r} as its published row. Where there is none, give it {{}}.")
        for name in self.columns:
            if not _is_value(line.published.get(name)):
                raise DreeError(
                    f"{mine} has {line.published[name]!r} as its published {name}. Give a number, a mean with its "
                    "deviation such as (5.0, 0.3), or None."
                )

    def _kind(self) -> str:
        return f"{type(self).__module__}.{type(self).__qualname__}"

    def _row(self, line: Line, found: Found) -> PaperRow:
        measured = [each.values for run in line.runs if (each := found.metrics(run, self.tests)) is not None]
        known = [name for name in self.columns if not line.reference or name in AT_THE_END]
        ours = {name: over(measured, name) for name in known}
        cells = [Cell(ours.get(name), line.published.get(name)) for name in self.columns]
        paths = [path for run in line.runs if (path := found.run(run)) is not None]
        return PaperRow(line.keys, tuple(cells), tuple(paths), line.reference)


def _is_value(value: object) -> bool:
    """Whether a table can show it: a number, a mean with its deviation, or nothing."""
    parts = value if isinstance(value, tuple) and len(value) == 2 else (value,)
    return value is None or all(isinstance(part, int | float) for part in parts)


def over(measured: Sequence[Metrics], name: str) -> Value:
    """A metric over several runs: mean and standard deviation, of a population; of one run its value."""
    values = [value for each in measured if (value := each.as_dict().get(name)) is not None]
    if len(values) < 2:
        return values[0] if values else None
    return float(np.mean(values)), float(np.std(values))


def notes_on(choice: Choice) -> list[str]:
    """What a reader must know about the scale, the orders and the seeds."""
    notes = [] if choice.scale.name == "paper" else [f"Not at the paper's scale: {choice.scale.title}."]
    if len(choice.seeds) > 1:
        notes.append(f"Over {len(choice.seeds)} seeds.")
    return notes


def incomplete(lines: Sequence[Line], found: Found) -> list[str]:
    """Rows that are not over all their runs."""
    notes = []
    for line in lines:
        there = sum(found.run(run) is not None for run in line.runs)
        if there < len(line.runs):
            notes.append(f"{' '.join(line.keys)}: {there} of {len(line.runs)} runs.")
    return notes


def compared(lines: Sequence[Line], found: Found, tests: str | None) -> list[str]:
    """DREE against every other method of the same problem by a paired test, where there are enough pairs."""
    notes = []
    for line in lines:
        rival = next((each for each in lines if each.keys[:-1] == line.keys[:-1] and each.keys[-1] == "DREE"), None)
        if rival is None or rival is line:
            continue
        gaps = [_difference(found, ours, theirs, tests) for ours, theirs in _twins(rival.runs, line.runs)]
        differences = [gap for gap in gaps if gap is not None]
        if len(differences) > 1:
            where = " ".join([*line.keys[:-1], "DREE"])
            notes.append(
                f"{where} against {line.keys[-1]}: AP {_lower_by(float(np.mean(differences)))} on average over "
                f"{len(differences)} pairs, p = {sign_flip(differences):.3f} (sign-flip test, one-sided)."
            )
    return notes


def _lower_by(difference: float) -> str:
    return f"lower by {difference:.2f}" if difference >= 0 else f"higher by {-difference:.2f}"


def _twins(ours: Sequence[RunSettings], theirs: Sequence[RunSettings]) -> list[tuple[RunSettings, RunSettings]]:
    """The runs of two rows in pairs that differ in their method alone; none where that is not one to one."""
    first, second = ([_but_the_method(run) for run in runs] for runs in (ours, theirs))
    if len(first) != len(second) or any(first.count(each) != 1 or second.count(each) != 1 for each in first):
        return []
    return [(ours[first.index(each)], run) for each, run in zip(second, theirs, strict=True)]


def _but_the_method(run: RunSettings) -> dict[str, Any]:
    """All settings but those that tell methods apart."""
    return {name: value for name, value in vars(run).items() if name not in OF_METHOD}


def _difference(found: Found, ours: RunSettings, theirs: RunSettings, tests: str | None) -> float | None:
    first, second = found.metrics(ours, tests), found.metrics(theirs, tests)
    return None if first is None or second is None else second.values.AP - first.values.AP


def sign_flip(differences: Sequence[float]) -> float:
    """How likely a mean at least this large is if every difference might as well have had the other sign."""
    if len(differences) > EXACT:
        drawn = np.random.default_rng(0).integers(0, 2, (2**EXACT - 1, len(differences))) * 2.0 - 1.0
        signs = np.vstack([np.ones((1, len(differences))), drawn])
    else:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=len(differences))))
    means = signs @ np.array(differences)
    return float((means >= means[0] - 1e-12).mean())


def titled(titles: Mapping[str, str], choice: Choice) -> list[tuple[str, str, str]]:
    """Every problem with every method: the problem, the method, and what the paper calls the latter."""
    return [(problem, method, title) for problem in choice.problems for method, title in titles.items()]
