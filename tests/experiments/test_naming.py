"""Names: two runs that differ never share a folder's name, and a method is called by what it is."""

from __future__ import annotations

import shlex
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import invoke
from dree.errors import DreeError
from dree.experiments import DEMO, PRESETS, Run, RunSettings
from dree.experiments.naming import (
    IN_PRINT,
    LONGEST,
    check_ablation,
    method_title,
    printed_title,
    run_command,
    run_name,
)
from dree.lifelong import METHODS as KNOWN
from dree.settings import override


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        ({}, "Fine-tuning"),
        ({"method": "dree", "base": "invit"}, "DREE (invit)"),
        ({"method": "dree", "options.without": "pir", "options.alpha": 5}, "DREE without PIR, alpha 5.0"),
        ({"method": "llr-bc", "options.buffer_every": 100}, "LLR-BC, buffer_every 100"),
        ({"method": "dree.lifelong.DREE", "options.without": "pir"}, "dree.lifelong.DREE without pir"),
    ],
)
def test_in_print_it_is_called_as_in_the_paper(changes, title):
    assert printed_title(override(RunSettings(), changes)) == title


def test_every_method_of_dree_has_a_name_in_print():
    assert IN_PRINT.keys() == KNOWN.keys()


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


def settings_of(command: list[str]) -> RunSettings:
    """The settings with which a command would start a run."""
    program, *words = command
    assert program == "dree"
    with patch.object(Run, "start") as start, patch("dree.cli._finish_run"):
        invoke(*words)
    return start.call_args.args[1]


CHANGES = {
    "problem": st.sampled_from(["tsp", "cvrp"]),
    "scenario": st.sampled_from(["drift", "sudden"]),
    "order": st.sampled_from([1, 3, ["U", "GM"], ["C", "U", "R"]]),
    "epochs": st.sampled_from([None, 100, 1000]),
    "sizes": st.sampled_from([{}, {"U": 10}, {"C": 30, "GM": 30}, dict(DEMO.sizes)]),
    "batches": st.sampled_from([None, 7]),
    "seed": st.integers(0, 5),
    "device": st.sampled_from(["auto", "cpu"]),
    "learner.precision": st.sampled_from(["auto", "bf16"]),
    "learner.learning_rate": st.sampled_from([1e-4, 5e-4]),
    "checkpoint_seconds": st.sampled_from([0.0, 60.0]),
    "solver.layers": st.sampled_from([1, 6]),
}
METHODS = st.sampled_from(
    [
        {"method": "fine-tuning"},
        {"method": "dree"},
        {"method": "dree", "options": {"without": "pir", "alpha": 0.1}},
        {"method": "dree", "options": {"alpha": None, "divergence": "literal"}},
        {"method": "llr-bc", "options": {"buffer_every": 10}},
    ]
)


@given(preset=st.sampled_from(list(PRESETS)), changes=st.fixed_dictionaries({}, optional=CHANGES), method=METHODS)
def test_a_runs_command_starts_a_run_with_the_same_settings(preset, changes, method):
    settings = override(PRESETS[preset], changes | method)
    assert settings_of(run_command(settings)) == settings


@pytest.mark.parametrize(
    ("settings", "command"),
    [
        (RunSettings(), "dree run --problem cvrp --order 1 --method fine-tuning --seed 0"),
        (
            override(RunSettings(), {"method": "dree", "options": {"without": "ee", "beta": 2}, "epochs": 100}),
            "dree run --problem cvrp --order 1 --epochs 100 --method dree --without ee --seed 0 --set options.beta=2.0",
        ),
        (
            override(RunSettings(), {"sizes": {"C": 30}, "order": ["U", "C"], "spec": "official"}),
            'dree run --problem cvrp --method fine-tuning --seed 0 --set \'order=["U", "C"]\' '
            "--set spec=official --set sizes.C=30",
        ),
        (
            override(DEMO, {"sizes": {"U": 10}, "epochs": None}),
            "dree run --preset demo --problem cvrp --order 1 --method fine-tuning --seed 0 --set epochs=null "
            "--set 'sizes={\"U\": 10}'",
        ),
    ],
)
def test_a_command_has_what_the_nearest_preset_has_not(settings, command):
    assert shlex.join(run_command(settings)) == command
