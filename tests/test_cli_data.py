"""`dree data`: what is there is listed, kept and checked, what is missing or damaged is built."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from functools import partial

import pytest
import torch

from command_line import cells, invoke
from dree.cli_data import _keys
from dree.data import FILES, SetKey, available, load_set, user_folder, write_test
from dree.data.testsets import known_entry, read_index
from dree.errors import DreeError
from dree.problems.check import check_cvrp
from dree.tasks import ORDERS, make_stream

needs_solver = pytest.mark.skipif(importlib.util.find_spec("hygese") is None, reason="hygese is not installed")
needs_fast_tsp = pytest.mark.skipif(importlib.util.find_spec("fast_tsp") is None, reason="fast-tsp is not installed")
SMALL = ("--law", "U", "--size", "5", "--count", "2", "--iterations", "100", "--workers", "1")
TSP_U5, CVRP_U5 = SetKey("tsp", "U5"), SetKey("cvrp", "U5")
dree_data = partial(invoke, "data")


def keys(problem=None, laws=None, size=None, tasks=None, finer=False, order=1, spec="text"):
    return _keys(problem, laws, size, tasks, finer, order, spec)


@pytest.fixture
def built(tmp_path):
    return tmp_path, dree_data("build", *SMALL, "--folder", tmp_path)


@needs_solver
def test_build_writes_sets_of_both_problems_that_load(built):
    folder, output = built
    assert available(folder) == [CVRP_U5, TSP_U5]
    assert "cvrp-U5-text.npz" in output
    test = load_set(CVRP_U5, folder)
    assert len(test.instances) == 2
    for row in range(2):
        problem = test.instances[row : row + 1]
        tour = test.tours[row].tolist()
        cost = check_cvrp(problem.coords[0], problem.demands[0], int(problem.capacity), tour)
        assert cost == test.references[row].item()


@needs_solver
def test_sets_go_to_the_users_folder_and_never_into_the_package():
    before = sorted(path.name for path in FILES.iterdir())
    dree_data("build", "--problem", "tsp", *SMALL)
    assert available(user_folder()) == [TSP_U5]
    assert len(load_set(TSP_U5).instances) == 2
    assert sorted(path.name for path in FILES.iterdir()) == before


@needs_solver
def test_what_is_there_is_kept_even_where_only_some_options_are_given(built):
    folder, _ = built
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert "Already there: 2 of 2" in dree_data("build", *SMALL, "--folder", folder)
    assert "Already there: 1 of 1" in dree_data("build", "--problem", "tsp", "--task", "U5", "--folder", folder)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


@needs_solver
def test_another_recipe_is_refused_unless_forced(tmp_path):
    one = ("build", "--problem", "tsp", *SMALL, "--folder", tmp_path)
    dree_data(*one)
    with pytest.raises(DreeError, match=r"tsp-U5-text is already there, made with seed 1, not 2\. .*--force"):
        dree_data(*one, "--seed", 2)
    first = load_set(TSP_U5, tmp_path).instances.coords
    dree_data(*one, "--seed", 2, "--force")
    assert not torch.equal(load_set(TSP_U5, tmp_path).instances.coords, first)


@needs_solver
def test_a_damaged_set_is_built_as_it_was(built):
    folder, _ = built
    path = folder / CVRP_U5.file
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    dree_data("build", "--problem", "cvrp", "--task", "U5", "--workers", 1, "--folder", folder)
    assert path.read_bytes() == whole


def test_without_options_everything_shipped_is_meant_and_found():
    assert set(keys()) == set(available(FILES))
    assert "Already there: 24 of 24" in dree_data("build")


def test_shipped_sets_are_not_built_again_by_accident():
    with pytest.raises(DreeError, match=r"cvrp-U20-text is shipped with dree\. .*--folder"):
        dree_data("build", "--problem", "cvrp", "--law", "U", "--size", 20, "--force")


def test_the_finer_test_is_41_tasks_of_which_the_principal_ones_are_shipped():
    finer = keys("cvrp", finer=True)
    stream = make_stream("drift", "cvrp", 1, 1000)
    assert [key.task for key in finer] == [stream.task(t).name for t in range(0, 1001, 25)]
    assert len(set(finer)) == 41
    principal = [SetKey("cvrp", f"{stream.principal(law).name}") for law in ORDERS[1]]
    assert finer[::8] == principal
    assert set(principal) <= set(available(FILES))
    assert len(keys(finer=True, order=3)) == 82


@needs_solver
def test_the_finer_sets_are_built_without_those_that_are_shipped(monkeypatch):
    monkeypatch.setattr("dree.tasks.streams.FINER_PARTS", 10)
    options = ("build", "--finer", "--problem", "tsp", "--count", 1, "--iterations", 1, "--workers", 2)
    dree_data(*options)
    built = available(user_folder())
    assert len(built) == 5
    assert all("+" in key.task for key in built)
    assert "Already there: 5 of 5" in dree_data(*options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--problem", "vrp"], "Did you mean 'cvrp'"),
        (["--law", "gm"], "Did you mean 'GM'"),
        (["--spec", "texts"], "Did you mean 'text'"),
        (["--size", "0"], "at least"),
        (["--task", "20"], "Unknown law ''"),
        (["--task", "U"], "'U' names no task"),
        (["--task", "U5", "--law", "U"], "Choose test sets in one way"),
        (["--finer", "--size", "5"], "Choose test sets in one way"),
        (["--finer", "--order", "7"], "Unknown order '7'"),
        (["--law", "U", "--size", "5", "--count", "0"], "count of at least 1"),
    ],
)
def test_bad_names_and_numbers_are_refused_before_anything_is_built(tmp_path, arguments, message):
    with pytest.raises(DreeError, match=message):
        dree_data("build", *arguments, "--folder", tmp_path)
    assert not list(tmp_path.iterdir())


def test_list_shows_every_set():
    lines = cells(dree_data("list"))
    for key in available(FILES):
        entry = read_index(FILES)[key.file]
        assert [*key, str(entry["instances"]), str(entry["solver"]["iterations"]), "0"] in lines
    assert sum(line[:1] in (["tsp"], ["cvrp"]) for line in lines) == 24


def test_list_says_how_to_fill_an_empty_folder(tmp_path):
    with pytest.raises(DreeError, match="dree data build --folder"):
        dree_data("list", "--folder", tmp_path)


@pytest.fixture
def spoiled(built):
    """The second reference of the CVRP set is 0.5 % too high."""
    folder, _ = built
    test, entry = load_set(CVRP_U5, folder), known_entry(CVRP_U5, folder)
    references = test.references * torch.tensor([1, 1.005], dtype=torch.float64)
    write_test(CVRP_U5, replace(test, references=references), entry, folder)
    return folder, test.references


@needs_solver
def test_check_finds_nothing_to_improve_in_sound_sets(built):
    folder, _ = built
    lines = cells(dree_data("check", *SMALL[:4], "--folder", folder))
    assert ["cvrp-U5-text", "2", "0", "0.00000", "0.00000"] in lines
    assert ["tsp-U5-text", "2", "0", "0.00000", "0.00000"] in lines


@needs_solver
def test_check_reports_what_it_improves_and_fails_beyond_the_margin(spoiled, tmp_path):
    folder, good = spoiled
    command = ("check", "--problem", "cvrp", "--task", "U5", "--folder", folder, "--workers", 1)
    before = (folder / CVRP_U5.file).read_bytes()
    output = dree_data(*command, "--json", tmp_path / "check.json", code=1)
    assert "cvrp-U5-text, instance 1: " in output
    assert "0.4975 % shorter, by hygese" in output
    assert (folder / CVRP_U5.file).read_bytes() == before
    written = json.loads((tmp_path / "check.json").read_text())
    assert written["margin_percent"] == 0.02
    (one,) = written["sets"]
    assert (one["set"], one["sample"], one["improved"]) == ("cvrp-U5-text", 2, 1)
    assert one["mean_percent"] == pytest.approx(100 * (1 - 1 / 1.005) / 2)
    assert one["better"][0]["found"] == pytest.approx(float(good[1]))
    assert one["solvers"][0]["iterations"] == 1000
    dree_data(*command, "--margin", 0.3)
    dree_data(*command, "--keep", code=1)
    assert load_set(CVRP_U5, folder).references.tolist() == pytest.approx(good.tolist(), rel=1e-12)
    dree_data(*command, "--margin", 0)
    shown = cells(dree_data("list", "--folder", folder))
    assert ["cvrp", "U5", "text", "2", "100", "1"] in shown


@needs_solver
@needs_fast_tsp
def test_check_asks_a_second_solver_where_it_can_help(built, tmp_path):
    folder, _ = built
    dree_data("check", *SMALL[:4], "--folder", folder, "--solver", "fast-tsp", "--json", tmp_path / "out.json")
    used = {
        each["set"]: [one["name"] for one in each["solvers"]]
        for each in json.loads((tmp_path / "out.json").read_text())["sets"]
    }
    assert used == {"cvrp-U5-text": ["hygese"], "tsp-U5-text": ["hygese", "fast-tsp"]}
    with pytest.raises(DreeError, match="fast-tsp solves tsp only, and no such set was chosen"):
        dree_data("check", "--problem", "cvrp", "--task", "U5", "--folder", folder, "--solver", "fast-tsp")
    with pytest.raises(DreeError, match="Unknown classical solver 'lkh'"):
        dree_data("check", "--task", "U5", "--folder", folder, "--solver", "lkh")


def test_check_leaves_shipped_sets_alone_and_names_missing_ones():
    with pytest.raises(DreeError, match=r"Shipped sets stay as they are.*--folder"):
        dree_data("check", "--problem", "tsp", "--task", "U10", "--keep")
    with pytest.raises(DreeError, match=r"no test set tsp-U11-text.*dree data build --problem tsp --task U11"):
        dree_data("check", "--problem", "tsp", "--task", "U11")
