"""Settings: what is unknown or impossible is refused before anything is written, with the nearest name."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from dree.errors import DreeError
from dree.experiments import DEMO, PRESETS, RunSettings, preset
from dree.lifelong import LearnerSettings
from dree.settings import build, override, parse_assignments
from dree.solvers import INViTSettings, POMOSettings


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RunSettings(epochs="ten"), "Setting 'epochs' must be a whole number or nothing, not 'ten'"),
        (lambda: RunSettings(seed=1.5), "Setting 'seed' must be a whole number, not 1.5"),
        (lambda: RunSettings(sizes=20), "Setting 'sizes' is a group of settings"),
        (lambda: RunSettings(start=Path("runs/x")), "Setting 'start' must be a text or nothing, not PosixPath"),
        (lambda: LearnerSettings(learning_rate="fast"), "Setting 'learning_rate' must be a number, not 'fast'"),
        (lambda: POMOSettings(layers="three"), "Setting 'layers' must be a whole number, not 'three'"),
        (lambda: INViTSettings(state_views=[35, "50"]), "Setting 'state_views' must be"),
    ],
)
def test_values_of_a_wrong_type_are_refused_also_where_settings_are_made_directly(make, message):
    with pytest.raises(DreeError, match=message):
        make()


def test_the_defaults_are_the_papers():
    settings = RunSettings()
    assert (settings.stream().epochs, settings.batch_size, settings.test_every) == (1000, 32, 20)
    assert RunSettings(scenario="periodic").stream().epochs == 1200
    assert (settings.learning.learning_rate, settings.learning.weight_decay) == (1e-4, 1e-6)
    assert (settings.learning.optimiser, settings.learning.augmentation) == ("adam", 8)
    network = settings.spelled_out()["solver"]
    assert (network["width"], network["heads"], network["layers"]) == (128, 8, 6)


@pytest.mark.parametrize("name", list(PRESETS))
def test_settings_survive_a_round_trip_through_plain_values(name):
    assert build(RunSettings, asdict(preset(name))) == preset(name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epcohs": 5}, "Unknown setting 'epcohs'. Did you mean 'epochs'"),
        ({"solver.layer": 5}, "Did you mean 'solver.layers'"),
        ({"slover.layers": 5}, "Did you mean 'solver'"),
        ({"learner.lr": 1e-3}, "Did you mean 'learner.learning_rate'"),
        ({"solver": 5}, "is a group of settings"),
        ({"problem": "tps"}, "Did you mean 'tsp'"),
        ({"method": "fine_tuning"}, "Did you mean 'fine-tuning'"),
        ({"scenario": "drfit"}, "Did you mean 'drift'"),
        ({"device": "gpu"}, "Choose from: auto, cpu, cuda"),
        ({"spec": "texts"}, "Did you mean 'text'"),
        ({"order": 9}, "Unknown order '9'"),
        ({"order": ["E", "Q"]}, "Unknown law 'Q'"),
        ({"epochs": 7}, "nearest number that can is 5"),
        ({"epochs": "many"}, "must be a whole number or nothing, not 'many'"),
        ({"epochs": True}, "must be a whole number or nothing, not True"),
        ({"epochs": 0}, "'epochs' must be at least 1"),
        ({"sizes": {"U": "10"}}, "'sizes' must be"),
        ({"order": ["U", ["E"]]}, "'order' must be"),
        ({"method": ".."}, "cannot be imported"),
        ({"tests": "fine"}, "Did you mean 'finer'"),
        ({"tests": "finer", "scenario": "periodic"}, "Only a stream that drifts"),
        ({"batches": 0}, "'batches' must be at least 1"),
        ({"checkpoint_seconds": -1}, "'checkpoint_seconds' must be at least 0, not -1"),
        ({"checkpoint_seconds": float("nan")}, "'checkpoint_seconds' must be at least 0, not nan"),
        ({"sizes": {"U": 0}}, "at least 1 customers"),
        ({"learner.learning_rate": "fast"}, "must be a number"),
    ],
)
def test_wrong_settings_are_refused_with_a_hint(changes, message):
    with pytest.raises(DreeError, match=message):
        override(RunSettings(), changes)


def test_settings_from_before_there_was_a_choice_of_tests_mean_the_principal_ones():
    values = asdict(DEMO)
    del values["tests"]
    assert build(RunSettings, values) == DEMO
    assert list(DEMO.test_tasks(DEMO.stream())) == ["E", "C", "G", "U", "R", "GM"]


def test_overriding_reaches_into_groups_and_leaves_the_rest():
    changed = override(DEMO, parse_assignments(["solver.layers=1", "epochs=10", "method=fine-tuning", "batches=null"]))
    assert (changed.solver["layers"], changed.epochs, changed.batches) == (1, 10, None)
    assert changed.solver["width"] == DEMO.solver["width"]
    assert override(DEMO, {"learner.learning_rate": 1}).learning.learning_rate == 1.0


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ('solver={"layers":2}', {"solver.layers": 2}),
        ("solver={}", {}),
        ('learner={"augmentation":8}', {"learner.augmentation": 8}),
        ('sizes={"U":10}', {"sizes": {"U": 10}}),  # sizes are a value: those of the preset go
    ],
)
def test_a_group_that_is_assigned_changes_its_members_and_no_others(text, changes):
    assert parse_assignments([text]) == changes
    assert override(DEMO, parse_assignments([text])) == override(DEMO, changes)


def test_in_python_a_group_stands_for_the_members_it_names_too():
    """As in a file of settings and on the command line; it was taken for the whole group."""
    assert override(DEMO, {"learner": {"learning_rate": 5e-4}}).learning.augmentation == DEMO.learning.augmentation == 1
    assert override(DEMO, {"solver": {"layers": 2}}).solver == {**DEMO.solver, "layers": 2}


def test_a_default_said_aloud_is_no_change():
    assert override(RunSettings(), {"solver.width": 128, "learner": {"augmentation": 8}}) == RunSettings()
    assert override(RunSettings(method="dree"), {"options.beta": 1}) == RunSettings(method="dree")


def test_settings_spelled_out_are_the_same_settings():
    settings = RunSettings(method="dree", options={"alpha": 5.0}, solver={"width": 64})
    spelled = settings.spelled_out()
    assert spelled["options"]["alpha"] == 5.0
    assert spelled["options"]["beta"] == 1.0
    assert spelled["solver"]["layers"] == 6
    assert build(RunSettings, spelled) == settings


@pytest.mark.parametrize("text", ["epochs", "=5", ""])
def test_an_assignment_needs_a_name_and_a_value(text):
    with pytest.raises(DreeError, match="write name=value"):
        parse_assignments([text])


def test_an_unknown_preset_suggests():
    with pytest.raises(DreeError, match="Did you mean 'paper'"):
        preset("papper")


def test_omni_learns_from_an_eighth_of_a_methods_batches():
    batches = {method: RunSettings(base="omni", method=method).batches_per_epoch for method in ("dree", "llr-bc")}
    assert batches == {"dree": 16, "llr-bc": 20}
    assert RunSettings(base="omni").learning == RunSettings().learning


def test_a_group_may_have_groups_in_it(monkeypatch):
    from dataclasses import dataclass, field

    from dree.lifelong import METHODS, FineTuning

    @dataclass(frozen=True)
    class Options:
        weights: dict[str, float] = field(default_factory=dict)

    monkeypatch.setitem(METHODS, "own", type("Own", (FineTuning,), {"options_class": Options}))
    settings = RunSettings(method="own", options={"weights": {"a": 1.0}})
    assert settings.options == {"weights": {"a": 1.0}}
    assert build(RunSettings, settings.spelled_out()) == settings


def test_options_without_a_default_are_refused_with_the_name_of_their_class(monkeypatch):
    from dataclasses import dataclass

    from dree.lifelong import METHODS, FineTuning

    @dataclass(frozen=True)
    class Options:
        rate: float

    monkeypatch.setitem(METHODS, "own", type("Own", (FineTuning,), {"options_class": Options}))
    for given in ({}, {"rate": 0.5}):
        with pytest.raises(
            DreeError, match=r"Setting 'options\.rate' has no default\. Give it one in test_settings\..*Options: "
        ):
            RunSettings(method="own", options=given)


def test_a_small_network_makes_no_solver_larger_than_it_is():
    from dree.experiments.configuration import changed_preset

    assert changed_preset("demo", {"base": "omni"}).solver["layers"] == 3
    small = changed_preset("demo", {"base": "invit"}).spelled_out()["solver"]
    assert (small["layers"], small["width"]) == (2, 64)
