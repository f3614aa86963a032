"""Library instances: what a solver did on them is kept, for that solver alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from dree.experiments import Run
from dree.experiments.naming import keyed_name
from dree.lifelong.checkpoint import load_latest, save_checkpoint
from dree.reproduce import Choice, Found, experiment
from dree.reproduce.scales import scale

PLACES = np.random.default_rng(0).integers(0, 100, (12, 2))
FILE = "\n".join(
    ["NAME : kroA100", "TYPE : TSP", f"DIMENSION : {len(PLACES)}", "EDGE_WEIGHT_TYPE : EUC_2D", "NODE_COORD_SECTION"]
    + [f"{number} {x} {y}" for number, (x, y) in enumerate(PLACES, start=1)]
    + ["EOF", ""]
)


def test_what_a_solver_did_is_kept_until_its_weights_are_others(tmp_path):
    (tmp_path / "kroA100.tsp").write_text(FILE)
    choice = Choice(scale("smoke"), problems=("tsp",), libraries=tmp_path)
    settings = choice.settings(problem="tsp", method="fine-tuning", seed=0)
    run = Run.start(tmp_path / keyed_name(settings), settings, lambda _: None)
    run.checkpoint()
    said: list[str] = []
    found = Found({run.folder.path.name: run.folder.path}, tmp_path, said.append)
    kept = tmp_path / "libraries" / f"{run.folder.path.name}.json"

    def distance():
        _, details = experiment("table2").tables(choice, found)
        (row,) = (row for row in details.rows if row.keys == ("kroA100",))
        return next(cell.ours for cell in row.cells if cell.ours is not None)

    first = distance()
    assert json.loads(kept.read_text())["solved"]["kroA100"] == [first, pytest.approx(first / 21282 * 100 - 100)]
    kept.write_text(kept.read_text().replace(str(first), "1.0"))
    assert distance() == 1  # it was not solved again
    state = load_latest(run.folder.checkpoints)
    for weights in state["learner"]["solver"].values():
        weights.copy_(torch.randn(weights.shape, generator=torch.Generator().manual_seed(3)))
    save_checkpoint(run.folder.checkpoints, 1, state)
    assert distance() not in (1, first)
    assert any("kroA150" in each for each in said)  # what is not there is said
