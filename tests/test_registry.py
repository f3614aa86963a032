"""A user's own class that cannot be made an object of: the error says what to mend, not where Python stumbled."""

from __future__ import annotations

import pytest

from dree.errors import DreeError
from dree.lifelong import Method, make_method
from dree.solvers import POMO, Solver, make_solver


class NoArguments(Method):
    """Its `__init__` takes nothing."""

    def __init__(self):
        super().__init__()


class Forgetful(Method):
    """Its `__init__` does not go on to that of its base."""

    def __init__(self, options=None):
        pass


class NoDataclass(Method):
    """Its options are nothing that can be set."""

    options_class = dict


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        (NoArguments, r"its __init__ must take \(self, options\), and calling it so fails: too many positional"),
        (Forgetful, r"its __init__ must call super\(\)\.__init__\(options\)"),
        (NoDataclass, "dict must be a frozen dataclass"),
    ],
)
def test_a_method_that_cannot_be_made_is_refused_with_what_to_mend(kind, fault):
    with pytest.raises(DreeError, match=fault):
        make_method(f"{__name__}.{kind.__name__}")


class Half(Solver):
    """A solver of which most is missing."""

    def encode(self, instances):
        return instances


class Nameless(POMO):
    """Its `__init__` takes no settings."""

    def __init__(self, problem):
        super().__init__(problem)


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        (Half, r"test_registry\.Half' cannot be made: the class lacks behave, decide, imitate, score, solve"),
        (Nameless, r"test_registry\.Nameless' cannot be made: its __init__ must take \(self, problem, settings\)"),
    ],
)
def test_a_solver_that_cannot_be_made_is_refused_with_what_to_mend(kind, fault):
    with pytest.raises(DreeError, match=fault):
        make_solver("tsp", f"{__name__}.{kind.__name__}")
