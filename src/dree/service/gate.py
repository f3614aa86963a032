"""The gate: a new version solves from now on only if it is not worse on the past by more than a margin.

Gaps are in per cent of the reference costs, so differences between them are percentage points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dree.errors import DreeError
from dree.evaluation.metrics import METRICS, Metrics, metrics
from dree.service.records import Gaps

MARGIN = 0.3  # percentage points
NOTABLE = 0.005  # smaller changes are none, in words


@dataclass(frozen=True)
class Verdict:
    """Whether a new version is put to use, and why."""

    promoted: bool
    reason: str


def check_margin(margin: float) -> float:
    """Refuse what is no margin."""
    if not 0 <= margin < math.inf:
        raise DreeError(f"The margin must be a number of percentage points from 0, not {margin}.")
    return margin


def judge(today: Gaps, past: Gaps | None, then: float | None, margin: float) -> Verdict:
    """Compare a new version with the one in use, on the past; where there is none yet, on the day just learned.

    `then` is the gap that those past days had when they were learned. A version that is worse must be within the margin
    of both, so that many small losses do not add up.
    """
    check_margin(margin)
    gaps, where = (today, "on the day itself") if past is None else (past, "on past days")
    change = gaps.after - gaps.before
    if not math.isfinite(gaps.after):
        return Verdict(False, f"its gap {where} is no number")
    if change > margin:
        return Verdict(False, f"it is {change:.2f} points worse {where}, and the margin is {margin:g}")
    if then is not None and change > 0 and gaps.after - then > margin:
        return Verdict(
            False,
            f"{where} it is {gaps.after - then:.2f} points worse than when these were learned, and the margin is "
            f"{margin:g}",
        )
    if abs(change) < NOTABLE:
        return Verdict(True, f"{where} it is as good as the one before")
    return Verdict(True, f"{where} it is {abs(change):.2f} points {'worse' if change > 0 else 'better'}")


def mean_gaps(each: Sequence[Gaps]) -> Gaps | None:
    """The means over days, each counting the same; None where there are no days."""
    if not each:
        return None
    before, after = np.mean([(gaps.before, gaps.after) for gaps in each], axis=0).tolist()
    return Gaps(before, after)


def forgetting(histories: Iterable[Sequence[float]]) -> Metrics | None:
    """The paper's measures over days of the past, each with the gaps of the versions in use since it was learned.

    They are the means over days, whose histories begin on different days; None where there are no days.
    """
    each = [metrics(np.array(history)[:, None]) for history in histories]
    if not each:
        return None
    return Metrics(**{name: float(np.mean([getattr(one, name) for one in each])) for name in METRICS})
