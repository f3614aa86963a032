"""Tables as the paper has them, with what it printed beside what was measured here."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dree.errors import DreeError

Value = float | tuple[float, float] | None  # a number, a mean with its standard deviation, or a dash


@dataclass(frozen=True)
class Cell:
    """One number, ours and the paper's."""

    ours: Value
    published: Value

    @property
    def difference(self) -> float | None:
        """By how much ours is larger; None where one of both is missing."""
        if self.ours is None or self.published is None:
            return None
        return _middle(self.ours) - _middle(self.published)


@dataclass(frozen=True)
class PaperRow:
    """A row: what it is about, its numbers, and the runs that ours come from."""

    keys: tuple[str, ...]  # a word for each of the table's heads, such as CVRP, DREE
    cells: tuple[Cell, ...]  # a cell for each of the table's columns
    runs: tuple[Path, ...] = ()
    reference: bool = False  # such as MT-Ref: no competitor, so never the best


@dataclass(frozen=True)
class PaperTable:
    """A table in the paper's layout."""

    name: str  # such as table1; files of it are called so
    title: str
    source: str  # where it is in the paper, such as Table 1
    heads: tuple[str, ...]  # of the columns of words
    columns: tuple[str, ...]  # of the columns of numbers
    rows: tuple[PaperRow, ...]
    notes: tuple[str, ...] = field(default=())  # what a reader must know: scale, seeds, tests, what is missing
    ranked: bool = True  # smaller is better, and the best among rows that differ in their last word alone is marked

    def __post_init__(self) -> None:
        """Refuse rows that do not fit their columns."""
        for row in self.rows:
            if len(row.keys) != len(self.heads) or len(row.cells) != len(self.columns):
                raise DreeError(
                    f"The table '{self.name}' cannot be made: the row {row.keys} has {len(row.keys)} words and "
                    f"{len(row.cells)} numbers, where {len(self.heads)} and {len(self.columns)} belong. Give it a word "
                    f"for each of {self.heads} and a cell for each of {self.columns}."
                )


def _middle(value: float | tuple[float, float]) -> float:
    return value[0] if isinstance(value, tuple) else value
