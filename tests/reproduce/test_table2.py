"""Library instances: what a solver did on them is kept, for that solver alone."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from dree.data.libraries import find_instances
from dree.data.published import published
from dree.evaluation.libraries import solve_library
from dree.experiments import Run
from dree.experiments.naming import keyed_name
from dree.experiments.trained import load_trained
from dree.lifelong.checkpoint import load_latest, save_checkpoint
from dree.problems.frame import FRAMES
from dree.reproduce import Choice, Found, experiment
from dree.reproduce.scales import scale
from dree.reproduce.table2 import FRAMES_IN_WORDS, TITLES, Table2

pytestmark = pytest.mark.usefixtures("taken_by_name")
PLACES = np.random.default_rng(0).integers(900, 1000, (40, 2))  # away from the origin, so that frames differ
FILE = "\n".join(
    ["NAME : kroA100", "TYPE : TSP", f"DIMENSION : {len(PLACES)}", "EDGE_WEIGHT_TYPE : EUC_2D", "NODE_COORD_SECTION"]
    + [f"{number} {x} {y}" for number, (x, y) in enumerate(PLACES, start=1)]
    + ["EOF", ""]
)


@pytest.fixture
def choice(tmp_path):
    """One instance of one library."""
    (tmp_path / "kroA100.tsp").write_text(FILE)
    return Choice(scale("smoke"), problems=("tsp",), libraries=tmp_path)


@pytest.fixture
def run(tmp_path, choice):
    """A run that has learned nothing."""
    settings = choice.settings(problem="tsp", method="fine-tuning", seed=0)
    run = Run.start(tmp_path / keyed_name(settings), settings, lambda _: None)
    run.checkpoint()
    return run


def length_in(choice, found):
    """The one distance in the table of every instance."""
    _, details = experiment("table2").tables(choice, found)
    (row,) = (row for row in details.rows if row.keys == ("kroA100",))
    return next(cell.ours for cell in row.cells if cell.ours is not None)


def test_what_a_solver_did_is_kept_until_its_weights_are_others(tmp_path, choice, run):
    said: list[str] = []
    found = Found({run.folder.path.name: run.folder.path}, tmp_path, said.append)
    kept = tmp_path / "libraries" / f"{run.folder.path.name}.json"

    def distance():
        return length_in(choice, found)

    first = distance()
    row = json.loads(kept.read_text())["solved"]["kroA100"]
    assert (row["distance"], row["gap"]) == (first, pytest.approx(first / 21282 * 100 - 100))
    kept.write_text(kept.read_text().replace(str(first), "1.0"))
    assert distance() == 1  # it was not solved again
    state = load_latest(run.folder.checkpoints)
    for weights in state["learner"]["solver"].values():
        weights.copy_(torch.randn(weights.shape, generator=torch.Generator().manual_seed(3)))
    save_checkpoint(run.folder.checkpoints, 1, state)
    assert distance() not in (1, first)
    assert any("kroA150" in each for each in said)  # what is not there is said


def test_what_was_done_on_another_file_of_that_name_is_not_taken_for_this_one(tmp_path, choice, run):
    found = Found({run.folder.path.name: run.folder.path}, tmp_path)
    right = length_in(choice, found)
    (tmp_path / "kroA100.tsp").write_text(FILE.replace("1 9", "1 5", 1))
    assert length_in(choice, found) != right
    (tmp_path / "kroA100.tsp").write_text(FILE)
    assert length_in(choice, found) == right


@pytest.mark.parametrize("content", ["", "{", "[]", '{"weights": "WEIGHTS", "solved": {"kroA100": [1, 2]}}'])
def test_where_what_is_kept_is_damaged_it_is_solved_again(tmp_path, choice, run, content):
    found = Found({run.folder.path.name: run.folder.path}, tmp_path)
    first = length_in(choice, found)
    kept = tmp_path / "libraries" / f"{run.folder.path.name}.json"
    kept.write_text(content.replace("WEIGHTS", json.loads(kept.read_text())["weights"]))
    assert length_in(choice, found) == first


def test_means_over_some_instances_stand_beside_the_papers_over_the_same_ones_and_say_so(tmp_path, choice, run):
    means, _ = experiment("table2").tables(choice, Found({run.folder.path.name: run.folder.path}, tmp_path))
    (row,) = (row for row in means.rows if row.keys == ("Fine-tuning",))
    (printed,) = published("tsplib").where(instance="kroA100", method="Fine-tuning")
    assert row.cells[0].published == (printed["gap"], 0.0)
    assert "TSPLIB: 1 of 23 instances, ours and the paper's." in means.notes
    assert [row.keys[0] for row in means.rows if row.reference] == ["MT-Ref"]


def test_what_was_done_in_one_frame_is_not_taken_for_the_other(tmp_path, choice, run):
    found = Found({run.folder.path.name: run.folder.path}, tmp_path)
    official = replace(choice, frame="official")
    lengths = {each.frame: length_in(each, found) for each in (choice, official)}
    (instance,) = find_instances(tmp_path, "tsp", "tsplib", lambda _: None)
    solver = load_trained(run.folder.path, lambda _: None).solver
    assert lengths == {frame: solve_library(solver, instance, frame=frame).distance for frame in FRAMES}
    assert lengths["fit"] != lengths["official"]
    for each in (choice, official):  # from what was kept
        assert length_in(each, found) == lengths[each.frame]
        means, details = experiment("table2").tables(each, found)
        assert any(f"--frame {each.frame}" in note for note in means.notes)
        assert set(details.notes) <= set(means.notes)
        suffix = "" if each is choice else "-official"  # so that neither replaces the other's files
        assert (means.name, details.name) == (f"table2{suffix}", f"tsplib{suffix}")


def test_every_frame_has_its_words():
    assert set(FRAMES_IN_WORDS) == set(FRAMES)


@pytest.fixture
def solved():
    """What two methods did on three instances; the others did nothing."""
    results = {(problem, method): {} for problem in ("cvrp", "tsp") for method in TITLES}
    results["tsp", "dree"] = {"kroA100": (23410.2, 10.0), "rd400": (18337.2, 20.0)}
    results["cvrp", "li"] = {"X-n101-k25": (30350.1, 30.0)}
    return results


def test_mean_gaps_stand_beside_those_of_the_same_method_and_library(solved):
    table = Table2()._means(Choice(), solved)
    cells = {row.keys[0]: row.cells for row in table.rows}
    assert table.columns == ("CVRPLIB", "TSPLIB")
    assert [cell.ours for cell in cells["DREE"]] == [None, (15.0, 5.0)]
    of_both = [published("tsplib").where(instance=name, method="DREE")[0]["gap"] for name in ("kroA100", "rd400")]
    assert cells["DREE"][0].published == (13.78, 6.4)  # where there is nothing of ours, the paper's over all
    assert cells["DREE"][1].published == pytest.approx((np.mean(of_both), np.std(of_both)))
    assert cells["Li"][0].ours == (30.0, 0.0)


def test_an_instance_stands_beside_the_same_instance_of_the_same_method(solved):
    table = Table2()._details(Choice(), "tsp", solved)
    rows = {row.keys[0]: dict(zip(table.columns, row.cells, strict=True)) for row in table.rows}
    values = {column: (cell.ours, cell.published) for column, cell in rows["rd400"].items()}
    assert values["DREE distance"] == (18337.2, 18235.69)
    assert values["DREE gap"] == (20.0, 19.34)
    assert values["Li gap"] == (None, 28.84)
