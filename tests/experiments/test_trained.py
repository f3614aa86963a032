"""The solver of a run, or of one of its checkpoints."""

from __future__ import annotations

import shutil

import pytest
import torch

from dree.errors import DreeError
from dree.experiments.trained import load_trained
from dree.solvers import make_solver
from run_folders import demo_run


def same_weights(solver, other):
    return all(torch.equal(a, b) for a, b in zip(solver.parameters(), other.parameters(), strict=True))


def test_a_folder_gives_its_newest_checkpoint_and_a_file_itself(tmp_path, problem):
    settings = demo_run(tmp_path / "run", problem, (3, 7))
    newest = load_trained(tmp_path / "run")
    older = load_trained(tmp_path / "run/checkpoint/000000003.safetensors")
    assert (newest.epoch, older.epoch) == (7, 3)
    assert newest.settings == older.settings == settings
    assert newest.run == tmp_path / "run"
    assert same_weights(newest.solver, make_solver(problem, settings=settings.solver, seed=7))
    assert same_weights(older.solver, make_solver(problem, settings=settings.solver, seed=3))


def test_a_damaged_newest_checkpoint_is_passed_over_aloud(tmp_path):
    demo_run(tmp_path / "run", "tsp", (3, 7))
    (tmp_path / "run/checkpoint/000000007.safetensors").write_bytes(b"nothing")
    said: list[str] = []
    assert load_trained(tmp_path / "run", said.append).epoch == 3
    assert "Using the one before it" in said[0]


def test_what_is_no_run_and_no_checkpoint_of_one_is_refused(tmp_path):
    demo_run(tmp_path / "run", "tsp")
    checkpoint = tmp_path / "run/checkpoint/000000050.safetensors"
    shutil.copy(checkpoint, tmp_path / "lonely.safetensors")
    with pytest.raises(DreeError, match=r"lonely.safetensors is not in the folder of its run"):
        load_trained(tmp_path / "lonely.safetensors")
    (tmp_path / "text.safetensors").write_text("hello")
    with pytest.raises(DreeError, match=r"text.safetensors cannot be read"):
        load_trained(tmp_path / "text.safetensors")
    with pytest.raises(DreeError, match="is not a run"):
        load_trained(tmp_path / "nowhere")
    checkpoint.unlink()
    with pytest.raises(DreeError, match="has no checkpoint yet"):
        load_trained(tmp_path / "run")
