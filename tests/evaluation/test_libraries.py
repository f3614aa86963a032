"""Library arithmetic: known optimal tours have their known lengths, and results say what they rest on."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from conftest import small_solver
from dree.data.libraries import ROUNDINGS, LibraryInstance, read_library_file
from dree.evaluation.libraries import LibraryResult, length, solve_library
from dree.problems import Instances

SHARED = Path(__file__).parents[3] / "shared" / "data"
# Found by HGS (hygese 0.1, rounding on, 5000 iterations for kroA100 and 40000 for X-n101-k25).
TOURS = json.loads((Path(__file__).parent / "library_tours.json").read_text())


@pytest.mark.skipif(not SHARED.exists(), reason="the libraries' files are not here")
@pytest.mark.parametrize(("file", "best"), [("tsplib/kroA100.tsp", 21282), ("cvrplib/X-n101-k25.vrp", 27591)])
def test_an_optimal_tour_has_the_length_that_the_library_publishes(file, best):
    instance = read_library_file(SHARED / file)
    tour = TOURS[instance.name]
    assert length(instance, tour, ROUNDINGS["EUC_2D"]) == best == instance.best_known
    points = [instance.instances.coords[0, node].tolist() for node in (tour[-1], *tour)]  # a CVRP's ends at the depot
    assert length(instance, tour) == pytest.approx(sum(math.dist(a, b) for a, b in pairwise(points)))


def triangle(weights="EUC_2D", name="triangle"):
    """Sides 1.5, 2 and 2.5."""
    return LibraryInstance(name, weights, Instances(torch.tensor([[[0, 0], [1.5, 0], [0, 2.0]]], dtype=torch.float64)))


def test_every_leg_is_rounded_by_itself_and_halves_go_up():
    assert length(triangle(), [0, 1, 2]) == 6.0
    assert length(triangle(), [0, 1, 2], ROUNDINGS["EUC_2D"]) == 2 + 3 + 2
    assert ROUNDINGS["EUC_2D"](np.array([0.5, 1.4999, 1.5, 2.5])).tolist() == [1, 1, 2, 3]
    assert ROUNDINGS["CEIL_2D"](np.array([1.0, 1.001, 2.5])).tolist() == [1, 2, 3]


def test_a_vehicle_goes_out_and_back_on_every_route():
    coords = torch.tensor([[[0, 0], [1.4, 0], [0, 1.4]]], dtype=torch.float64)
    instance = LibraryInstance("two", "CEIL_2D", Instances(coords, torch.tensor([[0, 1, 1]]), torch.tensor([1])))
    assert length(instance, [1, 0, 2, 0]) == pytest.approx(5.6)
    assert length(instance, [1, 0, 2, 0], ROUNDINGS["CEIL_2D"]) == 8
    assert length(instance, [1, 0, 2, 0], ROUNDINGS["EUC_2D"]) == 4


@pytest.mark.parametrize("frame", ["fit", "official"])
@pytest.mark.parametrize("copies", [1, 8])
def test_a_solver_sees_the_unit_square_and_answers_in_the_files_units(frame, copies):
    result = solve_library(small_solver("tsp"), triangle("CEIL_2D"), copies, frame)
    assert (result.name, result.customers) == ("triangle", 3)
    assert result.distance == pytest.approx(6.0)
    assert result.rounded == 2 + 2 + 3
    assert (result.best_known, result.gap, result.rounded_gap, result.is_record) == (None, None, None, False)


def test_gaps_are_to_the_best_known_length_and_a_record_is_said():
    result = LibraryResult("x", 3, distance=110.0, rounded=99, best_known=100, seconds=1.0)
    assert (result.gap, result.rounded_gap) == pytest.approx((10.0, -1.0))
    assert result.is_record
    assert not LibraryResult("x", 3, distance=99.0, rounded=100, best_known=100, seconds=1.0).is_record
