"""DREE: dual replay with experience enhancement, the paper's method.

Beside every new batch, a remembered batch e is drawn. Behaviour replay (BR) pulls the policy towards e's; now and
then instance replay (PIR) solves e's instances again and learns from that; and where it found better tours,
experience enhancement (EE) puts them, and how they were found, in place of the old ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dree.errors import DreeError, unknown
from dree.lifelong.experience import Experience, ExperienceBuffer
from dree.lifelong.methods.base import Lesson, Method
from dree.lifelong.reading import Reading
from dree.lifelong.replay import Interval, alpha_of, behaviour_loss, check_coefficient, divergence
from dree.problems import Instances, Tours

if TYPE_CHECKING:
    from dree.lifelong.learner import Learner
    from dree.tasks import Stream

ABLATION_INTERVAL = 3.56  # the paper's, so that all ablations replay equally often
ABLATIONS = {  # the parts that can be left out, and the options that then have no effect
    "pir": ("beta", "lower", "upper"),
    "br": ("alpha", "divergence", "lower", "upper"),
    "ee": ("lower", "upper"),
}


@dataclass(frozen=True)
class DREEOptions:
    """The paper's hyper-parameters, with its values."""

    alpha: float | None = None  # weight of behaviour replay; None: 100 for CVRP, 10 for TSP
    beta: float = 1.0  # weight of instance replay
    buffer: int = 256  # remembered batches
    buffer_bytes: int | None = None  # at most so much memory for them
    lower: float = 1.0  # LB and UB: new batches from one instance replay to the next
    upper: float = 4.0
    divergence: str = "softened"  # or literal
    without: str | None = None  # an ablation: pir, br or ee is left out, and the interval is fixed at 3.56

    def __post_init__(self) -> None:
        """Refuse what is no DREE."""
        for name in ("alpha", "beta"):
            check_coefficient(name, getattr(self, name))
        divergence(self.divergence)
        Interval(self.lower, self.upper)
        ExperienceBuffer(self.buffer, self.buffer_bytes)
        if self.without is None:
            return
        if self.without not in ABLATIONS:
            raise unknown("part of DREE", self.without, ABLATIONS)
        for name in ABLATIONS[self.without]:
            if getattr(self, name) != getattr(DREEOptions, name):
                raise DreeError(f"{name} has no effect on DREE without {self.without}. Leave out {name} or 'without'.")


@dataclass(frozen=True)
class Outcome:
    """What a batch leaves behind."""

    kept: list[tuple[int, Experience]]  # with the slots they go to
    replayed: bool  # whether instances were replayed
    numbers: Reading  # how long the tours kept are, and what share of the instances replayed improved
    chance: torch.Generator  # for a buffer that must shrink


class DREE(Method):
    """Rehearse what was learned, and refine what is rehearsed."""

    whole_lessons = False
    batches_per_epoch = 128  # and about 36 replayed ones
    options_class = DREEOptions
    options: DREEOptions

    def __init__(self, options: DREEOptions | None = None) -> None:
        """An empty buffer."""
        super().__init__(options)
        self._buffer = ExperienceBuffer(self.options.buffer, self.options.buffer_bytes)
        self.interval = Interval(self.options.lower, self.options.upper)
        if self.options.without is not None:
            self.interval = Interval(ABLATION_INTERVAL, ABLATION_INTERVAL)
        self._improved: list[float] = []  # of each instance replay of this epoch
        self._to_keep: list[tuple[int, Experience]] = []  # of the batch being learned, once the optimiser has stepped
        self._share: list[Tensor] = []  # of its instance replay's instances that improved, if there was one
        self._outcome: Outcome | None = None  # of the last batch, if not yet settled

    @property
    def buffer(self) -> ExperienceBuffer:
        """What is remembered."""
        self._settle()
        return self._buffer

    def _settle(self) -> None:
        """Put what the last batch left into the buffer; late, so that by now the device knows its numbers."""
        if self._outcome is None:
            return
        outcome, self._outcome = self._outcome, None
        *lengths, share = outcome.numbers.values()
        if outcome.replayed:
            self._improved.append(share)
            self.interval.schedule(share)
        for (slot, experience), length in zip(outcome.kept, lengths, strict=True):
            self._buffer.put(slot, experience.cut(int(length)))
        self._buffer.settle(outcome.chance)

    def begin(self, learner: Learner, stream: Stream, epoch: int) -> None:
        """Count this epoch's replays anew."""
        self._settle()
        self._improved = []

    def replay(self, learner: Learner, lesson: Lesson) -> Tensor | None:
        """Behaviour replay, and instance replay where it is due, of one remembered batch."""
        losses = []
        with learner.beside():  # the buffer as well: it takes what the last batch left only now
            new_slot = self.buffer.offer(learner.chance("reservoir"))
            slots = self.buffer.sample(1, learner.chance("experience"))
            old = self.buffer.items[slots[0]] if slots else None
            if old is not None and self.options.without != "br":
                alpha = alpha_of(learner.solver.rules.name, self.options.alpha)
                losses.append(alpha * self.behaviour_replay(learner, old))
        # What is kept of a batch is the policy that solved it, so it is taken before the optimiser's step.
        self._to_keep = [] if new_slot is None else [(new_slot, Experience.of(learner.solver, lesson))]
        self._share = []
        if old is None:
            return None
        if self.interval.is_due(learner.batches + 1):
            again = learner.attempt(old.instances, "replay")
            if self.options.without != "pir":
                losses.append(self.options.beta * learner.loss(again))
            found = Experience.of(learner.solver, again)
            self._share = [old.improved_by(found).float().mean()]
            if self.options.without != "ee" and slots[0] != new_slot:
                self._to_keep.append((slots[0], old.enhanced(found)))
        return sum(losses[1:], losses[0]) if losses else None

    def behaviour_replay(self, learner: Learner, old: Experience) -> Tensor:
        """How far the policy has gone from a remembered one."""
        if learner.captures(old.instances.nodes):
            old = old.rounded(16)  # few lengths, hence few captures

        def work(_: torch.Generator, instances: Instances, *remembered: Tensor) -> tuple[Tensor]:
            actions, costs, behaviour = remembered
            tours = Tours(actions[:, None], costs[:, None])
            current = learner.solver.behave(instances, tours, encoding=learner.encode(instances))
            return (behaviour_loss(current, behaviour, self.options.divergence),)

        loss: Tensor
        (loss,) = learner.differentiate("behaviour", work, old.instances, old.actions, old.costs, old.behaviour)
        return loss

    def remember(self, learner: Learner, lesson: Lesson) -> None:
        """Keep the new experience if the reservoir takes it, and the enhanced one."""
        together = learner.together
        lengths = [together.largest(experience.needed()) for _, experience in self._to_keep]
        share = [together.mean(share) for share in self._share] or [torch.zeros((), device=learner.device)]
        chance = learner.chance("shrink")
        self._outcome = Outcome(self._to_keep, bool(self._share), Reading([*lengths, *share]), chance)

    def report(self) -> dict[str, float]:
        """The buffer, and how instance replay went in this epoch."""
        self._settle()
        replays = len(self._improved)
        improved = {"improved": sum(self._improved) / replays} if replays else {}
        return {"buffered": len(self.buffer), "buffer_bytes": self.buffer.bytes, "replays": replays, **improved}

    def state_dict(self) -> dict[str, Any]:
        """The buffer, and when the next instance replay is due."""
        return {"buffer": self.buffer.state_dict(), "due": self.interval.due}

    def load_state_dict(self, state: Mapping[str, Any], learner: Learner) -> None:
        """Go on with an earlier buffer."""
        self._outcome = None
        self.buffer.load_state_dict(state["buffer"], learner.device)
        self.interval.due = state["due"]
