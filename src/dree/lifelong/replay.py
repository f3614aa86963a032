"""The pieces of replay: how far a policy is from a remembered one, which states matter, and when to solve again.

Shapes: ... any number of leading dimensions, S decisions of a tour, K slots of a policy.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from dree.errors import DreeError, unknown

PAPER_ALPHA = {"cvrp": 100.0, "tsp": 10.0}  # the weight of remembered behaviour in DREE and LLR-BC
ABSENT = -1e4  # for the probability of a slot that does not exist: its exponential is zero


class Divergence(Protocol):
    """How far a log-policy [..., K] is from a remembered one: [...].

    Where some slots do not exist, in policies padded to one K, they count as little as if they were not there.
    """

    def __call__(self, current: Tensor, remembered: Tensor, exists: Tensor | None = None) -> Tensor:
        """The distance in every state."""


def check_coefficient(name: str, value: float | None) -> None:
    """Refuse a weight of a loss that is negative or no number; None stands for the paper's."""
    if value is not None and not 0 <= value < math.inf:
        raise DreeError(f"{name} must be a number that is not negative, not {value}.")


def alpha_of(problem: str, alpha: float | None) -> float:
    """The weight of remembered behaviour: as given, or the paper's for the problem."""
    return PAPER_ALPHA[problem] if alpha is None else alpha


def literal(current: Tensor, remembered: Tensor, exists: Tensor | None = None) -> Tensor:
    """The reverse KL as the paper prints it.

    Actions that are not allowed contribute nothing; slots that do not exist are never allowed.
    """
    allowed = remembered > -torch.inf
    ratio = torch.where(allowed, current, 0) - torch.where(allowed, remembered, 0)
    return (current.exp() * ratio).sum(-1)


def softened(current: Tensor, remembered: Tensor, exists: Tensor | None = None) -> Tensor:
    """The reverse KL as the lineage's code has it: both policies go through one more softmax.

    That softmax is taken of the probabilities, over all actions, so both become nearly uniform. The value is much
    smaller than the literal one, and the coefficients that the paper quotes were tuned for it.
    """
    log_current = _softened(current, exists)
    return (log_current.exp() * (log_current - _softened(remembered, exists))).sum(-1)


def _softened(policy: Tensor, exists: Tensor | None) -> Tensor:
    probability = policy.exp()
    if exists is not None:
        probability = probability.masked_fill(~exists, ABSENT)
    return probability.log_softmax(-1)


DIVERGENCES: dict[str, Divergence] = {"literal": literal, "softened": softened}


def divergence(kind: str) -> Divergence:
    """A divergence by its name."""
    if kind not in DIVERGENCES:
        raise unknown("divergence", kind, DIVERGENCES)
    return DIVERGENCES[kind]


def uncertainty(remembered: Tensor) -> Tensor:
    """How unsure a log-policy [..., K] was, from 0 (one action) to 1 (uniform): [...].

    One minus its variance over the largest possible one; LLR-BC's weight of experiences (CaEW).
    """
    actions = remembered.shape[-1]
    confidence = remembered.exp().var(-1, correction=0) * actions**2 / (actions - 1)
    return (1 - confidence).clamp_min(0) + 1e-9  # rounding takes it below nought


def has_choice(remembered: Tensor) -> Tensor:
    """The states in which more than one action was allowed: [...]."""
    return (remembered > -torch.inf).sum(-1) > 1


def behaviour_loss(current: Tensor, remembered: Tensor, kind: str) -> Tensor:
    """How far the current policy is from the remembered one on the same tours, both [B, S, K]: scalar.

    The weights of a tour's states add up to one; the mean is over the tours. States without a choice do not count.
    """
    weights = uncertainty(remembered) * has_choice(remembered)
    weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-9)
    return (weights * divergence(kind)(current, remembered)).sum(-1).mean()


class Interval:
    """When to solve remembered instances again: the more of them improve, the sooner.

    Due times are real numbers, so that on average the interval is kept exactly.
    """

    def __init__(self, lower: float, upper: float) -> None:
        if not 1 <= lower <= upper:
            raise DreeError(
                f"The interval of instance replay must have 1 <= lower <= upper, not lower {lower} and upper {upper}."
            )
        self.lower, self.upper = lower, upper
        self.due = upper

    def is_due(self, batch: int) -> bool:
        """Whether to replay with new batch number `batch`, the first being 1."""
        return batch >= self.due

    def schedule(self, improved: float) -> None:
        """Set the next due time by the share of instances that improved."""
        self.due += self.upper - improved * (self.upper - self.lower)
