"""The tables of the paper's LaTeX source as cells, for comparing the package's copy of them with the source."""

from __future__ import annotations

import re
from pathlib import Path

PAPER = Path(__file__).parents[3] / "shared" / "paper" / "dree.tex"


def latex_rows(label: str) -> list[list[str]]:
    """The rows under the headings of the table with this label, markup removed from their cells."""
    text = re.sub(r"(?<!\\)%.*", "", PAPER.read_text(encoding="utf-8"))
    body = next(
        found
        for found in re.findall(r"\\begin\{(?:wrap)?table\*?\}.*?\\end\{(?:wrap)?table\*?\}", text, re.DOTALL)
        if rf"\label{{{label}}}" in found
    )
    inside = re.search(r"\\begin\{tabular\}\{[^\n]*\n(.*?)\\end\{tabular\}", body, re.DOTALL)
    assert inside is not None
    rows = [_cells(line) for line in inside.group(1).split(r"\\")]
    return [cells for cells in rows if len(cells) > 1 and any(re.fullmatch(r"-?[\d.]+.*", cell) for cell in cells[1:])]


def numbers(cell: str) -> list[float]:
    """The numbers in a cell: a mean and perhaps its deviation."""
    return [float(number) for number in re.findall(r"\d+\.?\d*", cell)]


def _cells(line: str) -> list[str]:
    line = re.sub(r"\\(top|mid|bottom)rule|\\cmidrule(\(lr\))?\{[^}]*\}", "", line)
    line = re.sub(r"\\multirow\{\d\}\{\*\}|\\multicolumn\{\d+\}\{[^}]*\}", "", line)
    line = re.sub(r"\\(textbf|mathcal|mathrm|times)|\\ ", "", line)
    return [re.sub(r"[{}$\s]+", " ", cell).replace("\\", "").strip() for cell in line.split("&")]
