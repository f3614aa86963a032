"""`dree results` as a user meets it: two tiny runs, kept, and the page about them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from command_line import dree, invoke, warm_dree
from dree.evaluation.metrics import metrics
from dree.experiments import DEMO, Run, RunFolder
from dree.settings import override
from run_folders import run_with_gaps
from small_runs import SMALL

TINY = {**SMALL, "epochs": 5, "test_every": 5}


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("place")
    for method in ("fine-tuning", "dree"):
        Run.start(folder / "runs" / method, override(DEMO, {**TINY, "method": method})).finish()
    return folder


def test_runs_are_kept_and_the_page_has_their_numbers(place):
    made = dree("results", "add", "runs/fine-tuning", "runs/dree", cwd=place)
    assert made.returncode == 0, made.stderr
    (group,) = (place / "results").iterdir()
    assert group.name == "cvrp-drift-1-T5"
    assert made.stdout.count("Kept: ") == len(list(group.iterdir())) == 2
    assert warm_dree("results", "add", "runs/dree", cwd=place).stdout.startswith(
        "There already: results/cvrp-drift-1-T5/"
    )
    assert warm_dree("results", "write", cwd=place).stdout == "Page: docs/results.md\n"
    text = (place / "docs/results.md").read_text(encoding="utf-8")
    for method in ("fine-tuning", "dree"):
        values = metrics(RunFolder.open(place / "runs" / method).gaps()[1]).as_dict().values()
        assert f"| {method} | 0 | {' | '.join(f'{value:.2f}' for value in values)} |" in text
    assert (place / "docs/figures/cvrp-drift-1-T5.png").is_file()


def test_the_command_on_the_page_repeats_the_run(place, tmp_path):
    warm_dree("results", "add", "runs/dree", "--group", "again", "--folder", str(tmp_path / "kept"), cwd=place)
    warm_dree("results", "write", "--folder", "kept", "--out", "page.md", cwd=tmp_path)
    (line,) = (
        line for line in (tmp_path / "page.md").read_text("utf-8").splitlines() if line.startswith("  `dree run")
    )
    _, *words = shlex.split(line.strip().strip("`"))
    repeated = dree(*words, "--out", "run", cwd=tmp_path)
    assert repeated.returncode == 0, repeated.stderr
    for name in ("metrics.jsonl", "gaps.csv"):
        assert (tmp_path / "run" / name).read_bytes() == (place / "runs/dree" / name).read_bytes()


def test_the_page_about_another_folder_is_in_that_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = run_with_gaps(tmp_path / "run", [[9.0] * 6, [2.0] * 6], [0, 1000], ["E", "C", "G", "U", "R", "GM"])
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/results.md").write_text("of other runs")
    said = invoke("results", "add", run, "--folder", "my runs")
    assert "The page about them: dree results write --folder 'my runs'" in said
    assert "Page: my runs/results.md" in invoke("results", "write", "--folder", "my runs")
    page = (tmp_path / "my runs/results.md").read_text(encoding="utf-8")
    assert "![Gap on each principal task over the epochs](figures/cvrp-drift-1-T1000.png)" in page
    assert (tmp_path / "my runs/figures/cvrp-drift-1-T1000.png").is_file()
    assert invoke("results", "write", "--folder", "my runs") == "Page: my runs/results.md\n"  # the figures are no group
    assert (tmp_path / "docs/results.md").read_text() == "of other runs"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "runs"], "is not a run: it has no manifest.json. But it holds runs: dree, fine-tuning."),
        (["add", "runs/dree", "--group", "../elsewhere"], "cannot be the name of a group"),
        (["write", "--folder", "nothing"], "There are no runs in nothing. Put some there with: dree results add RUN"),
    ],
)
def test_bad_input_ends_in_a_message_without_traceback(place, arguments, message):
    result = warm_dree("results", *arguments, cwd=place)
    assert result.returncode == 2
    assert message in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr
