"""Test sets: what is written is what is loaded, and nothing damaged is loaded."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from dree.data import (
    FILES,
    SetKey,
    TestSet,
    available,
    find_set,
    load_set,
    load_test,
    testsets,
    user_folder,
    write_test,
)
from dree.data.testsets import INDEX, build_command
from dree.errors import DreeError
from dree.problems import Instances, rules
from dree.problems.check import check_cvrp, check_tsp
from dree.tasks import principal, task_named

BUILT_IN = available(FILES)


def make(problem="cvrp", law="U", size=6, count=4):
    instances = principal(law, problem, size).sample(count, torch.Generator().manual_seed(3))
    key = SetKey(problem, f"{law}{size}")
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
    back = load_set(key, folder=tmp_path)
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
    key = SetKey("cvrp", "U2")
    write_test(key, TestSet(key.name, key.task, instances, torch.ones(1, dtype=torch.float64)), {}, tmp_path)
    back = load_set(key, folder=tmp_path)
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
    assert available(folder) == [SetKey("cvrp", "U6"), SetKey("tsp", "R5")]
    assert load_set(key, folder=folder).name == key.name


@pytest.mark.parametrize("keep", [0, 100, -1])
def test_a_truncated_file_is_refused(written, keep):
    key, _, folder = written
    path = folder / key.file
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DreeError, match=r"cvrp-U6-text\.npz is damaged.*dree data build"):
        load_set(key, folder=folder)


def test_a_single_changed_bit_is_refused(written):
    key, _, folder = written
    path = folder / key.file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DreeError, match="does not match its hash"):
        load_set(key, folder=folder)


def test_a_file_that_is_gone_is_named(written):
    key, _, folder = written
    (folder / key.file).unlink()
    with pytest.raises(DreeError, match=r"cvrp-U6-text\.npz cannot be read.*dree data build --problem cvrp --task U6"):
        load_set(key, folder=folder)


@pytest.mark.parametrize("content", ["{", "[]", '{"cvrp-U6-text.npz": {}}', "nonsense", '{"a": 1}'])
def test_a_damaged_index_is_refused(written, content):
    key, _, folder = written
    (folder / INDEX).write_text(content)
    with pytest.raises(DreeError, match=r"index of the test sets.*is damaged"):
        load_set(key, folder=folder)


def test_a_set_that_is_not_there_is_refused_with_the_command_that_builds_it(written):
    _, _, folder = written
    with pytest.raises(DreeError, match=r"no test set tsp-U6-text\..* dree data build --problem tsp --task U6$"):
        load_test("tsp", "U", 6, folder=folder)
    with pytest.raises(DreeError, match=r"dree data build --problem cvrp --spec official --task E38\+C12$"):
        load_set(SetKey("cvrp", "E38+C12", "official"))


def test_a_set_is_that_of_its_specification(tmp_path):
    counts = {"text": 2, "official": 3}
    for spec, count in counts.items():
        key, (_, test) = SetKey("tsp", "U5", spec), make("tsp", "U", 5, count)
        write_test(key, test, {}, tmp_path)
    found = {spec: load_test("tsp", "U", 5, spec, folder=tmp_path) for spec in counts}
    assert {spec: len(test.instances) for spec, test in found.items()} == counts
    assert found["official"].first(2).references.tolist() == test.references[:2].tolist()


def test_one_command_builds_several_sets():
    keys = [SetKey("tsp", "U5"), SetKey("tsp", "E3+C2")]
    assert build_command(keys) == "dree data build --problem tsp --task U5 --task E3+C2"


def test_an_empty_folder_has_no_sets(tmp_path):
    assert available(tmp_path) == []
    assert find_set(SetKey("tsp", "U6"), tmp_path) is None


def test_sets_are_listed_by_law_and_then_by_size(tmp_path):
    for law, size in (("U", 10), ("U", 9), ("E", 11)):
        key, test = make("tsp", law, size)
        write_test(key, test, {}, tmp_path)
    assert [key.task for key in available(tmp_path)] == ["E11", "U9", "U10"]


def test_a_set_of_a_mixture_goes_by_the_name_of_its_task(tmp_path):
    task = task_named("E4+C2", "cvrp")
    key = SetKey(task.problem, task.name)
    instances = task.sample(2, torch.Generator().manual_seed(1))
    write_test(key, TestSet(key.name, key.task, instances, torch.ones(2, dtype=torch.float64)), {}, tmp_path)
    assert (tmp_path / "cvrp-E4+C2-text.npz").exists()
    assert load_set(key, tmp_path).task == "E4+C2"
    assert available(tmp_path) == [key]


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A package of its own with one set, and the user's folder of this test."""
    monkeypatch.setattr(testsets, "FILES", tmp_path / "package")
    key, test = make(count=4)
    write_test(key, test, {"place": "package"}, tmp_path / "package")
    return key, tmp_path / "package", user_folder()


def test_the_users_own_sets_are_found_after_the_shipped_ones(places):
    key, package, own = places
    _, other = make(count=2)
    write_test(key, other, {"place": "own"}, own)
    extra, test = make("tsp", "R", 5)
    write_test(extra, test, {}, own)
    assert len(load_set(key).instances) == 4
    assert find_set(key).folder == package
    assert find_set(extra).folder == own
    assert available() == [key, extra]


def test_a_damaged_shipped_set_is_replaced_by_the_users_own(places):
    key, package, own = places
    (package / key.file).write_bytes(b"nonsense")
    with pytest.raises(DreeError, match=r"damaged.*dree data build --problem cvrp --task U6`, or reinstall dree"):
        load_set(key)
    _, other = make(count=2)
    write_test(key, other, {}, own)
    assert len(load_set(key).instances) == 2


def test_a_damaged_index_of_the_user_does_not_hide_what_is_shipped(places):
    key, _, own = places
    own.mkdir(parents=True)
    (own / INDEX).write_text("{")
    assert len(load_set(key).instances) == 4


WRITE_MANY = """
import sys, time, torch
from pathlib import Path
from dree.data import SetKey, TestSet, testsets, write_test
from dree.problems import Instances
read = testsets.read_index
def slow(folder):
    index = read(folder)
    time.sleep(0.02)
    return index
testsets.read_index = slow
for size in range(2, 12):
    key = SetKey("tsp", f"{sys.argv[2]}{size}")
    test = TestSet(key.name, key.task, Instances(torch.rand(1, size, 2)), torch.ones(1, dtype=torch.float64))
    write_test(key, test, {}, Path(sys.argv[1]))
"""


def test_processes_that_write_into_one_folder_lose_no_entry(tmp_path):
    writers = [subprocess.Popen([sys.executable, "-c", WRITE_MANY, tmp_path, law]) for law in ("U", "R")]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert available(tmp_path) == [SetKey("tsp", f"{law}{size}") for law in ("R", "U") for size in range(2, 12)]


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
    assert len(load_set(key, folder=folder).instances) == len(test.instances)


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
    assert sum(path.stat().st_size for path in FILES.iterdir()) < 15_000_000


@pytest.mark.parametrize("key", BUILT_IN, ids=lambda key: key.name)
def test_every_built_in_reference_is_the_cost_of_a_feasible_tour(key):
    test = load_set(key)
    instances = test.instances.validated()
    assert instances.problem == key.problem
    assert instances.customers == task_named(key.task, key.problem).size
    for row, tour in enumerate(test.tours.tolist()):
        coords = instances.coords[row].numpy()
        if key.problem == "tsp":
            cost = check_tsp(coords, tour)
        else:
            cost = check_cvrp(coords, instances.demands[row].numpy(), int(instances.capacity[row]), tour)
        assert cost == pytest.approx(float(test.references[row]), rel=1e-12)
    costs = rules(key.problem).cost(instances, test.tours[:, None])[:, 0]
    torch.testing.assert_close(costs.double(), test.references, rtol=1e-5, atol=0)


def test_its_representation_is_one_line():
    test = load_set(SetKey("cvrp", "U20"))
    assert repr(test) == f"TestSet(cvrp-U20-text, Instances(cvrp, {len(test.instances)} of 20 customers, cpu))"
