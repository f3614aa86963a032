"""What the checks have in common."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from dree.problems import PROBLEMS, rules
from dree.registry import constructed
from dree.settings import build


def require(holds: object, sentence: str) -> None:
    """Raise an AssertionError with this sentence unless something holds. (`assert` is silent under `python -O`.)"""
    if not holds:
        raise AssertionError(sentence)


def problems(problem: str | None) -> Iterable[str]:
    """The problem that was asked for, or all of them."""
    return PROBLEMS if problem is None else [rules(problem).name]


def check_constructor(kind: object, base: type, settings: str, **first: object) -> None:
    """Refuse a class that cannot be made as runs make it, settings last; what is no class of this base passes."""
    if isinstance(kind, type) and issubclass(kind, base):
        defaults: object = build(getattr(kind, f"{settings}_class"), {})
        constructed(base.__name__.lower(), kind.__name__, kind, {**first, settings: defaults})


@contextmanager
def located(where: str) -> Iterator[None]:
    """Say where it happened, whatever goes wrong inside."""
    try:
        yield
    except Exception as error:
        error.add_note(f"This was {where}.")
        raise


@contextmanager
def global_chance_unused(what: str) -> Iterator[None]:
    """Refuse draws from the random states that a whole process shares."""
    before = _global_states()
    yield
    for name, state in _global_states().items():
        require(
            state == before[name],
            f"{what} draws from the global random state of {name}, so a run cannot be repeated. "
            "Draw from the generator it is given, or from learner.generator or learner.chance.",
        )


def _global_states() -> dict[str, bytes]:
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "random": pickle.dumps(random.getstate()),
        "numpy": pickle.dumps(np.random.get_state()),  # noqa: NPY002
    }
