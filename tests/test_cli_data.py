"""`dree data`: what is there is listed and kept, what is missing or damaged is built."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from typer.testing import CliRunner

from dree.cli_data import _keys, data
from dree.data import available, load_test
from dree.data.testsets import SetKey
from dree.errors import DreeError
from dree.problems.check import check_cvrp

needs_solver = pytest.mark.skipif(importlib.util.find_spec("hygese") is None, reason="hygese is not installed")
SMALL = ("--law", "U", "--size", "5", "--count", "2", "--iterations", "100", "--workers", "1")


def dree_data(*arguments: object) -> str:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(data, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    return folder, dree_data("build", *SMALL, "--folder", folder)


@needs_solver
def test_build_writes_sets_of_both_problems_that_load(built):
    folder, output = built
    assert available(folder) == [SetKey("cvrp", "U", 5), SetKey("tsp", "U", 5)]
    assert "cvrp-U5-text.npz" in output
    test = load_test("cvrp", "U", 5, folder=folder)
    assert len(test.instances) == 2
    for row in range(2):
        problem = test.instances[row : row + 1]
        tour = test.tours[row].tolist()
        cost = check_cvrp(problem.coords[0], problem.demands[0], int(problem.capacity), tour)
        assert cost == test.references[row].item()


@needs_solver
def test_what_is_there_is_kept_even_where_only_some_options_are_given(built):
    folder, _ = built
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert "Already there: 2 of 2" in dree_data("build", *SMALL, "--folder", folder)
    assert "Already there: 1 of 1" in dree_data(
        "build", "--problem", "tsp", "--law", "U", "--size", 5, "--folder", folder
    )
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


@needs_solver
def test_another_recipe_is_refused_unless_forced(tmp_path):
    one = ("build", "--problem", "tsp", *SMALL, "--folder", tmp_path)
    dree_data(*one)
    with pytest.raises(DreeError, match=r"tsp-U5-text is already there, made with seed 1, not 2\. .*--force"):
        dree_data(*one, "--seed", 2)
    first = load_test("tsp", "U", 5, folder=tmp_path).instances.coords
    dree_data(*one, "--seed", 2, "--force")
    assert not torch.equal(load_test("tsp", "U", 5, folder=tmp_path).instances.coords, first)


@needs_solver
def test_a_damaged_set_is_built_as_it_was(tmp_path):
    dree_data("build", "--problem", "cvrp", *SMALL, "--folder", tmp_path)
    path = tmp_path / "cvrp-U5-text.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    dree_data("build", "--problem", "cvrp", "--law", "U", "--size", 5, "--workers", 1, "--folder", tmp_path)
    assert path.read_bytes() == whole


def test_without_options_everything_shipped_is_meant_and_found():
    assert sorted(_keys(None, None, None, "text")) == available()
    assert "Already there: 24 of 24" in dree_data("build")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--problem", "vrp"], "Did you mean 'cvrp'"),
        (["--law", "gm"], "Did you mean 'GM'"),
        (["--spec", "texts"], "Did you mean 'text'"),
        (["--size", "0"], "at least"),
    ],
)
def test_bad_names_and_numbers_are_refused_before_anything_is_built(tmp_path, arguments, message):
    with pytest.raises(DreeError, match=message):
        dree_data("build", *arguments, "--folder", tmp_path)
    assert not list(tmp_path.iterdir())


def test_list_shows_every_set():
    lines = [line.replace("│", " ").split() for line in dree_data("list").splitlines()]
    assert ["cvrp", "GM", "text", "100", "100", "2000"] in lines
    assert ["tsp", "U", "text", "10", "100", "5000"] in lines
    assert sum(line[:1] in (["tsp"], ["cvrp"]) for line in lines) == 24


def test_list_says_how_to_fill_an_empty_folder(tmp_path):
    with pytest.raises(DreeError, match="dree data build"):
        dree_data("list", "--folder", tmp_path)
