"""Pictures of solutions: the closed tour of a TSP, the routes of a CVRP from its depot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from dree.errors import DreeError
from dree.problems import rules
from dree.problems.check import check_cvrp, check_tsp, split_routes
from dree.report.gallery import bounds, draw_depot, node_areas
from dree.report.style import (
    INK,
    LABEL,
    MUTED,
    TICK,
    Sheet,
    add_legend_below,
    columns_for,
    line_colour,
    line_style,
)

MOST_IN_LEGEND = 12
UNDER = 0.28  # inches under a panel, for its length


@dataclass(frozen=True)
class Solution:
    """One instance with the tour to draw on it; what is not a solution of the problem is refused."""

    coords: NDArray[np.floating]  # [N, 2], a CVRP's depot first
    actions: Sequence[int]
    problem: str
    title: str
    demands: Sequence[int] | NDArray[np.int64] | None = None  # [N], 0 at the depot
    capacity: int | None = None

    def __post_init__(self) -> None:
        """Refuse shapes that cannot be drawn and actions that visit the wrong nodes or carry too much."""
        rules(self.problem)
        if self.coords.ndim != 2 or self.coords.shape[1] != 2 or not np.isfinite(self.coords).all():
            raise DreeError(f"'{self.title}': coordinates must be finite and [nodes, 2], not {self.coords.shape}.")
        if self.demands is not None and len(self.demands) != len(self.coords):
            raise DreeError(
                f"'{self.title}': {len(self.demands)} demands for {len(self.coords)} nodes. Give one "
                "per node, with 0 for the depot first."
            )
        _ = self.length

    @property
    def length(self) -> float:
        """The total length, by the independent referee; an error where the actions are no solution."""
        if self.problem == "tsp":
            return check_tsp(self.coords, [int(node) for node in self.actions])
        if self.demands is None or self.capacity is None:
            return check_cvrp(self.coords, [0] * len(self.coords), 0, self.actions)
        return check_cvrp(self.coords, self.demands, self.capacity, self.actions)

    @property
    def routes(self) -> list[list[int]]:
        """Customers route by route; a TSP is one route."""
        return [[int(a) for a in self.actions]] if self.problem == "tsp" else split_routes(self.actions)

    def load(self, route: Sequence[int]) -> str:
        """What a route carries of what it could, as far as either is known."""
        if self.demands is None:
            return f"{len(route)} stops"
        carried = int(np.asarray(self.demands)[list(route)].sum())
        return f"{carried}" if self.capacity is None else f"{carried} / {self.capacity}"


def draw_routes(
    coords: NDArray[np.floating],
    actions: Sequence[int],
    problem: str,
    title: str,
    demands: Sequence[int] | NDArray[np.int64] | None = None,
    capacity: int | None = None,
    length: str = "",
) -> Figure:
    """One solution, with a legend of its routes and their loads; `length` is its length in words, if it has a unit."""
    solution = Solution(coords, actions, problem, title, demands, capacity)
    tsp = problem == "tsp"
    sheet = Sheet(1, 1, side=4.2, below=UNDER, right=0.12 if tsp else 1.25, bottom=0.25 if tsp else 0.0)
    figure = sheet.figure()
    axes = _draw(figure, sheet, (0, 0), solution, length, numbers=True)
    if tsp:
        add_legend_below(figure, [_key(solution)])
        return figure
    axes.legend(
        handles=_key(solution),
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
        labelspacing=0.7,
        frameon=False,
        fontsize=TICK + 0.5,
        labelcolor=INK,
    )
    return figure


def routes_grid(solutions: Sequence[Solution], columns: int | None = None) -> Figure:
    """Several solutions side by side, row by row, without legends; loads stand in the panels where they fit."""
    columns = columns or columns_for(len(solutions))
    sheet = Sheet(columns, -(-len(solutions) // columns), side=3.0, below=UNDER)
    figure = sheet.figure()
    for index, solution in enumerate(solutions):
        _draw(figure, sheet, divmod(index, columns), solution, "", numbers=False)
    return figure


def _draw(figure: Figure, sheet: Sheet, place: tuple[int, int], solution: Solution, length: str, numbers: bool) -> Axes:
    """Nodes, routes in their colours with pale legs to and from the depot, and what labels find room."""
    points = np.asarray(solution.coords, dtype=np.float64)
    axes = sheet.panel(figure, *place, solution.title, bounds(points))
    routes = solution.routes
    tsp = solution.problem == "tsp"
    many = "" if tsp else f", {len(routes)} route{'s' * (len(routes) > 1)}"
    axes.set_xlabel(f"length {length or f'{solution.length:.3f}'}{many}", fontsize=LABEL, color=MUTED, labelpad=4)
    areas = _areas(solution)
    for number, route in enumerate(routes):
        colour = line_colour(number)
        walk = points[[*route, route[0]] if tsp else route]
        axes.plot(*walk.T, color=colour, linestyle=line_style(number), linewidth=1.2, zorder=2)
        if not tsp:
            for end in (route[0], route[-1]):
                axes.plot(*points[[0, end]].T, color=colour, linewidth=0.7, alpha=0.45, zorder=1)
        x, y = points[route].T
        axes.scatter(x, y, s=areas[route], color=colour, edgecolors="white", linewidths=0.4, zorder=3)
        ring = axes.scatter(x[:1], y[:1], s=1.3 * areas[route[0]] + 6, color="white", zorder=4)
        ring.set(edgecolors=colour, linewidths=1.1)
    if not tsp:
        draw_depot(axes, points[0, 0], points[0, 1], area=64.0)
        labels = [_label(solution, i, numbers) for i in range(len(routes))]
        _add_labels(axes, points, routes, labels, (7.0 / 72) / sheet.side)
    return axes


def _areas(solution: Solution) -> NDArray[np.float64]:
    if solution.demands is None:
        return np.full(len(solution.coords), 12.0)
    return node_areas(np.asarray(solution.demands))


def _label(solution: Solution, number: int, numbers: bool) -> str:
    return str(number + 1) if numbers else solution.load(solution.routes[number]).replace(" / ", "/")


def _add_labels(
    axes: Axes, points: NDArray[np.float64], routes: list[list[int]], labels: list[str], height: float
) -> None:
    """A label beside each route's stop farthest from the depot, unless it would cover a node or label.

    `height` is that of the letters as a share of the panel's side.
    """
    low, high = bounds(points)
    turns = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    circle = np.stack((np.cos(turns), np.sin(turns)), axis=1)
    centres, halves = points, np.full_like(points, 0.012 * (high - low))  # boxes that are taken
    for number, (route, label) in enumerate(zip(routes, labels, strict=True)):
        far = points[route[int(np.linalg.norm(points[route] - points[0], axis=1).argmax())]]
        half = 0.5 * height * (high - low) * np.array([0.72 * len(label), 1.0])
        spots = far + circle * (half + 0.022 * (high - low))
        spots = spots[np.argsort(-(circle @ (far - points[0])), kind="stable")]  # outwards first
        apart = (np.abs(spots[:, None] - centres) > half + halves).any(axis=-1).all(axis=-1)
        inside = ((spots - half >= low) & (spots + half <= high)).all(axis=-1)
        free = np.flatnonzero(apart & inside)
        if not len(free):
            continue
        x, y = spot = spots[free[0]]
        centres, halves = np.vstack((centres, spot)), np.vstack((halves, half))
        text = axes.text(x, y, label, fontsize=TICK - 0.5, color=line_colour(number), ha="center", va="center")
        text.set(fontweight="bold", zorder=6, path_effects=[withStroke(linewidth=1.8, foreground="white")])


def _key(solution: Solution) -> list[Line2D]:
    """Legend entries: the start, then at most a dozen routes with their loads, and how many more."""
    first = "start" if solution.problem == "tsp" else "first stop"
    ring = Line2D([], [], linestyle="", marker="o", markersize=5.5, markerfacecolor="white", label=first)
    ring.set_markeredgecolor(line_colour(0) if solution.problem == "tsp" else MUTED)
    if solution.problem == "tsp":
        return [ring]
    depot = Line2D([], [], linestyle="", marker="s", markersize=6, color=INK, label="depot")
    routes = solution.routes
    lines = [
        Line2D([], [], color=line_colour(i), linestyle=line_style(i), label=f"{i + 1}:  {solution.load(route)}")
        for i, route in enumerate(routes[:MOST_IN_LEGEND])
    ]
    if len(routes) > MOST_IN_LEGEND:
        lines.append(Line2D([], [], linestyle="", label=f"and {len(routes) - MOST_IN_LEGEND} more"))
    return [depot, ring, *lines]
