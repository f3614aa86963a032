"""Base solvers: neural networks that construct tours."""

from __future__ import annotations

import torch

from dree.randomness import named_seed
from dree.solvers.base import Score, Solver
from dree.solvers.invit import INViT, INViTSettings
from dree.solvers.pomo import POMO, POMOSettings


def make_solver(problem: str, settings: POMOSettings | None = None, seed: int = 0) -> POMO:
    """A solver with random weights that the seed fixes; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(named_seed(seed, "weights", problem))
        return POMO(problem, settings)


__all__ = ["POMO", "INViT", "INViTSettings", "POMOSettings", "Score", "Solver", "make_solver"]
