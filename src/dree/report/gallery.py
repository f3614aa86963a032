"""Pictures of what tasks look like: the six laws, the drift between them, and one example per test task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from dree.errors import DreeError
from dree.problems import Instances
from dree.randomness import named_generator
from dree.report.style import (
    INK,
    LABEL,
    LAW_COLOURS,
    MUTED,
    PLAIN,
    Sheet,
    add_legend_below,
    columns_for,
    law_title,
    legend_rows,
    task_title,
)
from dree.tasks import SyntheticTask, Task, make_stream

STEPS = 4  # the drift between two laws is shown at 1/4, 2/4 and 3/4 of the way
PLAIN_AREA = 12.0  # of a TSP node, in square points
KEY_DEMANDS = (1, 5, 10)


def gallery(problem: str, spec: str = "text", sizes: Mapping[str, int] | None = None, seed: int = 0) -> Figure:
    """The six laws in order 1, and under each two neighbours the drift from the left to the right one.

    Colour says by which law a node was drawn; for CVRP its area grows with demand and the depot is a square.
    """
    laws = 6
    stream = make_stream("drift", problem, 1, STEPS * (laws - 1), spec, sizes)
    generator = named_generator(seed, "gallery")
    sheet = Sheet(laws, STEPS, side=1.7, bottom=0.3 if problem == "tsp" else 0.5)
    figure = sheet.figure()
    for column, law in enumerate(stream.order):
        task = stream.principal(law)
        _draw_task(figure, sheet, (0, column), task, generator, task_title(law, task))
    for step in range(1, STEPS):
        for pair in range(laws - 1):
            mixed = stream.task(pair * STEPS + step)
            axes = _draw_task(figure, sheet, (step, pair + 0.5), mixed, generator, _recipe(mixed))
            if pair == 0:
                share = f"{100 * step // STEPS} % of the way"
                axes.set_ylabel(share, fontsize=LABEL, color=MUTED, labelpad=8)
    add_legend_below(figure, legend_rows(_key(stream.order, problem == "cvrp"), sheet.width))
    return figure


def examples(tasks: Mapping[str, Task], seed: int = 0) -> Figure:
    """One example instance of every task, each in its own panel under the task's name."""
    columns = columns_for(len(tasks))
    # Where every panel's title is its law, the legend need not name the laws again.
    alone = all(name in LAW_COLOURS and _laws(task) == [name] for name, task in tasks.items())
    laws = [] if alone else [law for task in tasks.values() for law in _laws(task)]
    key = _key(list(dict.fromkeys(laws)), any(task.problem == "cvrp" for task in tasks.values()))
    sheet = Sheet(columns, -(-len(tasks) // columns), side=2.4 if columns > 1 else 3.6)
    rows = legend_rows(key, sheet.width)
    sheet = replace(sheet, bottom=0.2 * len(rows) + 0.08 if rows else 0.0)
    figure = sheet.figure()
    generator = named_generator(seed, "examples")
    for index, (name, task) in enumerate(tasks.items()):
        _draw_task(figure, sheet, divmod(index, columns), task, generator, task_title(name, task))
    add_legend_below(figure, rows)
    return figure


def node_areas(demands: NDArray[np.int64]) -> NDArray[np.float64]:
    """The area of a customer's mark in square points: it grows with the demand, and none is invisible."""
    return 3.0 + 2.6 * np.asarray(demands, dtype=np.float64)


def draw_depot(axes: Axes, x: float, y: float, area: float = 46.0) -> None:
    """A dark square with a white rim, above everything else."""
    axes.scatter([x], [y], s=area, marker="s", color=INK, edgecolors="white", linewidths=0.9, zorder=5)


def bounds(coords: NDArray[np.float64]) -> tuple[float, float]:
    """The square to show: the unit square where everything lies in it, otherwise what holds every node."""
    low, high = float(coords.min()), float(coords.max())
    return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high if high > low else low + 1)


def _draw_task(
    figure: Figure,
    sheet: Sheet,
    place: tuple[int, float],
    task: Task,
    generator: torch.Generator,
    title: str,
) -> Axes:
    """One instance of a task, its nodes in the colours of the laws they came from."""
    instance = task.sample(1, generator)
    coords = instance.coords[0].cpu().numpy().astype(np.float64)
    axes = sheet.panel(figure, *place, title, bounds(coords))
    first = instance.nodes - instance.customers
    areas = _areas(instance)
    start = first
    for colour, count in _groups(task, instance.customers):
        nodes = slice(start, start + count)
        x, y = coords[nodes].T
        axes.scatter(x, y, s=areas[nodes], color=colour, edgecolors="white", linewidths=0.3, zorder=3)
        start += count
    if first:
        draw_depot(axes, *coords[0])
    return axes


def _areas(instance: Instances) -> NDArray[np.float64]:
    if instance.demands is None:
        return np.full(instance.nodes, PLAIN_AREA)
    return node_areas(instance.demands[0].cpu().numpy())


def _laws(task: Task) -> list[str]:
    return [law for law, _ in task.groups] if isinstance(task, SyntheticTask) else []


def _groups(task: Task, customers: int) -> list[tuple[str, int]]:
    """Colours and how many nodes have them, in the order of the nodes."""
    if not isinstance(task, SyntheticTask):
        return [(PLAIN, customers)]
    if task.size != customers:
        raise DreeError(f"Task '{task.name}' promises {task.size} customers but drew {customers}.")
    return [(LAW_COLOURS.get(law, PLAIN), count) for law, count in task.groups]


def _recipe(task: SyntheticTask) -> str:
    return " + ".join(f"{count} {law}" for law, count in task.groups) + f", n = {task.size}"


def _key(laws: Sequence[str], cvrp: bool) -> list[list[Line2D]]:
    """Legend entries in groups: the colours of the laws, then areas and the depot."""
    groups = [[_dot(f"{law_title(law)} ({law})", LAW_COLOURS.get(law, PLAIN), PLAIN_AREA * 2) for law in laws]]
    if cvrp:
        areas = node_areas(np.array(KEY_DEMANDS))
        sizes = [_dot(f"demand {d}", MUTED, area) for d, area in zip(KEY_DEMANDS, areas, strict=True)]
        depot = Line2D([], [], marker="s", linestyle="", color=INK, markersize=6.0, label="depot")
        groups.append([*sizes, depot])
    return groups


def _dot(label: str, colour: str, area: float) -> Line2D:
    dot = Line2D([], [], marker="o", linestyle="", color=colour, markersize=float(np.sqrt(area)), label=label)
    dot.set(markeredgecolor="white", markeredgewidth=0.3)
    return dot
