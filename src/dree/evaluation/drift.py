"""Whether a stream drifts: how its days differ, in places and in size, the more time is between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dree.data.lade import Region
from dree.errors import DreeError
from dree.evaluation.distances import Progress, Say, pair_distances
from dree.evaluation.gromov_wasserstein import Nodes, made
from dree.evaluation.lags import (
    COVER,
    WEEK,
    LagCurve,
    Matrix,
    OrderTest,
    Pairs,
    beyond_sizes,
    lag_curve,
    moving_mean,
    order_test,
)
from dree.randomness import named_generator, named_seed
from dree.tasks.lade import LEAST_PACKAGES
from dree.tasks.shapes import min_max
from dree.tasks.streams import Stream

FORMAT = 1  # of the JSON
LEAST_DAYS = 2 * WEEK  # fewer give neither a band nor a test that could find anything
MOST_NODES = 300  # that are compared of a day
LEVEL = 0.05  # of the test
LITTLE = 0.05  # a drift by which distances grow less than this is called small
TREND_PARTS = 6  # the trend of sizes is a mean over this part of the time
KILOMETRES = 111.195  # in a degree of latitude


@dataclass(frozen=True, eq=False)
class Days:
    """What is examined: sets of nodes in the order of time."""

    name: str
    unit: str  # of time: `day` or `epoch`
    times: NDArray[np.int64]  # days of the calendar (`date.toordinal`), or epochs
    nodes: tuple[Nodes, ...]  # of each day, as a solver sees them
    places: tuple[Nodes, ...]  # the same ones as a map shows them
    map_unit: str  # of places, in words

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The nodes of each day."""
        return np.array([len(nodes) for nodes in self.nodes], np.int64)

    @property
    def labels(self) -> list[str]:
        """Dates such as `2022-06-02`, or epochs."""
        return [str(date.fromordinal(time) if self.unit == "day" else time) for time in self.times.tolist()]


@dataclass(frozen=True, eq=False)
class Drift:
    """Everything a drift report says."""

    days: Days
    compared: NDArray[np.int64]  # nodes of each day that were compared
    seed: int
    most_nodes: int
    distances: Matrix
    curve: LagCurve
    places: OrderTest
    places_beyond_sizes: OrderTest
    sizes: OrderTest

    @property
    def p(self) -> float:
        """How easily chance could look like this drift of places: with the part that sizes explain, and without."""
        return max(self.places.p, self.places_beyond_sizes.p)

    @property
    def verdict(self) -> str:
        """`places`, `little`, `sizes` or `none`: what drifts."""
        if self.p < LEVEL:
            return "places" if self.growth >= LITTLE else "little"
        return "sizes" if self.sizes.p < LEVEL else "none"

    @property
    def near_lag(self) -> int:
        """The longest lag of days that count as near: a week, or the shortest there is."""
        return max(WEEK, int(self._lag.min()))

    @property
    def near(self) -> float:
        """The mean distance of near days."""
        return self._mean(self._lag <= self.near_lag)

    @property
    def far(self) -> float:
        """The mean distance of all others."""
        return self._mean(self._lag > self.near_lag)

    @property
    def growth(self) -> float:
        """By which share far days differ more than near ones."""
        return self.far / self.near - 1 if self.near else 0.0

    @property
    def window(self) -> int:
        """The days over which the trend of sizes is a mean."""
        return max(WEEK, int(self.days.times[-1] - self.days.times[0]) // TREND_PARTS)

    @property
    def trend(self) -> NDArray[np.float64]:
        """The trend of sizes at each day."""
        return moving_mean(self.days.times, self.days.sizes.astype(np.float64), self.window)

    @property
    def sentence(self) -> str:
        """What the report says, in one sentence."""
        name, unit, p, sizes_p = self.days.name, self.days.unit, _p(self.p), _p(self.sizes.p)
        share = f"{100 * abs(self.growth):.0f} % {'more' if self.growth >= 0 else 'less'}"
        apart = (
            f"{unit}s more than {self.near_lag} {unit}s apart differ {share} "
            f"than nearer ones, which a random order would hardly show ({p})"
        )
        return {
            "places": f"{name} drifts: {apart}; so lifelong learning should pay here.",
            "little": f"{name} drifts, but little: {apart}; so lifelong learning can gain little here.",
            "sizes": f"{name} drifts in size ({sizes_p}), but its places show no drift beyond that ({p}); so lifelong "
            "learning pays here only for a solver that does not carry over to other sizes.",
            "none": f"{name} shows no drift: its {unit}s might as well have come in any other order ({p} for places, "
            f"{sizes_p} for sizes); so learning once from all of them should do as well as lifelong learning.",
        }[self.verdict]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        curve = self.curve
        return {
            "format": FORMAT,
            "name": self.days.name,
            "unit": self.days.unit,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "growth": self.growth,
            "near_lag": self.near_lag,
            "near": self.near,
            "far": self.far,
            "tests": {
                name: {"correlation": test.correlation, "p": test.p, "shuffles": test.shuffles}
                for name, test in (
                    ("places", self.places),
                    ("places_beyond_sizes", self.places_beyond_sizes),
                    ("sizes", self.sizes),
                )
            },
            "made": {"distances": made(), "most_nodes": self.most_nodes, "seed": self.seed, "band_percent": COVER},
            "days": [
                {"label": label, "nodes": nodes, "compared": compared, "trend": trend}
                for label, nodes, compared, trend in zip(
                    self.days.labels,
                    self.days.sizes.tolist(),
                    self.compared.tolist(),
                    self.trend.tolist(),
                    strict=True,
                )
            ],
            "lags": [
                dict(zip(("lag", "pairs", "mean", "low", "high", "shuffled_low", "shuffled_high"), row, strict=True))
                for row in zip(
                    *(each.tolist() for each in (curve.lags, curve.pairs, curve.means, *curve.band, *curve.shuffled)),
                    strict=True,
                )
            ],
        }

    @property
    def _lag(self) -> NDArray[np.int64]:
        return Pairs(self.days.times).lag

    def _mean(self, chosen: NDArray[np.bool_]) -> float:
        return float(Pairs(self.days.times).of(self.distances)[chosen].mean())


def region_days(region: Region) -> Days:
    """The valid days of a region: either axis of each stretched to [0, 1] for comparison, kilometres for the map."""
    valid = [day for day in region.days if day.valid]
    if len(valid) < LEAST_DAYS:
        raise DreeError(
            f"{region.name} has {len(valid)} valid days, with at least {LEAST_PACKAGES} packages each; a drift report "
            f"needs {LEAST_DAYS}. Choose another region: dree data lade lists them with their days."
        )
    middle = np.median(np.concatenate([day.coords for day in valid]), axis=0)
    scale = KILOMETRES * np.array([np.cos(np.radians(middle[1])), 1.0])
    return Days(
        region.name,
        "day",
        np.array([day.date.toordinal() for day in valid], np.int64),
        tuple(min_max(torch.tensor(day.coords)[None])[0].numpy() for day in valid),
        tuple((day.coords - middle) * scale for day in valid),
        "km",
    )


def stream_days(stream: Stream, name: str, seed: int) -> Days:
    """An instance of each epoch's task; where there is a depot it is left out, for its law never changes."""
    if stream.epochs < LEAST_DAYS:
        raise DreeError(f"A drift report needs at least {LEAST_DAYS} epochs, not {stream.epochs}.")
    times = np.arange(1, stream.epochs + 1)
    nodes = []
    for epoch in times.tolist():
        instance = stream.task(epoch).sample(1, named_generator(seed, "drift", epoch))
        nodes.append(instance.coords[0, instance.nodes - instance.customers :].double().numpy())
    return Days(name, "epoch", times, tuple(nodes), tuple(nodes), "side of the square")


def measure_drift(
    days: Days,
    most_nodes: int = MOST_NODES,
    seed: int = 0,
    workers: int = 1,
    say: Say = lambda _: None,
    progress: Progress = lambda _: None,
) -> Drift:
    """Compare all pairs of days, and test whether their order matters."""
    if most_nodes < 2:
        raise DreeError(f"At least 2 nodes of a day must be compared, not {most_nodes}.")
    sets = subsampled(days.nodes, days.labels, most_nodes, seed)
    large = int((days.sizes > most_nodes).sum())
    if large:
        say(f"Of {large} {days.unit}s with more than {most_nodes} nodes a random part is compared (seed {seed}).")
    distances = pair_distances(sets, workers, say, progress)
    pairs = Pairs(days.times)
    compared = np.array([len(each) for each in sets], np.int64)
    size = days.sizes.astype(np.float64)
    return Drift(
        days,
        compared,
        seed,
        most_nodes,
        distances,
        lag_curve(distances, pairs, named_seed(seed, "drift", "bands")),
        order_test(distances, pairs, named_seed(seed, "drift", "places")),
        order_test(beyond_sizes(distances, pairs, compared), pairs, named_seed(seed, "drift", "places beyond sizes")),
        order_test(np.abs(size[:, None] - size[None]), pairs, named_seed(seed, "drift", "sizes")),
    )


def subsampled(sets: Sequence[Nodes], labels: Sequence[str], most: int, seed: int) -> list[Nodes]:
    """The sets, of large ones a random part that goes by the seed and the day's label; nodes stay in order."""
    found = []
    for nodes, label in zip(sets, labels, strict=True):
        if len(nodes) > most:
            generator = np.random.default_rng(named_seed(seed, "drift", "part", label))
            nodes = nodes[np.sort(generator.choice(len(nodes), most, replace=False))]
        found.append(nodes)
    return found


def _p(value: float) -> str:
    return f"p = {value:.1g}" if value < 0.01 else f"p = {value:.2f}"
