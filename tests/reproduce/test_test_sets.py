"""Test sets that runs need: who builds which, what is asked for, and what is left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from dree.bars import no_bar
from dree.data import SetKey, TestSet, find_set, user_folder, write_test
from dree.experiments.material import stored_keys
from dree.problems import Instances
from dree.reproduce import Choice, experiment, finer_sets
from dree.reproduce.plan import obstacles
from dree.reproduce.scales import scale

OFFICIAL = Choice(scale("smoke"), ("tsp",), spec="official")


def write(key: SetKey, count: int = 50) -> None:
    """A set of the user's own, of any instances."""
    size = 5 + len(key.name) % 7
    test = TestSet(key.name, key.task, Instances(torch.rand(count, size, 2)), torch.ones(count, dtype=torch.float64))
    write_test(key, test, {"seed": 1}, user_folder())


def principal(choice: Choice = OFFICIAL) -> list[SetKey]:
    """The sets of the six principal tasks."""
    return stored_keys(choice.settings(problem="tsp"))


@pytest.fixture
def built(monkeypatch):
    """The sets that are built on the spot, in no time."""
    keys = []

    def build(key, recipe, workers):
        keys.append(key)
        write(key, recipe.count)

    monkeypatch.setattr(finer_sets, "build_test", build)
    return keys


def prepared(*names, choice=OFFICIAL):
    return obstacles([experiment(name) for name in names], choice, None, lambda _: None, no_bar)


@pytest.mark.parametrize("names", [("finer", "ablation"), ("ablation", "finer")], ids=" ".join)
def test_sets_of_principal_tasks_are_never_built_on_the_spot_whatever_is_named_first(names, built):
    reasons = prepared(*names)
    assert set(reasons) == set(names)
    assert reasons["finer"] == reasons["ablation"]
    build = "dree data build --problem tsp --spec official --task E20 --task C30 "
    assert reasons["finer"].startswith(f"needs 6 test sets. Build them with: {build}")
    assert built == []
    assert not user_folder().exists()


@pytest.mark.parametrize("names", [("finer", "ablation"), ("ablation", "finer")], ids=" ".join)
def test_mixtures_are_built_on_the_spot_and_no_set_that_is_there_is_replaced(names, built):
    for key in principal():
        write(key, 20)
    mixture = SetKey("tsp", "E17+C6", "official")
    assert mixture in stored_keys(OFFICIAL.settings(problem="tsp", tests="finer"))
    write(mixture, 20)
    before = [find_set(key) for key in (*principal(), mixture)]
    assert prepared(*names) == {}
    assert len(built) == 41 - 6 - 1
    assert all("+" in key.task for key in built)
    assert [find_set(key) for key in (*principal(), mixture)] == before
    built.clear()
    assert prepared(*names) == {}
    assert built == []


def test_sets_with_too_few_instances_are_named_with_the_command_that_builds_enough(built):
    small = replace(OFFICIAL, scale=scale("small"))
    first, *others = principal()
    for key in others:
        write(key, 20)
    tasks = " ".join(f"--task {key.task}" for key in others)
    build = "dree data build --problem tsp --spec official"
    command = f"{build} --task {first.task} && {build} {tasks} --count 50 --force"
    wanted = f"needs 6 test sets of 50 instances. Build them with: {command}."
    assert prepared("ablation", choice=small) == {"ablation": wanted}
    write(first)
    for key in others[1:]:
        write(key)
    wanted = f"needs 1 test set of 50 instances. Build it with: {build} --task {others[0].task} --count 50 --force."
    assert prepared("ablation", "finer", choice=small) == {"ablation": wanted, "finer": wanted}
    assert built == []
    write(others[0])
    assert prepared("ablation", "finer", choice=small) == {}
    assert prepared("ablation") == {}
