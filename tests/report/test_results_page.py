"""The page of results: its numbers, its commands, its figures, and that it is the same every time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from dree.data.libraries import library
from dree.errors import DreeError
from dree.experiments import RunFolder
from dree.experiments.results import result_tables
from dree.report import results_page
from dree.report.results_page import results_text, write_results_page
from dree.tasks import make_stream
from run_folders import run_with_gaps, write_evaluation

LAWS = ["E", "C", "G", "U", "R", "GM"]
REPOSITORY = Path(__file__).parents[2]
PNG = b"\x89PNG\r\n\x1a\n"


def kept(path: Path, last: float, epochs: int = 100, **settings: object) -> None:
    run_with_gaps(path, [[90.0] * 6, [4.0] * 6, [last] * 6], [0, 20, epochs], LAWS, epochs=epochs, **settings)
    folder = RunFolder(path)
    manifest = folder.manifest()
    manifest["hardware"] |= {"device": "A GPU", "precision": "bf16"}
    (path / "manifest.json").write_text(json.dumps(manifest))
    folder.append("timings.jsonl", {"epoch": 1, "seconds": 1.25, "peak_bytes": 3 * 2**29})


def cells(text: str, first: str) -> list[str]:
    """The other cells of the line of a table that begins with this one."""
    (line,) = re.findall(rf"^\| {re.escape(first)} \|(.*)\|$", text, re.MULTILINE)
    return [cell.strip() for cell in line.split("|")]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Kept runs of both problems, two seeds of one of them, and folders that are no runs."""
    group = tmp_path / "results/methods"
    kept(group / "dree-0", 5.0, method="dree")
    kept(group / "dree-1", 6.0, method="dree", seed=1)
    kept(group / "fine-tuning-0", 8.0)
    kept(group / "tsp", 1.0, problem="tsp", method="dree", options={"alpha": 5})
    RunFolder(group / "dree-0").append("metrics.jsonl", {"epoch": 1, "replays": 64, "improved": 0.5})
    (group / "README.md").write_text("notes")
    (tmp_path / "results/speed").mkdir()
    return tmp_path


def test_a_line_has_metrics_times_memory_and_hardware(place):
    text = write_results_page(place / "results", place / "docs/results.md").read_text(encoding="utf-8")
    assert text.count("\n## ") == 1
    assert "[Notes](../results/methods/README.md)" in text
    assert "CVRP, drift, order 1 (E, C, G, U, R, GM), 100 epochs." in text
    assert "TSP, drift, order 1 (E, C, G, U, R, GM), 100 epochs." in text
    dree, alone = (line for line in text.splitlines() if line.startswith("| dree") and "A GPU" in line)
    assert dree.endswith("| 1.50 ± 0.50 | 4.00 ± 0.00 | 1.25 | – | 1.50 | A GPU, bf16 |")
    assert dree.startswith("| dree | 0, 1 | 5.50 ± 0.50 | 1.50 ± 0.50 |")
    assert alone.startswith("| dree, alpha 5.0 | 0 | 1.00 | 0.00 | 0.00 | 1.00 | 1.25 |")
    assert cells(text, "fine-tuning")[:5] == ["0", "8.00", "4.00", "4.00", "4.00"]
    assert "| dree | 64.00 | 2.00 | 50.00 | – | – | – |" in text
    assert "published" not in text.partition("##")[2]


def test_every_line_has_its_command_and_links_to_its_runs(place):
    text = write_results_page(place / "results", place / "docs/results.md").read_text(encoding="utf-8")
    commands = re.findall(r"`(dree run .*)`", text)
    assert commands == [
        "dree run --problem cvrp --order 1 --epochs 100 --method fine-tuning --seed 0 --device cpu",
        "dree run --problem cvrp --order 1 --epochs 100 --method dree --seed 0 --device cpu",
        "dree run --problem tsp --order 1 --epochs 100 --method dree --seed 0 --device cpu --set options.alpha=5.0",
    ]
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (place / "docs" / link).exists(), link
    assert "- dree ([seed 0](../results/methods/dree-0), [seed 1](../results/methods/dree-1)):" in text


def test_each_problem_has_a_small_figure(place):
    write_results_page(place / "results", place / "docs/results.md")
    figures = sorted((place / "docs/figures").iterdir())
    assert [path.name for path in figures] == ["methods-cvrp-drift-1-T100.png", "methods-tsp-drift-1-T100.png"]
    for path in figures:
        assert path.read_bytes().startswith(PNG)
        assert path.stat().st_size < 200_000


def test_methods_in_a_figure_are_called_as_in_print_and_by_what_tells_them_apart(place, monkeypatch):
    kept(place / "results/methods/small", 7.0, method="dree", batches=7)
    kept(place / "results/methods/own", 7.0, method="dree.lifelong.FineTuning")
    drawn = []
    monkeypatch.setattr(results_page, "mean_curves", drawn.append)
    monkeypatch.setattr(results_page, "save", lambda *_: None)
    write_results_page(place / "results", place / "docs/results.md")
    cvrp, tsp = [list(lines) for lines in drawn]
    assert cvrp == ["Fine-tuning", "DREE", "DREE, batches 7", "dree.lifelong.FineTuning"]
    assert tsp == ["DREE, alpha 5.0"]


def test_streams_that_share_a_name_have_figures_of_their_own(place):
    kept(place / "results/methods/other", 3.0, spec="official")
    write_results_page(place / "results", place / "docs/results.md")
    assert (place / "docs/figures/methods-cvrp-drift-1-T100-2.png").is_file()


def test_a_figure_of_a_group_called_by_its_stream_does_not_say_it_twice(place):
    (place / "results/methods").rename(place / "results/cvrp-drift-1-T100")
    write_results_page(place / "results", place / "docs/results.md")
    assert (place / "docs/figures/cvrp-drift-1-T100.png").is_file()


def test_the_same_runs_give_the_same_bytes(place):
    page = write_results_page(place / "results", place / "docs/results.md")
    before = {path: path.read_bytes() for path in page.parent.rglob("*") if path.is_file()}
    assert len(before) == 3
    write_results_page(place / "results", page)
    assert {path: path.read_bytes() for path in page.parent.rglob("*") if path.is_file()} == before


def test_the_papers_numbers_follow_ours_in_a_line_of_their_own(tmp_path):
    kept(tmp_path / "results/long/run", 3.5, epochs=1000, method="dree")
    text = results_text(result_tables(tmp_path / "results"), tmp_path / "results", tmp_path)
    assert cells(text, "dree")[1:5] == ["3.50", "0.00", "0.00", "3.50"]
    assert cells(text, "published") == ["", "3.16", "0.22", "0.42", "2.94", "151.26", "", "", ""]


def test_a_whole_run_has_minutes_and_so_have_its_tests_where_they_were_timed(tmp_path):
    for name, seed, times in (("old", 0, {}), ("new", 1, {"test_seconds": 0.3})):
        path = tmp_path / f"results/{name}/run"
        kept(path, 3.5, method="dree", seed=seed)
        (path / "timings.jsonl").unlink()
        for epoch in range(1, 101):
            RunFolder(path).append("timings.jsonl", {"epoch": epoch, "seconds": 1.8, **times})
    text = results_text(result_tables(tmp_path / "results"), tmp_path / "results", tmp_path)
    new, old = re.findall(r"^\| dree \|.*", text, re.MULTILINE)
    assert new.endswith("| 1.80 | 3.00 | 0.50 | – | A GPU, bf16 |")
    assert old.endswith("| 1.80 | 3.00 | – | A GPU, bf16 |")
    heads = re.findall(r"ABPl \| (.*) \| GPU", text)
    assert heads == ["s/epoch | learning, min | tests, min", "s/epoch | learning, min"]


def test_library_instances_have_a_table_beside_the_papers_where_all_were_solved_as_in_the_paper(tmp_path):
    group = tmp_path / "results/long"
    every = dict.fromkeys(library("tsplib").best_known, 12.0)
    for seed, (length, gaps, other) in enumerate(
        [
            (1000, every, {}),
            (1000, every, {"frame": "official"}),
            (1000, every, {"augment": 8}),
            (1000, {"a280": 1.0, "pr226": 3.0}, {}),
            (100, every, {}),
        ]
    ):
        kept(group / f"run{seed}", 3.5, epochs=length, problem="tsp", method="dree", seed=seed)
        write_evaluation(RunFolder(group / f"run{seed}"), gaps, **other)
    text = results_text(result_tables(tmp_path / "results"), tmp_path / "results", tmp_path)
    assert re.findall(r"^\| (dree.* TSPLIB.*) \|$", text, re.MULTILINE) == [
        "dree, seed 0 | TSPLIB | fit | 23 | 12.00 ± 0.00 | 18.06 ± 9.40",
        "dree, seed 1 | TSPLIB | official | 23 | 12.00 ± 0.00 | 18.06 ± 9.40",
        "dree, seed 2, best of 8 symmetric copies | TSPLIB | fit | 23 | 12.00 ± 0.00 | ",
        "dree, seed 3 | TSPLIB | fit | 2 | 2.00 ± 1.00 | ",
        "dree | TSPLIB | fit | 23 | 12.00 ± 0.00 | ",
    ]


@pytest.mark.parametrize("other", [{"order": 2}, {"scenario": "sudden"}, {"base": "invit"}])
def test_the_papers_gap_on_library_instances_is_not_that_of_other_streams_or_solvers(tmp_path, other):
    path = tmp_path / "results/long/run"
    laws = list(make_stream("drift", "tsp", other.get("order", 1), 100).order)
    chosen = {"epochs": 1000, "problem": "tsp", "method": "dree", **other}
    run_with_gaps(path, [[90.0] * 6, [3.0] * 6], [0, 1000], laws, **chosen)
    write_evaluation(RunFolder(path), dict.fromkeys(library("tsplib").best_known, 12.0))
    text = results_text(result_tables(tmp_path / "results"), tmp_path / "results", tmp_path)
    assert re.findall(r"^\| dree.*TSPLIB.*$", text, re.MULTILINE)[0].endswith("| 23 | 12.00 ± 0.00 |  |")
    assert "published" in text.partition("## long")[2]  # its metrics have the paper's beside them


def test_where_there_are_no_runs_it_says_what_to_do(tmp_path):
    with pytest.raises(DreeError, match=r"There are no runs in .*dree results add RUN"):
        write_results_page(tmp_path, tmp_path / "results.md")
    assert list(tmp_path.iterdir()) == []


def test_the_page_in_docs_is_what_the_kept_runs_say():
    root, page = REPOSITORY / "results", REPOSITORY / "docs/results.md"
    text = page.read_text(encoding="utf-8")
    assert text == results_text(result_tables(root), root, page.parent), "write it again with: dree results write"
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (page.parent / unquote(link)).exists(), link
    assert all(path.stat().st_size < 200_000 for path in (page.parent / "figures").iterdir())
