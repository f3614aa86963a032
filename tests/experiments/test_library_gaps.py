"""What a run's solver does on library instances: read from the run's folder, and never another solver's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dree.data.libraries import library
from dree.errors import DreeError
from dree.experiments import RunFolder
from dree.experiments.library_gaps import library_gaps
from run_folders import run_with_gaps, write_evaluation

LAWS = ["E", "C", "G", "U", "R", "GM"]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run on the TSP, tested last after epoch 100."""
    settings = {"problem": "tsp", "method": "dree", "epochs": 100}
    return RunFolder(run_with_gaps(tmp_path / "run", [[9.0] * 6, [2.0] * 6], [0, 100], LAWS, **settings))


def test_a_run_may_have_none(folder):
    assert library_gaps(folder) == ()


def test_mean_and_deviation_are_of_a_population_of_gaps_computed_from_unrounded_lengths(folder):
    write_evaluation(folder, {"a280": 1.0, "pr226": 2.0, "ts225": 6.0})
    (gaps,) = library_gaps(folder)
    assert (gaps.library, gaps.instances, gaps.frame, gaps.copies, gaps.whole) == ("tsplib", 3, "fit", 1, False)
    assert (gaps.mean, gaps.std) == pytest.approx((3.0, (14 / 3) ** 0.5))


def test_all_of_the_papers_instances_make_a_whole_in_any_frame_and_with_copies(folder):
    every = dict(zip(library("tsplib").best_known, np.arange(23.0), strict=True))
    write_evaluation(folder, every, frame="official", augment=8)
    (gaps,) = library_gaps(folder)
    assert (gaps.whole, gaps.instances, gaps.frame, gaps.copies) == (True, 23, "official", 8)
    assert gaps.mean == pytest.approx(11)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epoch": 99}, "the solver of epoch 99, and the run was last tested after epoch 100"),
        ({"run_created": "2020-01-01T00:00:00+00:00"}, "about tsplib and another run"),
        ({"library": None}, "about None and another run"),
    ],
)
def test_a_file_about_another_solver_is_refused_with_what_to_do(folder, change, words):
    path = write_evaluation(folder, {"a280": 1.0}, **change)
    with pytest.raises(DreeError, match=words) as raised:
        library_gaps(folder)
    assert str(raised.value).endswith(
        f"Delete it, or write it again: dree evaluate RUN --library tsplib --path FOLDER --json {path}"
    )


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"rows": []}',
        "[" * 100_000,
        json.dumps({"library": "tsplib", "run_created": "now", "epoch": 100, "frame": "fit"}),
    ],
)
def test_a_damaged_file_is_said_to_be_one(folder, content):
    (folder.path / "tsplib.json").write_text(content)
    with pytest.raises(DreeError, match=r"tsplib.json is not what .* writes .* or is damaged. Delete it, or"):
        library_gaps(folder)


@pytest.mark.parametrize(
    ("gaps", "other"),
    [
        ({}, {}),
        ({"a280": float("nan")}, {}),
        ({"mine": 1.0}, {}),
        ({"a280": 1.0}, {"frame": None}),
        ({"a280": 1.0}, {"augment": -3}),
        ({"a280": 1.0}, {"rows": [{"instance": "a280", "distance_unrounded": 10**400}]}),
    ],
)
def test_what_cannot_be_is_no_result(folder, gaps, other):
    write_evaluation(folder, gaps, **other)
    with pytest.raises(DreeError, match="or is damaged"):
        library_gaps(folder)
