"""Learning curves: the gap on every test task after each epoch, one small panel per task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from numpy.typing import NDArray

from dree.errors import DreeError
from dree.report.method_looks import Look, method_looks
from dree.report.style import (
    BAND,
    GRID,
    INK,
    LABEL,
    MUTED,
    TICK,
    columns_for,
    figure_with_layout,
    law_title,
    tidy,
)

Curves = Mapping[str, Sequence[float]]  # task -> gap (%) at each epoch; NaN where it was not measured
ROUND = [1, 2, 2.5, 5, 10]  # ticks stand at these numbers times powers of ten
MARKS = ("best gap", "task takes part in training")  # in every legend, after the methods
HUGE = 6.0  # gaps this many times larger than the usual one would flatten a plain axis


@dataclass(frozen=True)
class Scale:
    """The vertical axis, the same in all panels so that tasks can be compared."""

    kind: str  # "linear", "log", or "cut" where the largest gaps leave the panel
    low: float
    high: float

    @property
    def label(self) -> str:
        """What stands beside the axis."""
        more = {"linear": "", "log": ", log scale", "cut": f", cut at {_plain(self.high)} %"}
        return f"gap (%){more[self.kind]}"


def learning_curves(
    epochs: Sequence[int],
    gaps: Curves | Mapping[str, Curves],
    active: Mapping[str, Sequence[tuple[int, int]]],
    titles: Mapping[str, str] | None = None,
    from_best: bool = False,
    looks: Mapping[str, Look] | None = None,
) -> Figure:
    """Gap over epochs with a grey band where the task takes part in training; a dot marks each best gap.

    `gaps` maps a task to its gaps, or a method to such a mapping. Gaps much larger than most put the axis on
    a logarithmic scale, or cut it where some gap is not positive; its label says so. With `from_best` the axis is
    plain and has room for what follows each best gap, where forgetting shows, and for more than half of each task's
    gaps; what is above before that is cut.
    `looks` are those of the lines, where their names do not say whose they are.
    """
    methods = _by_method(gaps)
    tasks = _check(epochs, methods, active)
    looks = looks or method_looks({method: method for method in methods})
    every = [[curves[task] for curves in methods.values()] for task in tasks]
    scale = scale_from_best(every) if from_best else scale_for([curve for panel in every for curve in panel])
    columns = columns_for(len(tasks))
    rows = -(-len(tasks) // columns)
    width = 2.95 * columns + 0.6
    figure = figure_with_layout(width, 1.95 * rows + 0.45 + legend_height(list(methods), width))
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for index, axes in enumerate(panels.flat):
        if index >= len(tasks):
            axes.remove()
            continue
        task = tasks[index]
        frame_panel(axes, (titles or {}).get(task, law_title(task)), epochs, scale)
        mark_active(axes, active.get(task, ()))
        for method, curves in methods.items():
            draw_curve(axes, epochs, curves[task], looks[method], method, label_best=len(methods) == 1)
        axes.tick_params(labelbottom=index + columns >= len(tasks))
    figure.supxlabel("epoch", fontsize=LABEL, color=MUTED)
    figure.supylabel(scale.label, fontsize=LABEL, color=MUTED)
    add_legend(figure, looks)
    return figure


def scale_for(curves: Sequence[Sequence[float]]) -> Scale:
    """Plain where the gaps are of one size; logarithmic where some are huge, or cut if logs do not exist.

    A cut never hides the best or the last gap of a curve.
    """
    known = [_known(curve) for curve in curves]
    every = np.concatenate(known)
    low, high, usual = float(every.min()), float(every.max()), float(np.median(np.abs(every)))
    if low > 0 and high > HUGE * usual:
        return Scale("log", low / 1.5, high * 1.4)
    needed = max(max(float(curve.min()), float(curve[-1])) for curve in known)
    top = float(f"{max(float(np.quantile(every, 0.75)), 3 * usual, 1.25 * needed):.1g}")
    if high > HUGE * usual and max(low, needed) < top < high:
        return Scale("cut", low - 0.08 * (top - low), top)
    room = 0.06 * (high - low) or 0.5 * abs(high) or 1.0
    return Scale("linear", 0.0 if low >= 0 else low - room, high + 1.5 * room)


def scale_from_best(panels: Sequence[Sequence[Sequence[float]]]) -> Scale:
    """A plain axis, for panels of some curves, with room for all that follows the best gap of each curve.

    What came before may leave it; but more than half of the gaps of each panel stay, so that none is nearly empty where
    gaps fall to the end.
    """
    curves = [curve for panel in panels for curve in panel]
    known = [_known(curve) for curve in curves]
    low = min(float(curve.min()) for curve in known)
    most = max(_most(np.concatenate([_known(curve) for curve in panel])) for panel in panels)
    needed = 1.15 * max(most, *(float(curve[curve.argmin() :].max()) for curve in known))
    digit = 10.0 ** np.floor(np.log10(needed)) if needed > 0 else 1.0
    top = float(np.ceil(needed / digit * 5) * digit / 5)  # a round number: 10, 12, 14, ..., 20, 22, ...
    if top >= max(float(curve.max()) for curve in known) or low < 0:
        return scale_for(curves)
    return Scale("cut", 0.0, top)


def _known(curve: Sequence[float]) -> NDArray[np.float64]:
    """The gaps that were measured."""
    values = np.asarray(curve, dtype=np.float64)
    return values[~np.isnan(values)]


def _most(gaps: NDArray[np.float64]) -> float:
    """The smallest gap with more than half of all gaps up to it."""
    return float(np.sort(gaps)[len(gaps) // 2])


def _by_method(gaps: Curves | Mapping[str, Curves]) -> dict[str, Curves]:
    """One form for both kinds of argument: method -> task -> gaps; a lone method has no name."""
    if not gaps:
        raise DreeError("There are no gaps to draw: give at least one test task.")
    nested = [isinstance(value, Mapping) for value in gaps.values()]
    if all(nested):
        return dict(cast("Mapping[str, Curves]", gaps))
    if any(nested):
        raise DreeError("Give the gaps as task -> gaps, or as method -> task -> gaps, not as a mixture of both.")
    return {"": cast("Curves", gaps)}


def _check(
    epochs: Sequence[int], methods: Mapping[str, Curves], active: Mapping[str, Sequence[tuple[int, int]]]
) -> list[str]:
    """The tasks to draw, once every method has a gap for every task and epoch."""
    tasks = list(next(iter(methods.values())))
    if not tasks or not epochs:
        raise DreeError("There are no gaps to draw: give at least one test task and one epoch.")
    if any(later <= earlier for earlier, later in pairwise(epochs)):
        raise DreeError("The epochs of a learning curve must increase from one to the next.")
    for method, curves in methods.items():
        whose = f" of method '{method}'" if method else ""
        if set(curves) != set(tasks):
            raise DreeError(f"The tasks{whose} are {sorted(curves)}, but the first method has {sorted(tasks)}.")
        for task, gap in curves.items():
            if len(gap) != len(epochs):
                raise DreeError(f"Task '{task}'{whose} has {len(gap)} gaps for {len(epochs)} epochs.")
            if np.isinf(gap).any() or np.isnan(gap).all():
                raise DreeError(f"Task '{task}'{whose} has an infinite gap or none at all; see its test results.")
    strangers = sorted(set(active) - set(tasks))
    if strangers:
        raise DreeError(f"Active epochs are given for {strangers}, which are not among the tasks {sorted(tasks)}.")
    return tasks


def frame_panel(axes: Axes, title: str, epochs: Sequence[int], scale: Scale) -> None:
    """Title, grid and axes of the panel of one task."""
    tidy(axes, title, side="left")
    axes.grid(axis="y", color=GRID, linewidth=0.6, zorder=0.5)
    axes.set_axisbelow(False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    room = 0.02 * max(epochs[-1] - epochs[0], 1)
    axes.set_xlim(epochs[0] - room, epochs[-1] + room)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=ROUND))
    if scale.kind == "log":
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=_steps_per_decade(scale.high / scale.low), numticks=12))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
    else:
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=ROUND))
    axes.set_ylim(scale.low, scale.high)


def mark_active(axes: Axes, epochs: Sequence[tuple[int, int]]) -> None:
    """Grey where the task takes part in training: what is learned in an epoch lies before the epoch's own mark."""
    for first, last in epochs:
        axes.axvspan(first - 1, last, facecolor=BAND, edgecolor=BAND, linewidth=0.8, zorder=0)


def draw_curve(
    axes: Axes,
    epochs: Sequence[int],
    gap: Sequence[float],
    look: Look,
    method: str,
    label_best: bool,
) -> None:
    """One line and a dot at its best value, with the value in words where there is only one line."""
    few = len(epochs) <= 15
    axes.plot(
        epochs,
        gap,
        color=look.colour,
        linestyle=look.dashes,
        linewidth=1.3,
        marker="." if few else "",
        markersize=4,
        label=method or "gap",
        zorder=3,
    )
    best = int(np.nanargmin(gap))
    axes.plot(
        [epochs[best]],
        [gap[best]],
        linestyle="",
        marker="o",
        markersize=4.6,
        markerfacecolor="white",
        markeredgecolor=look.colour,
        markeredgewidth=1.2,
        label="_best",
        zorder=4,
        clip_on=False,
    )
    if label_best:
        words = f"best {_short(gap[best])}, last {_short(_known(gap)[-1])}"
        axes.set_title(words, loc="right", fontsize=TICK, color=MUTED, pad=4)


def _short(gap: float) -> str:
    """In two decimals, or in four where only these show anything."""
    return f"{gap:z.4f}" if 0.00005 <= abs(gap) < 0.005 else f"{gap:z.2f}"


def legend_height(methods: Sequence[str], width: float) -> float:
    """The height in inches of a legend of these methods in a figure of this width."""
    labels = [*methods, *MARKS]
    return 0.15 * max(2, -(-len(labels) // _columns_that_fit(labels, width)))


def add_legend(figure: Figure, looks: Mapping[str, Look]) -> None:
    """Above the panels: the methods' lines, the ring of a best gap and the band of active epochs."""
    handles: list[Line2D | Patch] = [
        Line2D([], [], color=look.colour, linestyle=look.dashes, linewidth=1.6, label=method or "gap")
        for method, look in looks.items()
    ]
    ring = Line2D([], [], linestyle="", marker="o", markersize=5, markerfacecolor="white", label=MARKS[0])
    ring.set_markeredgecolor(MUTED)
    handles += [ring, Patch(facecolor=BAND, label=MARKS[1])]
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=_columns_that_fit([str(handle.get_label()) for handle in handles], figure.get_figwidth()),
        frameon=False,
        fontsize=LABEL,
        labelcolor=INK,
    )


def _columns_that_fit(labels: Sequence[str], width: float) -> int:
    """In how many columns a legend with these labels goes into a width in inches."""
    needed = [0.55 + 0.065 * len(label) for label in labels]
    fits = [n for n in range(1, len(needed) + 1) if sum(part.max() for part in np.array_split(needed, n)) <= width]
    return max(fits, default=1)


def _plain(value: float) -> str:
    """A number as people write it: 0.5, 10, 200."""
    return f"{value:.10g}"


def _steps_per_decade(ratio: float) -> tuple[float, ...]:
    """Where a logarithmic axis has ticks: more of them the fewer decades it spans."""
    return (1.0, 2.0, 5.0) if ratio < 60 else (1.0, 3.0) if ratio < 5000 else (1.0,)
