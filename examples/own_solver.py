"""A solver of your own: nodes near the vehicle, and near where the tour began, are likely to be next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dree.problems import Instances, State, Tours
from dree.solvers import Score, Solver


@dataclass(frozen=True)
class NearSettings:
    """What `--set solver.name=value` can change."""

    eagerness: float = 5.0  # how much near nodes are preferred before anything is learned


class Near(Solver):
    """Two weights: one for the distance from the vehicle, one for that from the start."""

    settings_class = NearSettings

    def __init__(self, problem: str, settings: NearSettings | None = None) -> None:
        super().__init__(problem, settings)
        self.weights = nn.Parameter(torch.tensor([-self.settings.eagerness, 0.1]))

    def encode(self, instances):
        """All that the policy knows: the distances between nodes, times either weight: [B, N, N, 2]."""
        return torch.cdist(instances.coords, instances.coords)[..., None] * self.weights

    def policy(self, known: Tensor, starts: Tensor, state: State) -> Tensor:
        """The log-probability of every node at states [B, ...] of tours from given starts: [B, ..., N]."""
        rows = torch.arange(len(known), device=known.device).view(-1, *[1] * (starts.ndim - 1))
        scores = known[rows, state.current][..., 0] + known[rows, starts][..., 1]
        return scores.masked_fill(state.blocked, -torch.inf).log_softmax(-1)

    def along(self, instances: Instances, actions: Tensor, encoding: Any = None) -> Tensor:
        """The same at every state of finished tours, all at once: [B, P, S, N]."""
        states = self.rules.hindsight(instances, actions)
        known = self.encode(instances) if encoding is None else encoding
        return self.policy(known, actions[..., :1].expand_as(states.current), states)

    @torch.no_grad()
    def solve(self, instances, starts=None, *, generator=None, encoding=None, record=False):
        """Step by step: sampled with a generator, greedy without."""
        known = self.encode(instances) if encoding is None else encoding
        starts = self.starts(instances, generator) if starts is None else starts
        state, actions = self.rules.begin(instances, starts), [starts]
        while not self.rules.finished(instances, state).all():
            chances = self.policy(known, starts, state).exp()
            drawn = None if generator is None else torch.multinomial(chances.flatten(0, 1), 1, generator=generator)
            actions.append(chances.argmax(-1) if drawn is None else drawn.view_as(starts))
            state = self.rules.advance(instances, state, actions[-1])
        tours = torch.stack(actions, dim=-1)
        return Tours(tours, self.rules.cost(instances, tours))

    def score(self, instances, tours, weights_BP=None, *, encoding=None):
        """The log-probability of given tours."""
        policy = self.along(instances, tours.actions, encoding)
        each = policy.gather(-1, tours.actions[..., 1:, None]).squeeze(-1).sum(-1)
        return Score(each.detach(), (each if weights_BP is None else each * weights_BP).sum())

    def behave(self, instances, tours, *, encoding=None):
        """The policy at every state of one tour each."""
        return self.along(instances, tours.actions, encoding).squeeze(1)

    def decide(self, instances, starts_BP, state, *, encoding=None):
        """The policy at given states."""
        return self.policy(self.encode(instances) if encoding is None else encoding, starts_BP, state)

    def imitate(self, instances, tours, teacher, *, encoding=None):
        """How far this policy is from another's, along given tours."""
        ours, theirs = (self.along(instances, tours.actions, known) for known in (encoding, teacher))
        each = (theirs.exp() * (theirs - ours).masked_fill(theirs == -torch.inf, 0)).sum((-1, -2))
        return Score(each.detach(), each.sum())
