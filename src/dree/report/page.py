"""One self-contained HTML page: everything it shows is inside it, so it can be sent, kept and printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from matplotlib.figure import Figure

from dree.errors import DreeError
from dree.evaluation.metrics import measures_in
from dree.files import write_bytes
from dree.report.style import as_svg_or_png_data_uri, law_title
from dree.report.tables import SMALLER, Value, check_metrics, smallest, write_value

WIDE = 6.0  # inches


@dataclass(frozen=True)
class Heading:
    """The title of what follows; the page's table of contents lists it."""

    text: str


@dataclass(frozen=True)
class Text:
    """Prose; an empty line begins a new paragraph."""

    text: str

    @property
    def paragraphs(self) -> list[str]:
        """The paragraphs without the empty lines between them."""
        return [part.strip() for part in self.text.split("\n\n") if part.strip()]


@dataclass(frozen=True)
class Row:
    """A line of a table: its name, a remark in small print below the name, its cells, and which are best."""

    name: str
    cells: tuple[str, ...]
    note: str = ""
    best: tuple[int, ...] = ()


@dataclass(frozen=True)
class Table:
    """Rows under columns; `corner` heads the column of row names."""

    caption: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse rows that do not fit the columns."""
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise DreeError(
                    f"Table '{self.caption}', row '{row.name}': {len(row.cells)} cells for {len(self.columns)} columns."
                )


@dataclass(frozen=True)
class Picture:
    """An inline picture, its caption, and what it shows in words for those who cannot see it."""

    uri: str
    caption: str
    alt: str
    wide: bool = False  # too wide for a phone, where it is then moved sideways instead of shrunk

    def __post_init__(self) -> None:
        """Refuse pictures that the page would have to fetch, and pictures without words."""
        if not self.uri.startswith("data:image/"):
            raise DreeError("A picture must be inline (a 'data:image/...' address), so that the page is complete.")
        if not self.alt.strip():
            raise DreeError(f"The picture '{self.caption}' needs a text (alt) for readers who cannot see it.")

    @classmethod
    def of(cls, figure: Figure, caption: str, alt: str, kind: str = "svg") -> Picture:
        """A figure as a picture; `png` is smaller where a figure has very many marks."""
        return cls(as_svg_or_png_data_uri(figure, kind), caption, alt, figure.get_figwidth() > WIDE)


Section = Heading | Text | Table | Picture


def metrics_section(rows: Mapping[str, Mapping[str, Value]]) -> Table:
    """The metrics with a plain explanation each, one column per method (method -> metric -> value)."""
    check_metrics(rows)
    shown = measures_in(rows.values())
    return Table(
        "Metrics",
        "metric",
        tuple(rows),
        tuple(_row(name, [metrics.get(name) for metrics in rows.values()], note) for name, note in shown.items()),
        SMALLER,
    )


def gaps_section(
    gaps: Mapping[str, Mapping[str, Value]],
    titles: Mapping[str, str] | None = None,
    caption: str = "Gap on each test task",
) -> Table:
    """The gap on each test task, one column per method (method -> task -> gap)."""
    tasks = list(dict.fromkeys(task for by_task in gaps.values() for task in by_task))
    if not tasks:
        raise DreeError("There are no gaps to show: give at least one method and one test task.")
    names = {task: law_title(task) for task in tasks} | dict(titles or {})
    rows = tuple(_row(names[task], [by_task.get(task) for by_task in gaps.values()]) for task in tasks)
    return Table(caption, "test task", tuple(gaps), rows, SMALLER)


def write_page(
    path: Path | str,
    title: str,
    subtitle: str,
    sections: Sequence[Section],
    facts: Mapping[str, str],
    command: str = "",
) -> Path:
    """Write the page: title, facts (problem, method, seed, ...), the command to repeat it, the sections."""
    html = template("report.html.j2").render(
        title=title,
        subtitle=subtitle,
        facts=dict(facts),
        command=command,
        sections=[(type(section).__name__, section) for section in sections],
        contents=[(i, part.text) for i, part in enumerate(sections) if isinstance(part, Heading)],
    )
    return write_bytes(Path(path), html.encode("utf-8"))


def template(name: str) -> Template:
    """A page's template: what is put into it is escaped, and nothing may be missing."""
    environment = Environment(
        loader=PackageLoader("dree.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def _row(name: str, values: Sequence[Value], note: str = "") -> Row:
    return Row(name, tuple(write_value(value) for value in values), note, smallest(values))
