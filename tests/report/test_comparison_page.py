"""The page about several runs: every method's numbers, and a refusal of what cannot be compared."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import pytest

from dree.errors import DreeError
from dree.experiments import DEMO, Run, RunFolder, load_solver
from dree.experiments.demo import demo_settings
from dree.report.comparison_page import comparison_table, write_comparison_page
from dree.report.run_page import write_run_page
from dree.report.solutions import reference_solutions, solved_tests, titled
from run_folders import run_with_gaps

TINY = {"epochs": 5, "batches": 3, "batch_size": 4, "test_instances": 1, "solver.width": 16, "solver.layers": 1}
LAWS = ["E", "C", "G", "U", "R", "GM"]


def cells(table):
    return [list(column.cells) for column in table.columns]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    for method, settings in demo_settings(TINY).items():
        Run.start(folder / method, settings, kind="demo").finish()
    return [folder / "fine-tuning", folder / "dree"]


def test_the_table_has_the_metrics_of_each_run_and_marks_the_better_ones(tmp_path):
    forgets = run_with_gaps(tmp_path / "a", [[9.0] * 6, [2.0] * 6, [8.0] * 6], [0, 1, 2], LAWS)
    keeps = run_with_gaps(tmp_path / "b", [[9.0] * 6, [4.0] * 6, [3.0] * 6], [0, 1, 2], LAWS, method="dree")
    names, ap, afb, amfb, abpl = cells(comparison_table([forgets, keeps]))
    assert names == ["fine-tuning", "dree"]
    assert ap == ["8.00", "[bold]3.00[/]"]
    assert afb == ["6.00", "[bold]0.00[/]"]
    assert amfb == ["6.00", "[bold]0.00[/]"]
    assert abpl == ["[bold]2.00[/]", "3.00"]


def test_the_page_has_both_methods_their_metrics_pictures_and_memory(demo, tmp_path):
    html = write_comparison_page(demo, tmp_path / "page.html", "Both").read_text()
    text = re.sub(r"data:image[^\"]*", "", html)
    assert text.count("<img") == 4
    assert [re.sub("<.*?>", "", each) for each in re.findall("<h2.*?</h2>", text)] == [
        "Result",
        "Learning curves",
        "Memory",
        "Tasks",
        "Routes",
    ]
    assert text.count('<th scope="col">fine-tuning</th><th scope="col">dree</th>') == 2
    _, *columns = cells(comparison_table(demo))
    for column in columns:
        for cell in column:
            assert f"<span>{re.sub(r'[^0-9.]', '', cell)}</span>" in text
    assert "fine-tuning 3, dree 2" in text  # new batches an epoch
    assert "http" not in text.replace("http-equiv", "")


def pictures_and_words(page):
    text = re.sub(r"data:image[^\"]*", "", page.read_text())
    return text.count("<img"), re.sub(r"\s+", " ", re.sub("<.*?>", " ", text))


def test_without_weights_the_pages_have_all_but_the_routes_and_say_so(demo, tmp_path):
    kept = [shutil.copytree(path, tmp_path / path.name, ignore=shutil.ignore_patterns("checkpoint")) for path in demo]
    whole, alone = (pictures_and_words(write_run_page(path)) for path in (demo[1], kept[1]))
    assert alone[0] == whole[0] - 1 == 3  # curves, tasks and memory
    assert "Routes Not shown: its weights are not kept. Memory" in alone[1]
    assert "Not shown" not in whole[1]
    number, words = pictures_and_words(write_comparison_page(kept, tmp_path / "page.html"))
    assert number == 3
    assert "Not shown: fine-tuning: its weights are not kept. dree: its weights are not kept." in words
    number, words = pictures_and_words(write_comparison_page([demo[0], kept[1]], tmp_path / "page.html"))
    assert number == 4
    assert "Not shown: dree: its weights are not kept. The first test instance" in words


def test_a_damaged_checkpoint_keeps_the_page_from_having_routes_only(demo, tmp_path):
    path = shutil.copytree(demo[0], tmp_path / "run")
    for checkpoint in (path / "checkpoint").iterdir():
        checkpoint.write_bytes(b"damaged")
    number, words = pictures_and_words(write_run_page(path))
    assert number == 2
    assert "Routes Not shown: " in words


def test_times_that_are_not_kept_are_not_called_none(demo, tmp_path):
    path = shutil.copytree(demo[0], tmp_path / "run")
    (path / "timings.jsonl").unlink()
    assert "learning time not kept" in pictures_and_words(write_run_page(path))[1]


def test_runs_of_other_streams_or_tests_are_not_compared_nor_is_a_run_with_itself(tmp_path):
    row = [[5.0] * 6]
    first = run_with_gaps(tmp_path / "a", row, [0], LAWS)
    longer = run_with_gaps(tmp_path / "b", row, [0], LAWS, epochs=500)
    later = run_with_gaps(tmp_path / "c", [[5.0] * 6] * 2, [0, 20], LAWS, method="dree")
    with pytest.raises(DreeError, match=r"different streams and cannot be compared: epochs 1000 and 500\.$"):
        comparison_table([first, longer])
    with pytest.raises(DreeError, match="different epochs"):
        comparison_table([first, later])
    with pytest.raises(DreeError, match="a is one run, given 2 times"):
        comparison_table([first, tmp_path / "." / "b" / ".." / "a"])
    untested = RunFolder.create(tmp_path / "d", replace(DEMO, seed=3), {}).path
    with pytest.raises(DreeError, match="not been tested yet"):
        comparison_table([untested])


def test_the_references_routes_have_the_references_cost():
    from dree.data import load_test

    for law, solution in reference_solutions(DEMO).items():
        test = load_test("cvrp", law, dict(DEMO.sizes)[law])
        assert solution.length == pytest.approx(float(test.references[0]), rel=1e-6)


def test_another_solver_routes_what_a_run_was_tested_on(demo):
    theirs = titled(solved_tests(demo[1]), "x")
    ours = titled(solved_tests(demo[0], load_solver(demo[1])), "x")
    assert [each.title for each in ours.values()] == [each.title for each in theirs.values()]
    assert [each.actions for each in ours.values()] == [each.actions for each in theirs.values()]


def test_a_runs_own_page_shows_its_memory_where_it_has_one(demo):
    plain, dree = (write_run_page(path).read_text() for path in demo)
    assert ">Memory</h2>" in dree
    assert ">Memory</h2>" not in plain
