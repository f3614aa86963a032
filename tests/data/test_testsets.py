"""Test sets: what is written is what is loaded, and nothing damaged is loaded."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from dree.data import FILES, SetKey, TestSet, available, load_test, write_test
from dree.data.testsets import INDEX
from dree.errors import DreeError
from dree.problems import Instances, rules
from dree.problems.check import check_cvrp, check_tsp
from dree.tasks import principal

BUILT_IN = available()


def make(problem="cvrp", law="U", size=6, count=4):
    instances = principal(law, problem, size).sample(count, torch.Generator().manual_seed(3))
    key = SetKey(problem, law, size)
    references = torch.arange(count, dtype=torch.float64) / 3 + 1  # not representable in float32
    tours = torch.arange(count)[:, None] + torch.arange(size)
    return key, TestSet(key.name, key.task, instances, references, tours)


@pytest.fixture
def written(tmp_path):
    key, test = make()
    write_test(key, test, {"seed": 5}, tmp_path)
    return key, test, tmp_path


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_a_written_set_comes_back_value_by_value(tmp_path, problem):
    key, test = make(problem)
    path = write_test(key, test, {}, tmp_path)
    back = load_test(*key, folder=tmp_path)
    assert path == tmp_path / f"{problem}-U6-text.npz"
    assert (back.name, back.task) == (f"{problem}-U6-text", "U6")
    torch.testing.assert_close(back.references, test.references, rtol=0, atol=0)
    torch.testing.assert_close(back.instances.coords, test.instances.coords, rtol=0, atol=0)
    torch.testing.assert_close(back.tours, test.tours, rtol=0, atol=0)
    assert back.instances.problem == problem
    if problem == "cvrp":
        torch.testing.assert_close(back.instances.demands, test.instances.demands, rtol=0, atol=0)
        torch.testing.assert_close(back.instances.capacity, test.instances.capacity, rtol=0, atol=0)


@pytest.mark.parametrize("largest", [255, 256, 70_000, 2**40])
def test_demands_of_any_size_survive(tmp_path, largest):
    coords = torch.rand(1, 3, 2)
    instances = Instances(coords, torch.tensor([[0, 1, largest]]), torch.tensor([largest + 1]))
    key = SetKey("cvrp", "U", 2)
    write_test(key, TestSet(key.name, key.task, instances, torch.ones(1, dtype=torch.float64)), {}, tmp_path)
    back = load_test(*key, folder=tmp_path)
    assert back.instances.demands.tolist() == [[0, 1, largest]]
    assert back.instances.capacity.tolist() == [largest + 1]
    assert back.tours is None


def test_small_demands_take_one_byte_each(written):
    key, _, folder = written
    with np.load(folder / key.file, allow_pickle=False) as file:
        kinds = {name: file[name].dtype.name for name in file.files}
    assert kinds == {
        "coords": "float32",
        "demands": "uint8",
        "capacity": "uint8",
        "tours": "uint8",
        "references": "float64",
    }


def test_the_same_set_is_written_as_the_same_bytes(tmp_path):
    key, test = make()
    first = write_test(key, test, {}, tmp_path / "a").read_bytes()
    assert write_test(key, test, {}, tmp_path / "b").read_bytes() == first


def test_the_index_says_how_a_set_was_made_and_keeps_the_others(written):
    key, _, folder = written
    other, test = make("tsp", "R", 5, count=2)
    write_test(other, test, {"seed": 9}, folder)
    index = json.loads((folder / INDEX).read_text())
    assert list(index) == ["cvrp-U6-text.npz", "tsp-R5-text.npz"]
    entry = index[other.file]
    assert (entry["task"], entry["instances"], entry["seed"], entry["spec"]) == ("R5", 2, 9, "text")
    assert available(folder) == [SetKey("cvrp", "U", 6), SetKey("tsp", "R", 5)]
    assert load_test(*key, folder=folder).name == key.name


@pytest.mark.parametrize("keep", [0, 100, -1])
def test_a_truncated_file_is_refused(written, keep):
    key, _, folder = written
    path = folder / key.file
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DreeError, match=r"cvrp-U6-text\.npz is damaged.*dree data build"):
        load_test(*key, folder=folder)


def test_a_single_changed_bit_is_refused(written):
    key, _, folder = written
    path = folder / key.file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DreeError, match="does not match its hash"):
        load_test(*key, folder=folder)


def test_a_file_that_is_gone_is_named(written):
    key, _, folder = written
    (folder / key.file).unlink()
    with pytest.raises(DreeError, match=r"cvrp-U6-text\.npz cannot be read.*reinstall"):
        load_test(*key, folder=folder)


@pytest.mark.parametrize("content", ["{", "[]", '{"cvrp-U6-text.npz": {}}', "nonsense", '{"a": 1}'])
def test_a_damaged_index_is_refused(written, content):
    key, _, folder = written
    (folder / INDEX).write_text(content)
    with pytest.raises(DreeError, match=r"index of the test sets.*is damaged"):
        load_test(*key, folder=folder)


def test_an_unknown_set_is_refused_with_a_list_of_those_there_are(written):
    _, _, folder = written
    with pytest.raises(DreeError, match=r"no test set tsp-U6-text\. Those there are: cvrp-U6-text\."):
        load_test("tsp", "U", 6, folder=folder)


def test_an_empty_folder_has_no_sets(tmp_path):
    assert available(tmp_path) == []
    with pytest.raises(DreeError, match="none yet"):
        load_test("tsp", "U", 6, folder=tmp_path)


def test_an_interrupted_write_leaves_the_old_set_and_no_litter(written, monkeypatch):
    key, test, folder = written
    _, other = make(count=2)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_test(key, other, {}, folder)
    assert sorted(path.name for path in folder.iterdir()) == [key.file, INDEX]
    assert len(load_test(*key, folder=folder).instances) == len(test.instances)


@pytest.mark.parametrize("references", [torch.ones(3, dtype=torch.float64), torch.ones(4)])
def test_references_must_belong_to_the_instances(references):
    _, test = make(count=4)
    with pytest.raises(DreeError, match="its 4 instances need as many float64 references"):
        TestSet(test.name, test.task, test.instances, references)


def test_loading_does_not_import_the_reference_solver():
    code = "import sys, dree.data; dree.data.available(); print('hygese' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


def test_every_built_in_file_is_in_the_index_and_the_whole_is_small():
    assert {path.name for path in FILES.glob("*.npz")} == {key.file for key in BUILT_IN}
    assert sum(path.stat().st_size for path in FILES.iterdir()) < 2_000_000


@pytest.mark.parametrize("key", BUILT_IN, ids=lambda key: key.name)
def test_every_built_in_reference_is_the_cost_of_a_feasible_tour(key):
    test = load_test(*key)
    instances = test.instances.validated()
    assert instances.problem == key.problem
    assert instances.customers == key.size
    for row, tour in enumerate(test.tours.tolist()):
        coords = instances.coords[row].numpy()
        if key.problem == "tsp":
            cost = check_tsp(coords, tour)
        else:
            cost = check_cvrp(coords, instances.demands[row].numpy(), int(instances.capacity[row]), tour)
        assert cost == pytest.approx(float(test.references[row]), rel=1e-12)
    costs = rules(key.problem).cost(instances, test.tours[:, None])[:, 0]
    torch.testing.assert_close(costs.double(), test.references, rtol=1e-5, atol=0)
