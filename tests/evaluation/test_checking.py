"""Checking references: what can be improved is found, counted and, if wanted, kept."""

import json
from dataclasses import replace

import pytest
import torch

from dree.data import SetKey, load_set, write_test
from dree.data.testsets import INDEX, known_entry
from dree.errors import DreeError
from dree.evaluation.building import Recipe, build_test, must_build
from dree.evaluation.checking import Check, check_set, keep, stronger
from dree.evaluation.classical import HGS
from dree.problems.check import check_cvrp

pytest.importorskip("hygese")
KEY, RECIPE = SetKey("cvrp", "U7"), Recipe(count=6, seed=1, iterations=200)
STRONG = HGS(400, 2)


@pytest.fixture
def sound(tmp_path):
    build_test(KEY, RECIPE, tmp_path)
    return tmp_path


@pytest.fixture
def spoiled(sound):
    """Two of six references are bad: every customer on a route of its own."""
    test = load_set(KEY, sound)
    tours = torch.nn.functional.pad(test.tours, (0, 14 - test.tours.shape[1]))
    references = test.references.clone()
    for row in (1, 4):
        actions = [node for customer in range(1, 8) for node in (customer, 0)]
        tours[row] = torch.tensor(actions)
        instance = test.instances[row : row + 1]
        references[row] = check_cvrp(instance.coords[0], instance.demands[0], int(instance.capacity), actions)
    made = {name: known_entry(KEY, sound)[name] for name in ("seed", "solver")}
    write_test(KEY, replace(test, references=references, tours=tours), made, sound)
    return sound, test.references


def test_good_references_are_not_improved(sound):
    check = check_set(KEY, [STRONG], sound)
    assert (check.sample, check.better, check.mean, check.worst) == (6, (), 0.0, 0.0)


def test_bad_references_are_found_and_measured(spoiled):
    folder, good = spoiled
    heard = []
    check = check_set(KEY, [STRONG], folder, progress=lambda *now: heard.append(now))
    stored = load_set(KEY, folder).references
    assert [each.instance for each in check.better] == [1, 4]
    percents = [float(1 - good[row] / stored[row]) * 100 for row in (1, 4)]
    assert [each.percent for each in check.better] == pytest.approx(percents)
    assert check.mean == pytest.approx(sum(percents) / 6)
    assert check.worst == pytest.approx(max(percents))
    assert heard[-1] == (6, 6)


def test_the_plain_values_say_everything(spoiled):
    folder, good = spoiled
    plain = json.loads(json.dumps(check_set(KEY, [STRONG], folder).as_dict()))
    assert (plain["set"], plain["sample"], plain["improved"]) == ("cvrp-U7-text", 6, 2)
    assert plain["solvers"] == [STRONG.made()]
    assert [each["instance"] for each in plain["better"]] == [1, 4]
    assert plain["better"][0]["found"] == pytest.approx(float(good[1]))
    assert plain["mean_percent"] > 0


def test_better_tours_are_kept_and_the_index_says_so(spoiled):
    folder, good = spoiled
    untouched = load_set(KEY, folder)
    keep(check_set(KEY, [STRONG], folder), folder)
    test = load_set(KEY, folder)
    torch.testing.assert_close(test.references, good, rtol=1e-12, atol=0)
    for row in range(6):
        instance = test.instances[row : row + 1]
        tour = test.tours[row].tolist()
        cost = check_cvrp(instance.coords[0], instance.demands[0], int(instance.capacity), tour)
        assert cost == test.references[row].item()
        if row not in (1, 4):
            assert test.references[row] == untouched.references[row]
    entry = json.loads((folder / INDEX).read_text())[KEY.file]
    assert entry["improved"] == [{"instance": row, "solver": STRONG.made()} for row in (1, 4)]
    assert entry["solver"]["iterations"] == 200
    assert not must_build(KEY, RECIPE, folder)
    assert check_set(KEY, [STRONG], folder).better == ()


def test_what_was_kept_before_stays_in_the_index(spoiled):
    folder, _ = spoiled
    check = check_set(KEY, [STRONG], folder)
    for part in (check.better[:1], check.better[1:]):
        keep(replace(check, better=part), folder)
    assert [each["instance"] for each in known_entry(KEY, folder)["improved"]] == [1, 4]


def test_the_best_of_several_solvers_counts_and_is_named(spoiled):
    folder, _ = spoiled
    solvers = [HGS(1, 3), STRONG]
    check = check_set(KEY, solvers, folder)
    assert check.solvers == (solvers[0].made(), STRONG.made())
    alone = check_set(KEY, [STRONG], folder)
    assert [each.found.cost for each in check.better] == pytest.approx([each.found.cost for each in alone.better])


def test_a_sample_is_random_seeded_and_no_larger_than_the_set(spoiled):
    folder, _ = spoiled

    def rows(seed):
        return [each.instance for each in check_set(KEY, [STRONG], folder, sample=3, seed=seed).better]

    assert rows(0) == rows(0)
    assert len({tuple(rows(seed)) for seed in range(6)}) > 1
    assert check_set(KEY, [STRONG], folder, sample=3).sample == 3
    assert check_set(KEY, [STRONG], folder, sample=99).sample == 6
    with pytest.raises(DreeError, match="at least 1 instance"):
        check_set(KEY, [STRONG], folder, sample=0)


def test_the_stronger_solver_has_more_iterations_and_another_seed(sound):
    assert stronger(KEY, 10, sound) == HGS(2000, 2)
    with pytest.raises(DreeError, match="effort must be at least 1"):
        stronger(KEY, 0, sound)


def test_the_stronger_solver_of_a_set_of_several_starts_has_the_iterations_of_all_and_a_seed_of_none(tmp_path):
    build_test(KEY, Recipe(count=2, seed=1, iterations=200, restarts=3), tmp_path)
    assert stronger(KEY, 10, tmp_path) == HGS(6000, 4)


def test_nothing_better_means_no_change():
    assert Check(KEY, 5, (), ()).worst == 0.0
