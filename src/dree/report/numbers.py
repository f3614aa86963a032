"""What methods say about themselves, epoch by epoch: their buffers, their replays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from dree.report.curves import ROUND
from dree.report.method_looks import Look, method_looks
from dree.report.page import Heading, Picture, Section
from dree.report.style import (
    GRID,
    INK,
    LABEL,
    MUTED,
    columns_for,
    figure_with_layout,
    tidy,
)

Log = Sequence[Mapping[str, Any]]  # the lines of a run's metrics.jsonl
EVERY_METHOD = {"epoch", "task", "loss", "cost", "Gen", "held_out"}  # columns of the log that are not a method's own
# Titles of the numbers of our methods, and what one unit of theirs is in the title's.
TITLES: dict[str, tuple[str, float]] = {
    "buffered": ("remembered experiences", 1),
    "buffer_bytes": ("memory for them (MiB)", 2**-20),
    "replays": ("instance replays in the epoch", 1),
    "improved": ("replayed instances solved better than before (%)", 100),
}


def own_numbers(log: Log) -> list[str]:
    """The columns of a run's log that only its method has."""
    return list(dict.fromkeys(name for row in log for name in row if name not in EVERY_METHOD))


def draw_numbers(logs: Mapping[str, Log], looks: Mapping[str, Look] | None = None) -> Figure | None:
    """A panel for each number, with a line for each method (method -> log) that has it; None where none has any."""
    looks = looks or method_looks({method: method for method in logs})
    names = list(dict.fromkeys(name for log in logs.values() for name in own_numbers(log)))
    if not names:
        return None
    columns = columns_for(len(names))
    rows = -(-len(names) // columns)
    figure = figure_with_layout(3.6 * columns + 0.3, 1.75 * rows + 0.65)
    panels = figure.subplots(rows, columns, sharex=True, squeeze=False).flat
    for axes, name in zip(panels, names, strict=False):
        title, unit = TITLES.get(name, (name, 1))
        tidy(axes, title, side="left")
        axes.grid(axis="y", color=GRID, linewidth=0.6, zorder=0.5)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=ROUND))
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for method, log in logs.items():
            if name in own_numbers(log):
                values = unit * np.array([row.get(name, np.nan) for row in log], dtype=float)
                epochs = [row["epoch"] for row in log]
                style: Any = {"color": looks[method].colour, "linestyle": looks[method].dashes, "linewidth": 1.3}
                axes.plot(epochs, values, **style, marker="." if len(log) == 1 else "", label=method, zorder=3)
        shown = np.concatenate([line.get_ydata() for line in axes.get_lines()])
        if np.nanmin(shown) >= 0:
            axes.set_ylim(bottom=0.0)
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=ROUND, integer=bool((shown == np.round(shown)).all())))
    for axes in figure.axes[len(names) :]:
        axes.remove()
    figure.supxlabel("epoch", fontsize=LABEL, color=MUTED)
    if len(logs) > 1:
        _add_legend(figure, {method: looks[method] for method, log in logs.items() if own_numbers(log)})
    return figure


def memory_sections(logs: Mapping[str, Log], looks: Mapping[str, Look] | None = None) -> list[Section]:
    """The same as part of a page; nothing where no method has numbers of its own."""
    figure = draw_numbers(logs, looks)
    if figure is None:
        return []
    caption = "What is remembered and how often it is replayed, epoch by epoch, as far as a method reports it."
    return [Heading("Memory"), Picture.of(figure, caption, "One panel per number that a method reports of itself")]


def _add_legend(figure: Figure, looks: Mapping[str, Look]) -> None:
    handles = [
        Line2D([], [], color=look.colour, linestyle=look.dashes, linewidth=1.6, label=method)
        for method, look in looks.items()
    ]
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=len(handles),
        frameon=False,
        fontsize=LABEL,
        labelcolor=INK,
    )
