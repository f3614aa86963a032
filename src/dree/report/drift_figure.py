"""The picture of a drift report: places coloured by day, daily sizes with their trend, distance over lag."""

from __future__ import annotations

import textwrap
from datetime import date

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.dates import DateFormatter, MonthLocator
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from dree.evaluation.drift import Days, Drift
from dree.evaluation.lags import COVER
from dree.report.style import BAND, FRAME, GRID, INK, LABEL, LINE_COLOURS, MUTED, TICK, figure_with_layout, tidy

FEWEST = 8  # a lag with fewer pairs than one for every eighth day is only dotted: their mean says little
VIEW = 99.0  # per cent of the nodes, along either axis, that the map holds at least
EPOCH = date(1970, 1, 1).toordinal()  # where the plotting library begins to count days
BLUE, ORANGE = LINE_COLOURS[:2]


def drift_figure(drift: Drift) -> Figure:
    """A map on the left, the daily size above and the lag curve below on the right; the verdict on top."""
    figure = figure_with_layout(10.0, 4.9)
    words = "\n".join(textwrap.wrap(drift.sentence.replace("p = ", "p\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"), 130))
    layout = figure.get_layout_engine()
    assert isinstance(layout, ConstrainedLayoutEngine)
    layout.set(h_pad=0.09)
    figure.suptitle(words, fontsize=LABEL + 0.5, color=INK, x=0.012, ha="left")
    left, right = figure.subfigures(1, 2, width_ratios=(1.08, 1), squeeze=False)[0]
    draw_map(left.subplots(), drift.days, drift.seed)
    above, below = right.subplots(2, 1)
    draw_sizes(above, drift)
    draw_lags(below, drift)
    return figure


def draw_map(axes: Axes, days: Days, seed: int) -> None:
    """All nodes in the colours of their days, in random order, so that late days do not cover early ones."""
    places = np.concatenate(days.places)
    times = np.repeat(_ticks(days), days.sizes)
    order = np.random.default_rng(seed).permutation(len(places))
    x, y = places[order].T
    dots = axes.scatter(x, y, c=times[order], cmap=_colours(), s=7, alpha=0.7, linewidths=0, rasterized=True, zorder=2)
    tidy(axes, f"Places: {len(places)} nodes on {len(days.times)} {days.unit}s", side="left")
    outside = _set_view(axes, places)
    if outside:
        axes.set_title(f"{outside} outside", loc="right", fontsize=TICK, color=MUTED, pad=4)
    kilometres = days.map_unit == "km"
    axes.set_xlabel("east of the middle (km)" if kilometres else "x", fontsize=LABEL, color=MUTED)
    axes.set_ylabel("north of the middle (km)" if kilometres else "y", fontsize=LABEL, color=MUTED)
    bar = axes.figure.colorbar(ScalarMappable(dots.norm, dots.cmap), ax=axes, shrink=0.75, aspect=28, pad=0.03)
    bar.outline.set(edgecolor=FRAME, linewidth=0.6)
    bar.ax.tick_params(labelsize=TICK, colors=MUTED, width=0.6, length=2.5)
    _mark_time(bar.ax.yaxis, days)
    bar.ax.set_title(days.unit, fontsize=TICK, color=MUTED, pad=5)


def draw_sizes(axes: Axes, drift: Drift) -> None:
    """The size of each day and its moving mean."""
    days, times = drift.days, _ticks(drift.days)
    _frame(axes, "Size")
    axes.plot(times, days.sizes, ".", color=FRAME, markersize=4, label=f"one {days.unit}", zorder=2)
    trend = f"mean over {drift.window} {days.unit}s"
    axes.plot(times, drift.trend, color=ORANGE, linewidth=1.6, label=trend, zorder=3)
    axes.set_ylim(0, 1.12 * days.sizes.max())
    axes.set_ylabel("nodes", fontsize=LABEL, color=MUTED)
    if days.unit != "day":  # months need no name
        axes.set_xlabel(days.unit, fontsize=LABEL, color=MUTED)
    _mark_time(axes.xaxis, days)
    _legend(axes)


def draw_lags(axes: Axes, drift: Drift) -> None:
    """The mean distance for each lag with its band, and the band of random orders; long lags of few pairs dotted."""
    curve = drift.curve
    shown = FEWEST * curve.pairs >= len(drift.days.times)
    lags = curve.lags[shown]
    rare = curve.lags >= lags[-1]
    _frame(axes, f"Distance over lag, {COVER} % bands")
    low, high = curve.shuffled[:, shown]
    axes.fill_between(lags, low, high, color=BAND, linewidth=0, label=f"{drift.days.unit}s in random order", zorder=1)
    low, high = curve.band[:, shown]
    axes.fill_between(lags, low, high, color=BLUE, alpha=0.25, linewidth=0, zorder=2)
    axes.plot(lags, curve.means[shown], color=BLUE, linewidth=1.4, label="mean", zorder=3)
    if rare.sum() > 1:
        axes.plot(curve.lags[rare], curve.means[rare], ":", color=BLUE, linewidth=1.0, label="of few pairs", zorder=2)
    axes.set_xlim(0, curve.lags[-1] + 1)
    axes.set_xlabel(f"time between them, lag ({drift.days.unit}s)", fontsize=LABEL, color=MUTED)
    axes.set_ylabel("Gromov-Wasserstein (side = 1)", fontsize=LABEL, color=MUTED)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    _legend(axes)


def _ticks(days: Days) -> NDArray[np.float64]:
    """Times as the plotting library counts them."""
    return (days.times - (EPOCH if days.unit == "day" else 0)).astype(np.float64)


def _mark_time(axis: Axis, days: Days) -> None:
    """Months along the axis, or epochs."""
    if days.unit == "day":
        axis.set_major_locator(MonthLocator())  # type: ignore[no-untyped-call]
        axis.set_major_formatter(DateFormatter("%b"))  # type: ignore[no-untyped-call]
    else:
        axis.set_major_locator(MaxNLocator(6, integer=True))


def _set_view(axes: Axes, places: NDArray[np.float64]) -> int:
    """Show a square that holds nearly all nodes; how many lie outside."""
    rest = (100 - VIEW) / 2
    low, high = np.percentile(places, (rest, 100 - rest), axis=0)
    middle, half = (low + high) / 2, 0.54 * float((high - low).max()) or 1.0
    axes.set(xlim=(middle[0] - half, middle[0] + half), ylim=(middle[1] - half, middle[1] + half), aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(6))
    return int((np.abs(places - middle) > half).any(axis=1).sum())


def _colours() -> Colormap:
    """Dark blue to orange, lighter with time, also for colour-blind readers; without the pale end."""
    return LinearSegmentedColormap.from_list("days", colormaps["plasma"](np.linspace(0.0, 0.88, 64)))


def _frame(axes: Axes, title: str) -> None:
    tidy(axes, title, side="left")
    axes.grid(axis="y", color=GRID, linewidth=0.6, zorder=0.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _legend(axes: Axes) -> None:
    """In one row above the panel, on the right."""
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.01, 0.985),
        borderaxespad=0.0,
        borderpad=0.2,
        frameon=False,
        fontsize=TICK,
        labelcolor=INK,
        ncols=3,
        handlelength=1.3,
        columnspacing=1.2,
    )
