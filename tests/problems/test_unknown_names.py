"""The error for an unknown name helps to find the right one."""

import pytest

from dree.errors import DreeError, unknown

METHODS = ["dree", "fine-tuning", "LLR-BC"]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("dre", "dree"), ("DREE", "dree"), ("finetuning", "fine-tuning"), ("llr", "LLR-BC"), ("llr-bc", "LLR-BC")],
)
def test_the_nearest_name_is_suggested_as_it_is_written(name, nearest):
    assert str(unknown("method", name, METHODS)) == (
        f"Unknown method '{name}'. Did you mean '{nearest}'? Choose from: dree, fine-tuning, LLR-BC."
    )


@pytest.mark.parametrize("name", ["zzz", "", 7])
def test_where_nothing_is_near_nothing_is_suggested(name):
    assert str(unknown("method", name, METHODS)) == f"Unknown method '{name}'. Choose from: dree, fine-tuning, LLR-BC."


def test_of_names_with_another_first_letter_more_must_be_the_same():
    assert "Did you mean" not in str(unknown("entry", "names", ["coordinates", "demands", "capacity"]))
    assert "Did you mean 'coordinates'" in str(unknown("entry", "coords", ["coordinates", "demands", "capacity"]))
    assert "Did you mean 'U'" in str(unknown("law", "u20", ["U", "GM"]))


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("learner.lr", "learner.learning_rate"),  # its initials
        ("learner.rate", "learner.learning_rate"),  # one of its words
        ("learner.aug", "learner.augmentation"),  # how it begins
        ("learner.basline", "learner.baseline"),
        ("learner.zzz", None),
        ("learner.weight", "learner.weight_decay"),
        ("learner.base", "learner.baseline"),
        ("learner.l", None),  # it begins two
    ],
)
def test_the_group_that_all_are_in_makes_no_name_more_alike(name, nearest):
    members = ("learning_rate", "weight_decay", "augmentation", "baseline", "baseline_instances", "layers")
    said = str(unknown("setting", name, [f"learner.{member}" for member in members]))
    assert said.startswith(
        f"Unknown setting '{name}'. " + (f"Did you mean '{nearest}'? " if nearest else "Choose from")
    )


def test_it_is_an_error_the_user_can_act_on():
    assert isinstance(unknown("law", "X", iter(["U"])), DreeError)
    assert "Choose from: U." in str(unknown("law", "X", iter(["U"])))
