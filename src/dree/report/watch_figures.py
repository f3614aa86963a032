"""The curves of the page about a solver that keeps learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dree.evaluation.first_month import MonthDrift
from dree.report.style import BAND, GRID, INK, LABEL, LINE_COLOURS, MUTED, TICK, figure_with_layout, tidy
from dree.service.records import Day
from dree.service.state import State

WIDTH, HEIGHT = 7.4, 2.5  # inches
BLUE, ORANGE, GREEN = LINE_COLOURS[:3]
MOST_LABELS = 12  # of days below a panel


def sizes_curve(days: Sequence[Day]) -> Figure:
    """The stops of each day."""
    figure, axes = _panel("Stops of each day", [day.name for day in days])
    axes.plot([day.stops for day in days], color=BLUE, marker=".", linewidth=1.2, markersize=5)
    axes.set_ylim(0, 1.1 * max(day.stops for day in days))
    axes.set_ylabel("stops", fontsize=LABEL, color=MUTED)
    return figure


def drift_curve(days: Sequence[Day], geographic: bool, drift: MonthDrift) -> Figure:
    """The distance of each day to the first month above the band of its own days."""
    figure, axes = _panel("Distance to the first month", [day.name for day in days])
    axes.axhspan(*drift.spread, color=BAND, linewidth=0, label="days of the first month among themselves", zorder=1)
    axes.axhline(drift.floor, color=MUTED, linewidth=0.8, linestyle=":", zorder=2)
    heights = np.full(len(days), np.nan)  # where a day is left out, the line is broken
    heights[list(drift.days)] = drift.distances
    axes.plot(heights, color=ORANGE, marker=".", linewidth=1.2, label="each day", zorder=3)
    axes.set_ylim(0, 1.1 * max(float(drift.distances.max()), drift.spread[1]) or 1.0)
    axes.set_ylabel("km" if geographic else "unit of x and y", fontsize=LABEL, color=MUTED)
    _legend(axes)
    return figure


def quality_curves(state: State) -> Figure:
    """The gaps of each version that counts on its day, before and after, and on past days."""
    counted = state.lineage(state.learner.version)
    versions = [version for version in state.versions if version.today is not None and version.number in counted]
    figure, axes = _panel("Longer than the reference (%)", [version.day or "" for version in versions])
    style: dict[str, Any] = {"marker": ".", "linewidth": 1.2, "markersize": 5, "zorder": 3}
    today = [(number, version.today) for number, version in enumerate(versions) if version.today]
    past = [(number, version.past) for number, version in enumerate(versions) if version.past]
    places = [number for number, _ in today]
    axes.plot(places, [gaps.before for _, gaps in today], color=BLUE, alpha=0.45, label="that day, before", **style)
    axes.plot(places, [gaps.after for _, gaps in today], color=BLUE, label="that day, after", **style)
    if past:
        axes.plot(
            *zip(*((number, gaps.after) for number, gaps in past), strict=True), color=GREEN, label="past days", **style
        )
    refused = [
        (number, gaps.after)
        for number, version in enumerate(versions)
        if not version.promoted and (gaps := version.past or version.today)
    ]
    if refused:
        axes.plot(*zip(*refused, strict=True), "x", color=INK, markersize=7, label="refused", zorder=4)
    used = [number for number, version in enumerate(versions) if version.number == state.in_use]
    for number in used:
        axes.axvline(number, color=MUTED, linewidth=0.9, linestyle="--", zorder=1, label="in use")
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    _legend(axes)
    return figure


def _panel(title: str, days: Sequence[str]) -> tuple[Figure, Axes]:
    """An empty panel whose days are named below it, not more of them than there is room for."""
    figure = figure_with_layout(WIDTH, HEIGHT)
    axes = tidy(figure.subplots(), title, side="left")
    axes.grid(axis="y", color=GRID, linewidth=0.6, zorder=0.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    every = -(-len(days) // MOST_LABELS)
    shown = range(0, len(days), max(1, every))
    axes.set_xticks(list(shown), [days[number].replace("$", r"\$") for number in shown], rotation=30, ha="right")
    axes.set_xlim(-0.6, max(1, len(days)) - 0.4)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    return figure, axes


def _legend(axes: Axes) -> None:
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0, frameon=False, fontsize=TICK, ncols=5)
