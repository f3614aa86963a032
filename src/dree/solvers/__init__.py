"""Base solvers: neural networks that construct tours. A user's own class goes by its dotted path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from dree.randomness import named_seed
from dree.registry import constructed, named_class
from dree.settings import build
from dree.solvers.base import Score, Solver
from dree.solvers.invit import INViT
from dree.solvers.invit_network import INViTSettings
from dree.solvers.omni import Omni
from dree.solvers.pomo import POMO, POMOSettings

SOLVERS: dict[str, type[Solver]] = {"pomo": POMO, "omni": Omni, "invit": INViT}


def make_solver(problem: str, base: str = "pomo", settings: Mapping[str, Any] | None = None, seed: int = 0) -> Solver:
    """A solver by its name, with random weights that the seed fixes; torch's global generator is left as it was.

    `settings` holds those that are not to be the solver's defaults.
    """
    kind = solver_class(base)
    chosen: Any = build(kind.settings_class, settings or {}, "solver.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(named_seed(seed, "weights", problem))
        return constructed("solver", base, kind, {"problem": problem, "settings": chosen})


def solver_class(name: str) -> type[Solver]:
    """A solver by its name, or a user's own by its dotted path (`package.module.Class`)."""
    return named_class("solver", name, SOLVERS, Solver)  # type: ignore[type-abstract]


__all__ = [
    "POMO",
    "SOLVERS",
    "INViT",
    "INViTSettings",
    "Omni",
    "POMOSettings",
    "Score",
    "Solver",
    "make_solver",
    "solver_class",
]
