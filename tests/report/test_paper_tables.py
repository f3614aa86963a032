"""The paper's tables with our numbers: exact texts in every form."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from rich.console import Console

from dree.errors import DreeError
from dree.experiments.tables import Cell, PaperRow, PaperTable
from dree.report.paper_tables import (
    best_columns,
    latex_table,
    long_rows,
    markdown_table,
    terminal_table,
    write_difference,
    write_table,
    write_value,
)


def main_table(folder: Path = Path("out")) -> PaperTable:
    rows = (
        PaperRow(("CVRP", "MT-Ref"), (Cell(2.5, 3.04), Cell(None, None)), reference=True),
        PaperRow(
            ("CVRP", "LLR-BC"),
            (Cell((4.25, 0.31), (4.19, 0.32)), Cell((1.0, 0.2), (1.1, 0.19))),
            (folder / "runs" / "a", folder / "runs" / "b"),
        ),
        PaperRow(("CVRP", "DREE"), (Cell((3.05, 0.1), (3.06, 0.16)), Cell((1.004, 0.06), (0.18, 0.05)))),
        PaperRow(("TSP", "LLR-BC"), (Cell(None, (1.39, 0.29)), Cell(None, None))),
        PaperRow(("TSP", "DREE & co_1"), (Cell(1.2, None), Cell(0.1, None))),
    )
    heads, columns = ("problem", "method"), ("AP", "AFB")
    notes = ("Five orders, 100 % of the epochs", "MT-Ref is trained once.")
    return PaperTable("table1", "Mean (standard deviation)", "Table 1", heads, columns, rows, notes)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (4.19, "4.19"),
        ((4.19, 0.32), "4.19 (0.32)"),
        (-0.001, "0.00"),
        (86266.88, "86266.88"),
        (2.84e9, "2.84e9"),
        ((7.853e10, 0.0), "7.85e10 (0.00)"),
    ],
)
def test_a_value_is_written_as_in_the_paper(value, text):
    assert write_value(value) == text


def test_a_difference_has_its_sign():
    written = [write_difference(value) for value in (None, 0.06, -0.014, -0.001, -2.5e7)]
    assert written == ["–", "+0.06", "-0.01", "+0.00", "-2.50e7"]


def test_the_best_is_marked_among_the_methods_of_one_problem_and_a_reference_is_no_method():
    assert best_columns(main_table()) == [(), (1,), (0, 1), (), ()]  # 1.00 and 1.004 read the same
    assert best_columns(PaperTable("t", "", "", ("m",), ("s",), (_row(1.0), _row(2.0)))) == [(0,), ()]
    assert best_columns(PaperTable("t", "", "", ("m",), ("s",), (_row(1.0), _row(2.0)), ranked=False)) == [(), ()]


def test_a_row_that_does_not_fit_its_table_is_refused_in_words():
    words = r"The table 't' cannot be made: the row \('x',\) has 1 words and 1 numbers, where 1 and 2 belong"
    with pytest.raises(DreeError, match=words):
        PaperTable("t", "", "", ("m",), ("s", "t"), (_row(1.0),))


def _row(value: float) -> PaperRow:
    return PaperRow(("x",), (Cell(value, None),))


def printed(table: PaperTable) -> str:
    console = Console(width=100, file=io.StringIO())
    console.print(terminal_table(table))
    return console.file.getvalue()


MARKDOWN = """\
**Table 1: Mean (standard deviation)**

| problem | method | AP | AFB |
| --- | --- | ---: | ---: |
| CVRP | MT-Ref | 2.50 | – |
|  | *published* | *3.04* | – |
|  | *difference* | *-0.54* | – |
|  | LLR-BC | 4.25 (0.31) | **1.00 (0.20)** |
|  | *published* | *4.19 (0.32)* | *1.10 (0.19)* |
|  | *difference* | *+0.06* | *-0.10* |
|  | DREE | **3.05 (0.10)** | **1.00 (0.06)** |
|  | *published* | *3.06 (0.16)* | *0.18 (0.05)* |
|  | *difference* | *-0.01* | *+0.82* |
| TSP | LLR-BC | – | – |
|  | *published* | *1.39 (0.29)* | – |
|  | DREE & co_1 | 1.20 | 0.10 |

- Five orders, 100 % of the epochs
- MT-Ref is trained once.
"""

LATEX = r"""% Needs \usepackage{booktabs}.
\begin{table}
\centering
\caption{Mean (standard deviation)}
\label{tab:table1}
\begin{tabular}{llrr}
\toprule
problem & method & AP & AFB \\
\midrule
CVRP & MT-Ref & 2.50 & -- \\
& \quad\footnotesize published & \footnotesize 3.04 & \footnotesize -- \\
& \quad\footnotesize difference & \footnotesize $-0.54$ & \footnotesize -- \\
& LLR-BC & 4.25 (0.31) & \textbf{1.00 (0.20)} \\
& \quad\footnotesize published & \footnotesize 4.19 (0.32) & \footnotesize 1.10 (0.19) \\
& \quad\footnotesize difference & \footnotesize $+0.06$ & \footnotesize $-0.10$ \\
& DREE & \textbf{3.05 (0.10)} & \textbf{1.00 (0.06)} \\
& \quad\footnotesize published & \footnotesize 3.06 (0.16) & \footnotesize 0.18 (0.05) \\
& \quad\footnotesize difference & \footnotesize $-0.01$ & \footnotesize $+0.82$ \\
\midrule
TSP & LLR-BC & -- & -- \\
& \quad\footnotesize published & \footnotesize 1.39 (0.29) & \footnotesize -- \\
& DREE \& co\_1 & 1.20 & 0.10 \\
\bottomrule
\end{tabular}
\par\smallskip\footnotesize Five orders, 100 \% of the epochs. MT-Ref is trained once.
\end{table}
"""


def test_markdown_has_the_papers_numbers_below_ours():
    assert markdown_table(main_table()) == MARKDOWN


def test_latex_has_the_papers_layout_with_the_best_in_bold():
    assert latex_table(main_table()) == LATEX
    alone = latex_table(main_table(), compare=False)
    assert "published" not in alone
    assert [line for line in alone.splitlines() if line.endswith(r"\\")][1:] == [
        r"CVRP & MT-Ref & 2.50 & -- \\",
        r"& LLR-BC & 4.25 (0.31) & \textbf{1.00 (0.20)} \\",
        r"& DREE & \textbf{3.05 (0.10)} & \textbf{1.00 (0.06)} \\",
        r"TSP & LLR-BC & -- & -- \\",
        r"& DREE \& co\_1 & 1.20 & 0.10 \\",
    ]


def test_large_numbers_are_powers_of_ten_in_latex():
    table = PaperTable("flops", "Operations", "Table 14", ("n",), ("operations",), (_row(2.84e9),), ranked=False)
    assert r"x & $2.84 \cdot 10^{9}$ \\" in latex_table(table)


def test_the_terminal_shows_the_same_lines():
    text = printed(main_table())
    assert "Table 1: Mean (standard deviation)" in text
    lines = [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if line[:1] == "│"]
    assert lines[3] == ["", "LLR-BC", "4.25 (0.31)", "1.00 (0.20)"]
    assert lines[4] == ["", "published", "4.19 (0.32)", "1.10 (0.19)"]
    assert lines[5] == ["", "difference", "+0.06", "-0.10"]
    assert "MT-Ref is trained once." in text


def test_the_best_is_bold_and_the_papers_numbers_are_dim_in_the_terminal():
    table = terminal_table(main_table())
    assert list(table.columns[2].cells)[3:7] == ["4.25 (0.31)", "4.19 (0.32)", "+0.06", "[bold]3.05 (0.10)[/]"]
    assert [row.style for row in table.rows][3:6] == [None, "dim", "dim"]


def test_square_brackets_are_not_markup_in_the_terminal():
    table = PaperTable("t", "[b]", "Table [1]", ("[m]",), ("[c]",), (_row(1.0),), ("[note]",))
    text = printed(table)
    for word in ("[b]", "Table [1]", "[m]", "[c]", "[note]"):
        assert word in text


def test_rows_that_alternate_have_no_rules_between_them():
    rows = tuple(PaperRow((p, m), (Cell(1.0, None),)) for m in ("A", "B") for p in ("CVRP", "TSP"))
    text = latex_table(PaperTable("t", "", "", ("problem", "method"), ("AP",), rows))
    assert text.count(r"\midrule") == 1
    assert text.count("CVRP") == text.count("TSP") == 2


def test_the_csv_file_has_every_number_with_its_runs(tmp_path):
    files = write_table(main_table(tmp_path), tmp_path / "tables")
    assert [file.name for file in files] == ["table1.md", "table1.tex", "table1.csv"]
    assert files[0].read_text() == MARKDOWN
    assert files[1].read_text() == LATEX
    with files[2].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5 * 2
    assert rows[2] == {
        "table": "table1",
        "problem": "CVRP",
        "method": "LLR-BC",
        "column": "AP",
        "ours": "4.25",
        "ours_std": "0.31",
        "published": "4.19",
        "published_std": "0.32",
        "difference": "0.06",
        "runs": "../runs/a;../runs/b",
    }
    assert rows[1]["ours"] == rows[1]["published"] == rows[1]["difference"] == rows[1]["runs"] == ""


def test_numbers_in_the_csv_file_are_not_rounded(tmp_path):
    table = PaperTable("t", "", "", ("m",), ("AP",), (_row(1 / 3),))
    assert long_rows(table, tmp_path)[0]["ours"] == 1 / 3
