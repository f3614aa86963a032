"""A method of your own: learn each new batch together with a recent one.

dree run --preset demo --method examples.own_method.Rehearse
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dree.lifelong import Learner, Lesson, Method
from dree.problems import Instances


class Rehearse(Method):
    """Keep the last batches and solve a random one of them again beside every new one."""

    batches_per_epoch = 82  # each is solved with an old one, which makes 164
    kept = 16

    def __init__(self, options: None = None) -> None:
        super().__init__(options)
        self.memory: list[Instances] = []

    def replay(self, learner: Learner, lesson: Lesson) -> Tensor | None:
        """REINFORCE on a remembered batch."""
        if not self.memory:
            return None
        row = torch.randint(len(self.memory), (1,), generator=learner.chance("pick"))
        return learner.loss(learner.attempt(self.memory[int(row)], "rehearse"))

    def remember(self, learner: Learner, lesson: Lesson) -> None:
        """Keep the batch without its copies, and let the oldest go."""
        batch = len(lesson.instances) // lesson.copies
        self.memory = [*self.memory, lesson.instances[:batch].to("cpu")][-self.kept :]

    def state_dict(self) -> dict[str, Any]:
        """The batches, as tensors."""
        return {"memory": [dict(vars(batch)) for batch in self.memory]}

    def load_state_dict(self, state: Mapping[str, Any], learner: Learner) -> None:
        """The batches again."""
        self.memory = [Instances(**batch) for batch in state["memory"]]
