"""What a run's solver does on library instances: read from the run's folder, and never another solver's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dree.data.libraries import library
from dree.errors import DreeError
from dree.experiments import RunFolder
from dree.experiments.library_gaps import LibraryGaps, library_gaps
from run_folders import run_with_gaps, write_evaluation

LAWS = ["E", "C", "G", "U", "R", "GM"]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run on the TSP, tested last after epoch 100."""
    settings = {"problem": "tsp", "method": "dree", "epochs": 100}
    return RunFolder(run_with_gaps(tmp_path / "run", [[9.0] * 6, [2.0] * 6], [0, 100], LAWS, **settings))


def test_a_run_may_have_none(folder):
    assert library_gaps(folder) == ()


def test_mean_and_deviation_are_of_a_population_of_unrounded_gaps(folder):
    write_evaluation(folder, {"a280": 1.0, "pr226": 2.0, "ts225": 6.0})
    (gaps,) = library_gaps(folder)
    assert gaps == LibraryGaps("tsplib", 3, 3.0, pytest.approx((14 / 3) ** 0.5), "fit", 1, whole=False)


def test_all_of_the_papers_instances_make_a_whole_in_any_frame_and_with_copies(folder):
    every = dict(zip(library("tsplib").best_known, np.arange(23.0), strict=True))
    write_evaluation(folder, every, frame="official", augment=8)
    (gaps,) = library_gaps(folder)
    assert (gaps.whole, gaps.instances, gaps.mean, gaps.frame, gaps.copies) == (True, 23, 11.0, "official", 8)
    write_evaluation(folder, {**every, "another": 1.0})
    assert not library_gaps(folder)[0].whole


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "llr-bc"}, "its method is llr-bc, and not dree"),
        ({"epoch": 99}, "its epoch is 99, and not 100"),
        ({"problem": "cvrp"}, "its problem is cvrp, and not tsp"),
        ({"library": None}, "its library is None, and not tsplib"),
    ],
)
def test_a_file_about_another_solver_is_refused_with_the_command_that_writes_the_right_one(folder, change, words):
    path = write_evaluation(folder, {"a280": 1.0}, **change)
    again = f"dree evaluate {folder.path} --library tsplib --path FOLDER --json {path}"
    with pytest.raises(DreeError, match=f"{words}.*") as raised:
        library_gaps(folder)
    assert str(raised.value).endswith(again)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"rows": []}',
        json.dumps({"library": "tsplib", "problem": "tsp", "method": "dree", "epoch": 100, "frame": "fit"}),
    ],
)
def test_a_damaged_file_is_said_to_be_one(folder, content):
    (folder.path / "tsplib.json").write_text(content)
    with pytest.raises(DreeError, match=r"tsplib.json is damaged.*Write it again: dree evaluate"):
        library_gaps(folder)


@pytest.mark.parametrize("gaps", [{}, {"a280": float("nan")}])
def test_gaps_that_are_none_are_no_result(folder, gaps):
    write_evaluation(folder, gaps)
    with pytest.raises(DreeError, match="is damaged"):
        library_gaps(folder)
