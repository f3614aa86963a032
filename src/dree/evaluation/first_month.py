"""How far an operator's days have drifted: their Gromov-Wasserstein distances to days of the first month.

Distances between sets of few places are large by chance and smaller for more places, so of every day the same number of
stops is compared; and by how much days of the first month differ from one another is the floor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from dree.evaluation.cache import DistanceCache, key_of
from dree.evaluation.distances import digest
from dree.evaluation.drift import subsampled
from dree.evaluation.gromov_wasserstein import Nodes, gromov_wasserstein, made
from dree.files import cache_folder

MONTH = 30  # days
MOST_STOPS, LEAST_STOPS = 50, 10  # of a day that are compared
SHARE = 20  # per cent of the days that may have fewer stops than are compared
REFERENCES = 6  # days of the first month that all others are compared with
FEWEST = 3  # of them without which nothing can be said


@dataclass(frozen=True, eq=False)
class MonthDrift:
    """How much each day differs from days of the first month, and these from one another."""

    stops: int  # of each day that were compared
    days: tuple[int, ...]  # those with so many stops, by number
    distances: NDArray[np.float64]  # of each of them to the first month: the mean over its reference days
    later: int  # how many of them came after the first month
    floor: float  # the mean distance between the reference days
    spread: tuple[float, float]  # the least and the largest of these days' own means

    def growth(self, last: int = 7) -> float | None:
        """By which share the last days differ more from the first month than its days from one another.

        None where no day came after it.
        """
        if not self.later:
            return None
        return float(self.distances[-min(last, self.later) :].mean() / self.floor - 1) if self.floor else 0.0


def date_of(name: str) -> date | None:
    """The date that a day's name is; where the year is not known, of a leap year."""
    for text in (name, f"2000-{name}"):
        try:
            return date.fromisoformat(text)
        except ValueError:
            continue
    return None


def first_month(names: Sequence[str]) -> int:
    """How many of the days, in order, are the first month: by their dates or, without, the first thirty."""
    dates = [date_of(name) for name in names]
    known = [each for each in dates if each is not None]
    if len(known) < len(dates) or not known:
        return min(MONTH, len(names))
    return sum(each < min(known) + timedelta(days=MONTH) for each in known)


def month_drift(
    places: Sequence[Nodes], names: Sequence[str], progress: Callable[[float], object] = lambda _: None
) -> MonthDrift | None:
    """Compare days, whose places are in one unit of length, with the first month; None where there are too few."""
    sizes = np.array([len(each) for each in places])
    if not len(sizes):
        return None
    stops = min(MOST_STOPS, int(np.percentile(sizes, SHARE)))
    days = tuple(np.flatnonzero(sizes >= stops).tolist())
    month = first_month(names)
    early = [day for day in days if day < month]
    if stops < LEAST_STOPS or len(early) < FEWEST:
        return None
    spread = np.linspace(0, len(early) - 1, min(REFERENCES, len(early)))
    references = [early[round(index)] for index in spread]
    sets = dict(
        zip(days, subsampled([places[day] for day in days], [names[day] for day in days], stops, 0), strict=True)
    )
    pairs = {frozenset((day, other)) for day in days for other in references if day != other}
    known = _distances(sets, sorted(tuple(sorted(pair)) for pair in pairs), progress)
    means = {
        day: float(np.mean([known[frozenset((day, other))] for other in references if other != day])) for day in days
    }
    own = [means[day] for day in references]
    later = sum(day >= month for day in days)
    distances = np.array(list(means.values()))
    return MonthDrift(stops, days, distances, later, float(np.mean(own)), (min(own), max(own)))


def _distances(
    sets: dict[int, Nodes], pairs: Sequence[tuple[int, ...]], progress: Callable[[float], object]
) -> dict[frozenset[int], float]:
    """The distances of pairs; what was computed on another day is taken from the cache."""
    how, found = made(), {}
    with DistanceCache(cache_folder() / "gromov-wasserstein.sqlite") as cache:
        for pair in pairs:
            first, second = (sets[day] for day in pair)
            key = key_of(digest(first) + digest(second), how)
            distance = cache.get(key)
            if distance is None:
                distance = gromov_wasserstein(first, second)
                cache.put([(key, distance)])
            found[frozenset(pair)] = distance
            progress(1 / len(pairs))
    return found
