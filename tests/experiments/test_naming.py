"""Names: two runs that differ never share a folder's name, and a method is called by what it is."""

from __future__ import annotations

import pytest

from dree.errors import DreeError
from dree.experiments import DEMO, RunSettings
from dree.experiments.naming import LONGEST, check_ablation, method_title, run_name
from dree.settings import override


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        ({}, "fine-tuning"),
        ({"method": "dree"}, "dree"),
        ({"method": "dree", "options.beta": 1, "options.without": None}, "dree"),  # the defaults, said aloud
        ({"method": "dree", "options.without": "ee"}, "dree without ee"),
        ({"method": "dree", "options.without": "ee", "options.alpha": 5}, "dree without ee, alpha 5.0"),
        ({"method": "llr-bc", "options.buffer_every": 100}, "llr-bc, buffer_every 100"),
    ],
)
def test_a_method_is_called_by_its_ablation_and_its_changed_options(changes, title):
    assert method_title(override(RunSettings(), changes)) == title


def test_a_run_of_the_paper_has_a_short_name():
    assert run_name(RunSettings()) == "cvrp-drift-1-fine-tuning-T1000-seed0"
    assert run_name(override(DEMO, {"order": ["U", "GM"]}), "demo") == "demo-cvrp-drift-UGM-fine-tuning-T50-seed0"


def test_runs_that_differ_have_different_names():
    changes = [
        {},
        {"problem": "tsp"},
        {"seed": 1},
        {"epochs": 500},
        {"order": 2},
        {"order": ["E", "C"]},
        {"scenario": "sudden"},
        {"method": "dree"},
        {"method": "dree", "options.without": "pir"},
        {"method": "dree", "options.without": "br"},
        {"method": "dree", "options.alpha": 5},
        {"method": "dree", "options.beta": 5},
        {"sizes": {"U": 10}},
        {"sizes": {"U": 15}},
        {"batches": 10},
        {"tests": "finer"},
        {"solver.layers": 3},
        {"learner.precision": "bf16"},
    ]
    names = [run_name(override(RunSettings(), each)) for each in changes] + [run_name(DEMO, "demo")]
    assert len(set(names)) == len(names)
    assert all("/" not in name for name in names)


def test_where_a_run_learns_is_not_part_of_its_name():
    assert run_name(override(RunSettings(), {"device": "cpu"})) == run_name(RunSettings())


def test_long_names_are_cut_and_still_differ():
    sizes = dict.fromkeys(("U", "GM", "E", "C", "G", "R"), 10)
    many = {"solver.width": 16, "solver.heads": 2, "solver.layers": 1, "solver.feed_forward": 32, "batch_size": 4}
    long = [run_name(override(RunSettings(), {"sizes": sizes, **many, "solver.clip": clip})) for clip in (1.0, 2.0)]
    assert long[0] != long[1]
    assert long[0][:LONGEST] == long[1][:LONGEST]
    assert len(long[0]) < 200


def test_only_a_method_of_parts_has_ablations():
    check_ablation("dree")
    with pytest.raises(DreeError, match="left out of method 'li'"):
        check_ablation("li")
