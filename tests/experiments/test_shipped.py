"""The solvers that come with the package: small, safe, as good as their tables say; and how one is made of a run."""

from __future__ import annotations

import csv

import pytest
import torch
from safetensors import safe_open

from command_line import invoke
from dree.data import load_test
from dree.errors import DreeError
from dree.evaluation.evaluate import average_gap
from dree.experiments.export import export
from dree.experiments.shipped import SHIPPED, shipped_folder
from dree.experiments.trained import load_trained
from run_folders import demo_run


def test_a_solver_for_each_problem_comes_with_the_package(problem):
    folder = shipped_folder(SHIPPED[problem])
    trained = load_trained(folder)
    assert (trained.settings.problem, trained.method) == (problem, "dree")
    assert sum(file.stat().st_size for file in folder.rglob("*")) < 6e6


def test_it_is_as_good_as_its_table_says(problem):
    folder = shipped_folder(SHIPPED[problem])
    with (folder / "tests.csv").open() as file:
        measured = {row["task"]: row for row in csv.DictReader(file)}
    gap = average_gap(load_trained(folder).solver, load_test(problem, "U", 20))
    assert gap == pytest.approx(float(measured["U20"]["mean_gap"]), rel=1e-3)  # tours may part where two are as good


def test_evaluate_finds_it_by_name(problem):
    assert f"{SHIPPED[problem]}, epoch" in invoke("evaluate", "--solver", SHIPPED[problem], "--limit", 1)


def test_names_that_do_not_exist_are_refused():
    with pytest.raises(DreeError, match="Did you mean 'tsp-drift'"):
        invoke("evaluate", "--solver", "tsp-drft")
    with pytest.raises(DreeError, match="Name what to evaluate"):
        invoke("evaluate")


def test_a_runs_solver_is_taken_out_of_it_in_half_precision(tmp_path, problem):
    demo_run(tmp_path / "run", problem)
    invoke("convert", tmp_path / "run", tmp_path / "alone")
    (path,) = (tmp_path / "alone/checkpoint").iterdir()
    with safe_open(path, framework="pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.float16}  # noqa: SIM118
    whole, alone = load_trained(tmp_path / "run"), load_trained(tmp_path / "alone")
    assert (alone.epoch, alone.method) == (whole.epoch, whole.method)
    for name, weights in whole.solver.state_dict().items():
        assert torch.equal(alone.solver.state_dict()[name], weights.half().float())


def test_nothing_is_overwritten_and_no_part_is_left(tmp_path):
    demo_run(tmp_path / "run", "tsp")
    (tmp_path / "there").mkdir()
    with pytest.raises(DreeError, match="exists already"):
        export(tmp_path / "run", tmp_path / "there")
    with pytest.raises(DreeError, match="--norm and --heads are for"):
        invoke("convert", tmp_path / "run", tmp_path / "new", "--heads", 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "there"]
