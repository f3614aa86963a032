"""The paper's measures of a lifelong run, four of them from its gap matrix. For all of them smaller is better.

The matrix has a row for each tested epoch, in order, and a column for each test task; an entry is the average gap
in per cent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike

from dree.errors import DreeError

METRICS: dict[str, str] = {
    "AP": "Average performance: the gap at the end of training, averaged over all test tasks.",
    "AFB": "Average forgetting after best: how much worse a task is at the end than at its own best.",
    "AMFB": "Average max forgetting after best: how much worse a task ever got after its own best.",
    "ABPl": "Average best plasticity: the best gap a task ever reached, averaged over all test tasks.",
}
GEN = {"Gen": "Generalisation: the gap at the end of training on instances of days that were never learned."}
MEASURES = METRICS | GEN
AT_THE_END = {"AP", "Gen"}  # what there is to say of a reference, which does not learn task by task


def measures_in(rows: Iterable[Mapping[str, object]]) -> dict[str, str]:
    """What a table of these rows shows: the four metrics, and Gen where any row has it."""
    return MEASURES if any(name in row for row in rows for name in GEN) else METRICS


@dataclass(frozen=True)
class Metrics:
    """AP, AFB, AMFB and ABPl in per cent, and Gen where there is such."""

    AP: float
    AFB: float
    AMFB: float
    ABPl: float
    Gen: float | None = None

    def as_dict(self) -> dict[str, float]:
        """The measures by name, those that there are."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def metrics(gaps: ArrayLike) -> Metrics:
    """The four measures of a gap matrix [tested epochs, tasks]."""
    matrix = np.asarray(gaps, dtype=np.float64)
    if matrix.ndim != 2 or matrix.size == 0:
        raise DreeError("Metrics need a matrix with at least one tested epoch and one task.")
    if not np.isfinite(matrix).all():
        raise DreeError("The gap matrix has entries that are not finite, so its metrics mean nothing.")
    best, when = matrix.min(axis=0), matrix.argmin(axis=0)
    worst_after = np.array([column[first:].max() for column, first in zip(matrix.T, when, strict=True)])
    final = matrix[-1]
    return Metrics(
        AP=float(final.mean()),
        AFB=float((final - best).mean()),
        AMFB=float((worst_after - best).mean()),
        ABPl=float(best.mean()),
    )
