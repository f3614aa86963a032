"""Building test sets: the same recipe gives the same set, and what is there is not replaced by accident."""

import importlib.metadata
import json

import pytest
import torch

from dree.data import FILES, SetKey, TestSet, available, load_set, testsets, user_folder, write_test
from dree.data.testsets import INDEX, known_entry
from dree.errors import DreeError
from dree.evaluation import building
from dree.evaluation.building import (
    Recipe,
    build_test,
    check_law,
    generator_seed,
    must_build,
    recipe_of,
    standard_recipe,
)
from dree.evaluation.reference import Reference, reference_costs
from dree.tasks import Law, principal, task_named

pytest.importorskip("hygese")

SEED_OF_CVRP_U20 = 6311869460029693795
KEY, MIXED = SetKey("cvrp", "R6"), SetKey("tsp", "E4+C3")
SMALL = Recipe(count=3, seed=1, iterations=100)


def test_a_built_set_holds_the_documented_instances_and_their_references(tmp_path):
    path = build_test(KEY, SMALL, tmp_path)
    test = load_set(KEY, tmp_path)
    instances = principal("R", "cvrp", 6).sample(3, torch.Generator().manual_seed(generator_seed(1, KEY)))
    assert path == tmp_path / "cvrp-R6-text.npz"
    assert torch.equal(test.instances.coords, instances.coords)
    assert torch.equal(test.instances.demands, instances.demands)
    assert test.references.tolist() == [cost for _, cost in reference_costs(instances, SMALL.solvers[0])]
    entry = json.loads((tmp_path / INDEX).read_text())["cvrp-R6-text.npz"]
    assert {name: entry[name] for name in ("problem", "task", "spec", "instances", "seed")} == {
        "problem": "cvrp",
        "task": "R6",
        "spec": "text",
        "instances": 3,
        "seed": 1,
    }
    version = importlib.metadata.version("hygese")
    assert entry["solver"] == {"name": "hygese", "version": version, "iterations": 100, "seed": 1}


def test_a_mixture_is_built_from_its_name_into_the_users_folder():
    assert build_test(MIXED, SMALL) == user_folder() / "tsp-E4+C3-text.npz"
    sampled = task_named("E4+C3", "tsp").sample(3, torch.Generator().manual_seed(generator_seed(1, MIXED)))
    assert torch.equal(load_set(MIXED).instances.coords, sampled.coords)


def test_the_seed_of_a_set_is_the_documented_function():
    # int(sha256(b"1/cvrp-U20-text")[:8]) without its top bit, computed once with sha256sum.
    assert generator_seed(1, SetKey("cvrp", "U20")) == SEED_OF_CVRP_U20
    others = {
        generator_seed(2, SetKey("cvrp", "U20")),
        generator_seed(1, SetKey("tsp", "U20")),
        generator_seed(1, SetKey("cvrp", "R20")),
        generator_seed(1, SetKey("cvrp", "U10")),
        generator_seed(1, SetKey("cvrp", "U20", "official")),
    }
    assert len(others - {SEED_OF_CVRP_U20}) == 5


@pytest.mark.parametrize(
    ("problem", "tasks", "count", "effort"),
    [
        ("tsp", "U20 R20 E50 G50 GM100 C100", 1000, (2000, 1)),
        ("cvrp", "U20 R20 E50 G50", 1000, (2000, 1)),
        ("cvrp", "GM100 C100", 1000, (2000, 3)),
        ("tsp", "U10 R10 E20 G20 GM30 C30", 100, (5000, 1)),
        ("cvrp", "U10 R10 E20 G20 GM30 C30", 100, (5000, 1)),
        ("tsp", "E44+C12 U10+R10 R8+GM82", 200, (2000, 1)),
        ("cvrp", "E40+C10 U10+R10", 200, (2000, 1)),
        ("cvrp", "E44+C12 R8+GM82", 200, (2000, 3)),
        ("tsp", "U50", 100, (2000, 1)),
    ],
)
def test_the_standard_recipe_is_that_of_the_shipped_sets(problem, tasks, count, effort):
    for name in tasks.split():
        assert standard_recipe(task_named(name, problem)) == Recipe(count, 1, *effort)


@pytest.mark.parametrize("key", available(FILES), ids=lambda key: key.name)
def test_a_shipped_set_begins_with_what_its_law_draws_by_the_recorded_recipe(key):
    """To single precision: another processor may round a sine or a logarithm otherwise."""
    recipe = recipe_of(key, known_entry(key, FILES), {})
    generator = torch.Generator().manual_seed(generator_seed(recipe.seed, key))
    drawn = task_named(key.task, key.problem, key.spec).sample(recipe.count, generator)
    stored = load_set(key, FILES).instances
    assert len(stored) == recipe.count
    torch.testing.assert_close(stored.coords[:3], drawn.coords[:3], rtol=0, atol=1e-6)
    if key.problem == "cvrp":
        assert torch.equal(stored.demands[:3], drawn.demands[:3])
        assert torch.equal(stored.capacity[:3], drawn.capacity[:3])


def test_a_recipe_is_what_is_asked_for_then_what_was_then_what_is_standard():
    entry = {"instances": 7, "seed": 3, "solver": {"iterations": 11}}
    assert recipe_of(KEY, {}, {}) == standard_recipe(task_named("R6", "cvrp"))
    assert recipe_of(KEY, entry, {"count": None}) == Recipe(7, 3, 11)
    assert recipe_of(KEY, entry, {"count": 9, "seed": None, "iterations": 5}) == Recipe(9, 3, 5)


def test_of_several_starts_the_best_tour_is_kept(tmp_path, monkeypatch):
    """Tours of three seeds made up so that each is best for another instance."""
    made_up = {
        1: [[0, 1, 2], [0, 2, 1], [0, 1, 2]],
        2: [[0, 2, 1], [0, 1, 2], [0, 2, 1]],
        3: [[0, 2, 1], [0, 2, 1], [0, 1, 2]],
    }
    costs = {1: [1.0, 2.0, 2.0], 2: [2.0, 1.0, 2.0], 3: [2.0, 2.0, 1.0]}

    def solve(instances, solver, **_):
        return [Reference(*each) for each in zip(made_up[solver.seed], costs[solver.seed], strict=True)]

    monkeypatch.setattr(building, "reference_costs", solve)
    key = SetKey("tsp", "U3")
    build_test(key, Recipe(3, 1, 50, restarts=3), tmp_path)
    test = load_set(key, tmp_path)
    assert test.references.tolist() == [1.0, 1.0, 1.0]
    assert test.tours.tolist() == [[0, 1, 2], [0, 1, 2], [0, 1, 2]]
    assert recipe_of(key, known_entry(key, tmp_path), {}) == Recipe(3, 1, 50, 3)


def test_a_set_that_is_there_is_kept_unless_forced(tmp_path):
    assert must_build(KEY, SMALL, tmp_path)
    build_test(KEY, SMALL, tmp_path)
    assert not must_build(KEY, SMALL, tmp_path)
    assert must_build(KEY, SMALL, tmp_path, force=True)


class Line(Law):
    """Nodes on a line, whose height can be edited."""

    title, size, height = "Line", 4, 0.5

    def draw(self, batch, n, generator, depot_B2=None, spec="text"):
        along = torch.rand(batch, n, generator=generator)
        return torch.stack([along, torch.full_like(along, self.height)], -1), None if depot_B2 is None else along.long()


def test_a_set_whose_law_was_edited_since_is_refused_until_it_is_made_again(tmp_path, monkeypatch):
    key = SetKey("tsp", "test_building.Line4")
    build_test(key, SMALL, tmp_path)
    assert not must_build(key, SMALL, tmp_path)
    monkeypatch.setattr(Line, "height", 0.25)
    with pytest.raises(DreeError, match=r"made before test_building.Line was edited.*Make it again with: .* --force"):
        must_build(key, SMALL, tmp_path)
    assert must_build(key, SMALL, tmp_path, force=True)
    build_test(key, SMALL, tmp_path)
    assert not must_build(key, SMALL, tmp_path)


def test_a_law_that_draws_from_elsewhere_is_not_called_edited(tmp_path, monkeypatch):
    key, law = SetKey("tsp", "test_building.Line4"), "test_building.Line draws other instances each time"
    build_test(key, SMALL, tmp_path)
    monkeypatch.setattr(Line, "height", property(lambda self: torch.rand(()).item()))
    with pytest.raises(DreeError, match=law):
        check_law(key, tmp_path)
    with pytest.raises(DreeError, match=law):
        must_build(key, SMALL, tmp_path / "elsewhere")


def test_a_law_that_leaves_the_unit_square_is_refused_before_anything_is_solved(tmp_path, monkeypatch):
    key, words = SetKey("tsp", "test_building.Line4"), "must lie in the unit square"
    monkeypatch.setattr(Line, "height", 1.5)
    monkeypatch.setattr(building, "reference_costs", None)
    for refused in (must_build, build_test):
        with pytest.raises(
            DreeError, match=rf"Law 'test_building\.Line' gives coordinates from .* to 1\.5; they {words}"
        ):
            refused(key, SMALL, tmp_path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(Line, "height", float("nan"))
    with pytest.raises(
        DreeError, match=r"Law 'test_building\.Line' gives instances that cannot be solved\. .*not finite"
    ):
        build_test(key, SMALL, tmp_path)


def test_a_set_that_nobody_knows_the_seed_of_tells_nothing_of_an_edit_but_its_law_must_be_sound(tmp_path, monkeypatch):
    key = SetKey("tsp", "test_building.Line4")
    instances = task_named(key.task, "tsp").sample(2, torch.Generator().manual_seed(0))
    write_test(key, TestSet(key.name, key.task, instances, torch.ones(2, dtype=torch.float64)), {}, tmp_path)
    check_law(key, tmp_path)
    monkeypatch.setattr(Line, "height", -0.5)
    with pytest.raises(DreeError, match=r"gives coordinates from -0\.5 to"):
        check_law(key, tmp_path)


def test_a_damaged_set_is_built_as_it_was(tmp_path):
    path = build_test(KEY, SMALL, tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    again = recipe_of(KEY, known_entry(KEY, tmp_path), {})
    assert must_build(KEY, again, tmp_path)
    assert build_test(KEY, again, tmp_path).read_bytes() == content


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Recipe(2, 1, 100), "count 3, not 2"),
        (Recipe(3, 2, 100), "seed 1, not 2"),
        (Recipe(3, 1, 99), "iterations 100, not 99"),
    ],
)
def test_a_set_made_otherwise_is_neither_kept_nor_replaced_silently(tmp_path, other, message):
    build_test(KEY, SMALL, tmp_path)
    with pytest.raises(DreeError, match=rf"cvrp-R6-text is already there, made with {message}\. .*--force"):
        must_build(KEY, other, tmp_path)
    assert must_build(KEY, other, tmp_path, force=True)


def test_a_shipped_set_is_never_replaced(tmp_path, monkeypatch):
    for module in (testsets, building):
        monkeypatch.setattr(module, "FILES", tmp_path)
    build_test(KEY, SMALL, tmp_path)
    assert not must_build(KEY, SMALL)
    with pytest.raises(DreeError, match=r"is shipped with dree\. .*--folder"):
        must_build(KEY, SMALL, force=True)
    with pytest.raises(DreeError, match=r"is shipped with dree, made with count 3, not 2\. .*--folder"):
        must_build(KEY, Recipe(2, 1, 100))
    assert must_build(KEY, SMALL, tmp_path, force=True)  # by those who name the folder
    (tmp_path / KEY.file).unlink()
    assert must_build(KEY, SMALL)


@pytest.mark.parametrize("values", [(0, 1, 1), (1, 1, 0)])
def test_what_cannot_be_a_test_set_is_refused(values):
    with pytest.raises(DreeError, match="at least 1, not 0"):
        Recipe(*values)


def test_an_unknown_law_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(DreeError, match="Unknown law 'X'"):
        build_test(SetKey("cvrp", "X6"), SMALL, tmp_path)
    assert list(tmp_path.iterdir()) == []
