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


def test_it_is_an_error_the_user_can_act_on():
    assert isinstance(unknown("law", "X", iter(["U"])), DreeError)
    assert "Choose from: U." in str(unknown("law", "X", iter(["U"])))
