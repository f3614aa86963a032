"""Files of TSPLIB and CVRPLIB: what is read is what they say, and what would be costed wrongly is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dree.data.libraries import SUFFIXES, find_instances, library, read_library_file
from dree.errors import DreeError

SHARED = Path(__file__).parents[3] / "shared" / "data"
TSP = """NAME : four
COMMENT : a square: its corners
TYPE : TSP
DIMENSION : 4
EDGE_WEIGHT_TYPE : EUC_2D
NODE_COORD_SECTION
1 0 0
2 1.5e1 0
4 0 10
3 15 10
EOF
"""
VRP = """NAME: three
TYPE: CVRP
DIMENSION: 4
EDGE_WEIGHT_TYPE: CEIL_2D
CAPACITY: 7
NODE_COORD_SECTION
1 3 4
2 0 0
3 0 4
4 3 0
DEMAND_SECTION
4 2
3 5
2 0
1 7
DEPOT_SECTION
 2
 -1
EOF
"""


def read(tmp_path, text, name="file.tsp"):
    path = tmp_path / name
    path.write_text(text)
    return read_library_file(path)


def test_nodes_are_ordered_by_their_numbers(tmp_path):
    found = read(tmp_path, TSP)
    assert (found.name, found.weights, found.best_known, found.note) == ("four", "EUC_2D", None, None)
    assert found.instances.coords[0].tolist() == [[0, 0], [15, 0], [15, 10], [0, 10]]
    assert found.instances.problem == "tsp"


def test_the_depot_comes_first_and_demands_go_with_their_nodes(tmp_path):
    found = read(tmp_path, VRP, "file.vrp")
    assert found.weights == "CEIL_2D"
    assert found.instances.coords[0].tolist() == [[0, 0], [3, 4], [0, 4], [3, 0]]
    assert found.instances.demands[0].tolist() == [0, 7, 5, 2]
    assert found.instances.capacity.tolist() == [7]


@pytest.mark.usefixtures("taken_by_name")
def test_best_known_lengths_go_by_the_name_in_the_file(tmp_path):
    assert read(tmp_path, TSP.replace("four", "kroA100")).best_known == 21282
    assert read(tmp_path, TSP.replace("four", "X-n101-k25")).best_known is None  # which is a CVRP
    assert read(tmp_path, VRP.replace("three", "X-n101-k25")).best_known == 27591
    assert "73305" in read(tmp_path, VRP.replace("three", "X-n801-k40")).note
    assert (len(library("tsplib").best_known), len(library("cvrplib").best_known)) == (23, 19)


@pytest.mark.parametrize(
    ("name", "text", "file"),
    [
        ("tsplib", TSP.replace("four", "kroA100"), "kroA100.tsp"),
        ("cvrplib", VRP.replace("three", "X-n801-k40"), "X-n801-k40.vrp"),
    ],
)
def test_what_only_bears_the_name_of_a_librarys_instance_has_no_best_known_length(tmp_path, name, text, file):
    found = read(tmp_path, text, file)
    assert found.best_known is None
    assert found.note.endswith("not those of the library's instance of this name, so there is no gap")
    for path in (tmp_path, tmp_path / file):
        with pytest.raises(DreeError, match=rf"{file} calls itself .* Get the file from {name.upper()}'s own page"):
            find_instances(path, library(name).problem, name, lambda _: None)


def test_every_best_known_length_goes_with_a_digest():
    for name in ("tsplib", "cvrplib"):
        assert library(name).digests.keys() == library(name).best_known.keys()


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (TSP, "3 15 10\nEOF\n", "", "4 nodes are announced, the NODE_COORD_SECTION has 3. Was the file cut off?"),
        (TSP, "3 15 10\nEOF\n", "3 1", "line 10 of the NODE_COORD_SECTION is '3 1'. Was the file cut off?"),
        (TSP, TSP[TSP.index("NODE") :], "", "has no NODE_COORD_SECTION. Was the file cut off?"),
        (TSP, "DIMENSION : 4\n", "", "has no entry DIMENSION"),
        (TSP, "DIMENSION : 4", "DIMENSION : four", "DIMENSION is 'four' where a whole number is needed"),
        (TSP, "DIMENSION : 4", "DIMENSION : 1", "at least 2 nodes"),
        (TSP, "DIMENSION : 4", "DIMENSION : 3", "node 4 is there twice, or not one of the 3 announced"),
        (TSP, "3 15 10", "2 15 10", "node 2 is there twice"),
        (TSP, "3 15 10", "3 nan 10", "not finite"),
        (TSP, "TYPE : TSP", "TYPE : ATSP", "its TYPE is ATSP, but dree solves TSP and CVRP only"),
        (TSP, "EUC_2D", "GEO", "its EDGE_WEIGHT_TYPE is GEO.*would be wrong"),
        (TSP, "EUC_2D", "ATT", "its EDGE_WEIGHT_TYPE is ATT"),
        (TSP, "EUC_2D", "EXPLICIT", "its EDGE_WEIGHT_TYPE is EXPLICIT"),
        (TSP, "EOF", "FIXED_EDGES_SECTION\n1 2\n-1\nEOF", "it has FIXED_EDGES, which dree would not respect"),
        (TSP, TSP, "hello", "line 1, 'hello', is neither"),
        (TSP, TSP, "", "has no entry TYPE"),
        (VRP, "CAPACITY: 7", "CAPACITY: 6", "node 1 has demand 7, which is not between 0 and the CAPACITY 6"),
        (VRP, "CAPACITY: 7\n", "", "has no entry CAPACITY"),
        (VRP, "CAPACITY: 7", "CAPACITY: 7\nDISTANCE: 200", "it has DISTANCE, which dree would not respect"),
        (VRP, "3 5\n", "3 -5\n", "node 3 has demand -5"),
        (VRP, "3 5\n", "3 2.5\n", "a demand is '2.5' where a whole number is needed"),
        (VRP, "2 0\n1 7\nDEPOT_SECTION\n 2\n -1\nEOF\n", "", "4 nodes are announced, the DEMAND_SECTION has 2"),
        (VRP, "DEPOT_SECTION\n 2\n -1\nEOF\n", "", r"must name one of the 4 nodes, it has \[\]"),
        (VRP, " 2\n -1", " 2\n 3\n -1", r"must name one of the 4 nodes, it has \[2, 3\]"),
        (VRP, " 2\n -1", " 9\n -1", r"must name one of the 4 nodes, it has \[9\]"),
        (VRP, "2 0\n1 7", "2 1\n1 7", "the depot .* must be 0"),
    ],
)
def test_a_file_that_cannot_be_trusted_is_refused_by_name(tmp_path, text, old, new, message):
    assert old in text
    with pytest.raises(DreeError, match=f"file.tsp: .*{message}"):
        read(tmp_path, text.replace(old, new))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DreeError, match=r"There is no file .*none\.tsp"):
        read_library_file(tmp_path / "none.tsp")


@pytest.mark.usefixtures("taken_by_name")
def test_a_library_is_what_of_it_is_in_the_folder_and_the_rest_is_named(tmp_path):
    (tmp_path / "a280.tsp").write_text(TSP.replace("four", "a280"))
    (tmp_path / "other.tsp").write_text(TSP)
    said: list[str] = []
    (found,) = find_instances(tmp_path, "tsp", "tsplib", said.append)
    assert found.name == "a280"
    assert len(said) == 1
    assert "d493" in said[0]
    assert "a280" not in said[0]
    (tmp_path / "d493.tsp").write_text(TSP.replace("four", "d657"))
    with pytest.raises(DreeError, match=r"d493\.tsp holds the instance d657"):
        find_instances(tmp_path, "tsp", "tsplib", said.append)


def test_without_a_library_all_files_are_taken_and_unfit_ones_left_out_aloud(tmp_path):
    (tmp_path / "good.tsp").write_text(TSP)
    (tmp_path / "globe.tsp").write_text(TSP.replace("EUC_2D", "GEO"))
    (tmp_path / "routes.vrp").write_text(VRP)
    (tmp_path / "notes.txt").write_text("nothing")
    said: list[str] = []
    assert [each.name for each in find_instances(tmp_path, "tsp", None, said.append)] == ["four"]
    assert [line.split(":")[0] for line in said] == ["Left out", "Left out"]
    assert "GEO" in said[0]
    assert "is a CVRP, this solver is for TSP" in said[1]
    assert [each.name for each in find_instances(tmp_path / "good.tsp", "tsp", None)] == ["four"]


@pytest.mark.parametrize(
    ("file", "problem", "name", "message"),
    [
        ("", "tsp", "cvrplib", "cvrplib has CVRP instances, this solver is for TSP"),
        ("", "tsp", "tsplip", "Did you mean 'tsplib'"),
        ("", "tsp", "tsplib", "None of the 23 instances of tsplib is in"),
        ("", "tsp", None, "No file in .* can be used; 0 ending in .tsp or .vrp were tried"),
        ("three.vrp", "tsp", None, "three.vrp is a CVRP, this solver is for TSP"),
    ],
)
def test_what_is_not_there_or_does_not_fit_is_refused(tmp_path, file, problem, name, message):
    if file:
        (tmp_path / file).write_text(VRP)
    with pytest.raises(DreeError, match=message):
        find_instances(tmp_path / file, problem, name)


@pytest.mark.skipif(not SHARED.exists(), reason="the libraries' files are not here")
@pytest.mark.parametrize("name", ["tsplib", "cvrplib"])
def test_all_files_are_read_as_another_reader_reads_them(name):
    vrplib = pytest.importorskip("vrplib")
    wanted = library(name)
    found = find_instances(SHARED / name, wanted.problem, name)
    assert {each.name: each.best_known for each in found} == wanted.best_known
    for each in found:
        other = vrplib.read_instance(SHARED / name / f"{each.name}{wanted.suffix}", compute_edge_weights=False)
        np.testing.assert_array_equal(each.instances.coords[0].numpy(), other["node_coord"])
        if each.instances.demands is not None:
            np.testing.assert_array_equal(each.instances.demands[0].numpy(), other["demand"])
            assert each.instances.capacity.tolist() == [other["capacity"]]
            assert other["depot"].tolist() == [0]
    assert set(SUFFIXES.values()) == {"tsp", "cvrp"}
