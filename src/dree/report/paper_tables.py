"""The paper's tables with our numbers: for the terminal, in Markdown, in LaTeX, and every number in a CSV file.

Below our numbers stand the published ones and by how much ours are larger, in a quieter form.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from rich.markup import escape
from rich.table import Table as RichTable

from dree.experiments.tables import PaperTable, Value
from dree.files import write_csv, write_text
from dree.report.tables import NOTHING, smallest

LARGE = 1e6  # numbers from here on are written with their power of ten
PUBLISHED, DIFFERENCE = "published", "difference"
Kind = Literal["ours", "published", "difference"]
_TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", NOTHING: "--"}
_TEX |= {sign: f"\\{sign}" for sign in "&%$#_{}"}


@dataclass(frozen=True)
class Line:
    """A line of a table as it is shown: words under the heads, then written numbers."""

    kind: Kind
    words: tuple[str, ...]
    cells: tuple[str, ...]
    best: tuple[int, ...] = ()  # columns
    first: bool = False  # of a group of rows: a rule stands above it


def write_value(value: Value) -> str:
    """`4.19`, `4.19 (0.32)` for a mean with its standard deviation, a dash for nothing; `2.84e9` where it is large."""
    if value is None:
        return NOTHING
    if isinstance(value, tuple):
        return f"{_number(value[0])} ({_number(value[1])})"
    return _number(value)


def write_difference(difference: float | None) -> str:
    """The same with its sign."""
    return NOTHING if difference is None else _number(difference, "+")


def best_columns(table: PaperTable) -> list[tuple[int, ...]]:
    """For each row the columns in which ours is the best among the rows that it competes with."""
    found: list[list[int]] = [[] for _ in table.rows]
    for group in dict.fromkeys(row.keys[:-1] for row in table.rows) if table.ranked else ():
        same = [i for i, row in enumerate(table.rows) if row.keys[:-1] == group and not row.reference]
        for column in range(len(table.columns)):
            for place in smallest([table.rows[i].cells[column].ours for i in same]):
                found[same[place]].append(column)
    return [tuple(columns) for columns in found]


def table_lines(table: PaperTable) -> list[Line]:
    """Ours, and below them the published numbers and the differences, where there are any.

    A word that is the same as in the row above is left out, as in the paper, unless it is the last of its row.
    """
    lines: list[Line] = []
    above: tuple[str, ...] = ()
    grouped = _in_groups(table)
    for row, best in zip(table.rows, best_columns(table), strict=True):
        same = _alike(row.keys, above)
        words = tuple("" if i < same else word for i, word in enumerate(row.keys))
        first = grouped and bool(lines) and row.keys[0] != above[0]
        lines.append(Line("ours", words, tuple(write_value(cell.ours) for cell in row.cells), best, first))
        if any(cell.published is not None for cell in row.cells):
            cells = tuple(write_value(cell.published) for cell in row.cells)
            lines.append(Line("published", _below(table, PUBLISHED), cells))
        if any(cell.difference is not None for cell in row.cells):
            cells = tuple(write_difference(cell.difference) for cell in row.cells)
            lines.append(Line("difference", _below(table, DIFFERENCE), cells))
        above = row.keys
    return lines


def terminal_table(table: PaperTable) -> RichTable:
    """For the terminal: the best of ours in bold, what is the paper's dimmed."""
    shown = RichTable(
        title=f"{escape(table.source)}: {escape(table.title)}",
        caption="\n".join(escape(note) for note in table.notes) or None,
        title_justify="left",
        caption_justify="left",
        header_style="bold",
    )
    for head in table.heads:  # on a narrow terminal a deviation may go below its mean, words stay whole
        shown.add_column(escape(head), no_wrap=True)
    for column in table.columns:
        shown.add_column(escape(column), justify="right")
    for line in table_lines(table):
        if line.first:
            shown.add_section()
        cells = [f"[bold]{cell}[/]" if i in line.best else cell for i, cell in enumerate(line.cells)]
        indent = "  " if line.kind != "ours" else ""
        words = [f"{indent}{escape(word)}" if word else "" for word in line.words]
        shown.add_row(*words, *cells, style="dim" if line.kind != "ours" else None)
    return shown


def markdown_table(table: PaperTable) -> str:
    """In Markdown, with title and notes: the best of ours in bold, what is the paper's in italics."""
    lines = [[*table.heads, *table.columns], ["---"] * len(table.heads) + ["---:"] * len(table.columns)]
    for line in table_lines(table):
        cells = [f"**{cell}**" if i in line.best else cell for i, cell in enumerate(line.cells)]
        every = [*line.words, *cells]
        quiet = line.kind != "ours"
        lines.append([f"*{text}*" if quiet and text not in ("", NOTHING) else text for text in every])
    rows = [f"| {' | '.join(text.replace('|', chr(92) + '|') for text in line)} |" for line in lines]
    parts = [f"**{table.source}: {table.title}**", "\n".join(rows)]
    parts += ["\n".join(f"- {note}" for note in table.notes)] if table.notes else []
    return "\n\n".join(parts) + "\n"


def latex_table(table: PaperTable, compare: bool = True) -> str:
    """In LaTeX with booktabs, the paper's layout; without `compare` our numbers alone."""
    lines = []
    for line in table_lines(table):
        if line.kind != "ours" and not compare:
            continue
        cells = [_tex_number(cell) for cell in line.cells]
        if line.kind == "ours":
            words = [_tex(word) for word in line.words]
            cells = [rf"\textbf{{{cell}}}" if i in line.best else cell for i, cell in enumerate(cells)]
        else:
            words = [rf"\quad\footnotesize {_tex(word)}" if word else "" for word in line.words]
            cells = [rf"\footnotesize {cell}" for cell in cells]
        lines += [r"\midrule"] if line.first else []
        lines.append(" & ".join([*words, *cells]).strip() + r" \\")
    head = " & ".join(_tex(name) for name in (*table.heads, *table.columns)) + r" \\"
    notes = [r"\par\smallskip\footnotesize " + " ".join(_tex(_sentence(note)) for note in table.notes)]
    return "\n".join(
        [
            r"% Needs \usepackage{booktabs}.",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_tex(table.title)}}}",
            rf"\label{{tab:{re.sub(r'[^A-Za-z0-9:.-]+', '-', table.name)}}}",
            rf"\begin{{tabular}}{{{'l' * len(table.heads)}{'r' * len(table.columns)}}}",
            r"\toprule",
            head,
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            *(notes if table.notes else []),
            r"\end{table}",
            "",
        ]
    )


def long_rows(table: PaperTable, folder: Path) -> list[dict[str, Any]]:
    """Every number of the table in a row of its own, unrounded; runs are named as seen from `folder`."""
    rows = []
    for row in table.rows:
        runs = ";".join(Path(os.path.relpath(run, folder)).as_posix() for run in row.runs)
        for column, cell in zip(table.columns, row.cells, strict=True):
            (ours, ours_std), (published, published_std) = _pair(cell.ours), _pair(cell.published)
            difference = cell.difference
            rows.append(
                {"table": table.name}
                | dict(zip(table.heads, row.keys, strict=True))
                | {"column": column, "ours": ours, "ours_std": ours_std}
                | {"published": published, "published_std": published_std}
                # Without the noise of a subtraction in binary: 4.2 - 4.19 is 0.01.
                | {"difference": None if difference is None else round(difference, 10), "runs": runs}
            )
    return rows


def write_table(table: PaperTable, folder: Path) -> list[Path]:
    """Write `<name>.md`, `<name>.tex` and `<name>.csv`, and say where they are."""
    return [
        write_text(folder / f"{table.name}.md", markdown_table(table)),
        write_text(folder / f"{table.name}.tex", latex_table(table)),
        write_csv(folder / f"{table.name}.csv", long_rows(table, folder)),
    ]


def _number(value: float, sign: Literal["", "+"] = "") -> str:
    if abs(value) < LARGE:
        return f"{value:{sign}z.2f}"
    digits, power = f"{value:{sign}.2e}".split("e")
    return f"{digits}e{int(power)}"


def _pair(value: Value) -> tuple[float | None, float | None]:
    return value if isinstance(value, tuple) else (value, None)


def _alike(keys: tuple[str, ...], above: tuple[str, ...]) -> int:
    """How many words at the beginning, without the last, are those of the row above."""
    pairs = list(zip(keys[:-1], above[:-1], strict=False))
    return next((i for i, (one, other) in enumerate(pairs) if one != other), len(pairs))


def _in_groups(table: PaperTable) -> bool:
    """Whether rows with the same first word stand together; where they alternate, rules would be everywhere."""
    firsts = [row.keys[0] for row in table.rows]
    changes = sum(one != other for one, other in pairwise(firsts))
    return len(set(firsts)) == changes + 1 < len(firsts)


def _below(table: PaperTable, word: str) -> tuple[str, ...]:
    return (*[""] * (len(table.heads) - 1), word)


def _sentence(note: str) -> str:
    return note if note.endswith((".", "!", "?")) else f"{note}."


def _tex(text: str) -> str:
    return "".join(_TEX.get(sign, sign) for sign in text)


def _tex_number(text: str) -> str:
    """A written number, with a real minus sign and a real power of ten."""
    powers = re.sub(r"(\d)e(\d+)", r"\1 \\cdot 10^{\2}", text)
    return f"${powers}$" if powers != text or text.startswith(("-", "+")) else _tex(text)
