"""How every figure looks: colours, sizes of text, frames, and the ways to keep a figure.

Figures are plain objects. Nothing here opens a window, and nothing is left behind in the plotting library.
"""

from __future__ import annotations

import base64
import io
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dree.errors import DreeError, unknown
from dree.files import write_bytes
from dree.tasks import Task, law_named

# Chosen so that laws which drift into one another in order 1 differ strongly, also for colour-blind readers.
LAW_COLOURS: dict[str, str] = {
    "U": "#0072B2",
    "GM": "#009E73",
    "E": "#AA3377",
    "C": "#56B4E9",
    "G": "#D55E00",
    "R": "#E69F00",
}
LINE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#AA3377", "#E69F00", "#56B4E9", "#4D4D4D", "#8C6D31")
Dashes = tuple[float, tuple[float, ...]]
LINE_STYLES: tuple[Dashes, ...] = ((0, ()), (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))

INK = "#1F2328"  # titles, depots
MUTED = "#59636E"  # axis labels, ticks, captions
FRAME = "#B8BFC6"
GRID = "#E4E7EA"
BAND = "#DDE0E4"
PLAIN = "#44546A"  # nodes of no known law

TITLE, LABEL, TICK = 8.5, 8.5, 7.5  # points
DPI = 200
SUFFIXES = (".png", ".pdf", ".svg")
KINDS = ("svg", "png")

# Nothing that changes from one writing to the next goes into a file: no date, no version.
_METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    "svg": {"Creator": None, "Date": None},
}
_SETTINGS_LOCK = threading.Lock()


def law_title(name: str) -> str:
    """What a test task is called in a figure: the law's full title, a user's own law's too, or the name itself."""
    try:
        return law_named(name).title
    except DreeError:
        return name


def task_title(name: str, task: Task) -> str:
    """The same with the task's size."""
    return f"{law_title(name)}, n = {task.size}"


def line_colour(index: int) -> str:
    """The colour of the route with this number; they repeat after eight. Methods have their own: `method_looks`."""
    return LINE_COLOURS[index % len(LINE_COLOURS)]


def line_style(index: int) -> Dashes:
    """The dashes of the route with this number: solid while colours are new, other dashes when they repeat."""
    return LINE_STYLES[index // len(LINE_COLOURS) % len(LINE_STYLES)]


def tidy(axes: Axes, title: str, side: Literal["left", "center"] = "center") -> Axes:
    """Thin grey frame, small grey ticks, a title in ink."""
    axes.set_facecolor("white")
    axes.tick_params(labelsize=TICK, colors=MUTED, width=0.6, length=2.5)
    for spine in axes.spines.values():
        spine.set_color(FRAME)
        spine.set_linewidth(0.6)
    axes.set_title(title, fontsize=TITLE, color=INK, pad=4, loc=side)
    return axes


@dataclass(frozen=True)
class Sheet:
    """Square panels of a fixed size in rows and columns, all lengths in inches."""

    columns: float
    rows: int
    side: float  # of a panel
    between: float = 0.14  # panels of a row
    above: float = 0.26  # each panel, for its title
    below: float = 0.1  # each panel
    left: float = 0.12
    right: float = 0.12
    bottom: float = 0.0  # for a legend

    @property
    def width(self) -> float:
        """Of the whole sheet."""
        return self.left + self.columns * (self.side + self.between) - self.between + self.right

    @property
    def height(self) -> float:
        """Of the whole sheet."""
        return self.rows * (self.above + self.side + self.below) + self.bottom

    def figure(self) -> Figure:
        """The empty figure that panels are put on."""
        return _new_figure(self.width, self.height, None)

    def panel(self, figure: Figure, row: int, column: float, title: str, square: tuple[float, float]) -> Axes:
        """A framed map of the square [low, high]²: equal scales, no ticks, a little room at the rim."""
        x = self.left + column * (self.side + self.between)
        y = self.height - (row + 1) * (self.above + self.side) - row * self.below
        size = (self.side / self.width, self.side / self.height)
        axes = tidy(figure.add_axes((x / self.width, y / self.height, *size)), title)
        low, high = square
        room = 0.035 * (high - low)
        limits = (low - room, high + room)
        axes.set(xlim=limits, ylim=limits, aspect="equal", xticks=[], yticks=[])
        return axes


def figure_with_layout(width: float, height: float) -> Figure:
    """An empty figure of this size in inches that makes room for its labels by itself."""
    return _new_figure(width, height, "constrained")


def legend_rows(groups: Sequence[Sequence[Line2D]], width: float) -> list[list[Line2D]]:
    """Legend entries in rows that fit a width in inches; every group begins a row of its own."""
    longest = max((len(str(entry.get_label())) for group in groups for entry in group), default=0)
    most = max(1, int((width - 0.2) / (0.27 + 0.06 * longest)))
    return [list(group[i : i + most]) for group in groups for i in range(0, len(group), most)]


def add_legend_below(figure: Figure, rows: Sequence[Sequence[Line2D]]) -> None:
    """Put rows of legend entries at the bottom edge; entries of one row stay in it."""
    if not rows:
        return
    columns = max(len(row) for row in rows)
    blank = Line2D([], [], linestyle="", label=" ")
    by_column = [row[c] if c < len(row) else blank for c in range(columns) for row in rows]
    figure.legend(
        handles=by_column,
        loc="lower center",
        ncols=columns,
        frameon=False,
        fontsize=TICK + 0.5,
        labelcolor=INK,
        handlelength=1.0,
        handletextpad=0.5,
        columnspacing=1.2,
        borderaxespad=0.15,
    )


def columns_for(panels: int) -> int:
    """In how many columns to set this number of panels: at most 3 up to nine, then 4 to 6."""
    if panels < 1:
        raise DreeError("There is nothing to draw: give at least one panel.")
    if panels == 4:
        return 2
    return min(panels, 3) if panels <= 9 else min(6, -(-panels // 4) + 1)


def save(figure: Figure, path: Path | str, dpi: int = DPI) -> Path:
    """Write a figure as the suffix says; its folder is created, and the file appears whole or not at all."""
    target = Path(path)
    check_suffix(target)
    return write_bytes(target, _rendered(figure, target.suffix.lower()[1:], dpi))


def check_suffix(target: Path) -> None:
    """Refuse a file that no figure can be written to; for commands that work long before they draw."""
    if target.suffix.lower() not in SUFFIXES:
        raise DreeError(f"Cannot save a figure as '{target.name}': its name must end in {', '.join(SUFFIXES)}.")


def save_both(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as `<name>.png`, to look at, and `<name>.pdf`, to print."""
    return [save(figure, folder / f"{name}{suffix}") for suffix in (".png", ".pdf")]


def as_svg_or_png_data_uri(figure: Figure, kind: str = "svg") -> str:
    """A figure as text that an HTML page can hold in place of a picture's address."""
    if kind not in KINDS:
        raise unknown("kind of inline picture", kind, KINDS)
    media = "image/svg+xml" if kind == "svg" else "image/png"
    return f"data:{media};base64,{base64.b64encode(_rendered(figure, kind)).decode('ascii')}"


def _new_figure(width: float, height: float, layout: Literal["constrained"] | None) -> Figure:
    """A white figure with a canvas that needs no screen."""
    figure = Figure(figsize=(width, height), dpi=DPI, layout=layout, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _rendered(figure: Figure, kind: str, dpi: int = DPI) -> bytes:
    """The bytes of a figure, the same for the same figure every time."""
    # Names inside an SVG are random unless the library's settings say otherwise: set, drawn, restored.
    fixed: Any = {"svg.hashsalt": "dree", "svg.fonttype": "path", "pdf.fonttype": 42}
    stream = io.BytesIO()
    with _SETTINGS_LOCK, matplotlib.rc_context(fixed):
        figure.savefig(stream, format=kind, dpi=dpi, metadata=_METADATA[kind])
    return stream.getvalue()
