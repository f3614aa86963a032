"""A method of your own, learning each new batch together with a recent one. docs/own-method.md goes through it.

dree run --preset demo --method examples.own_method.Rehearse
"""

import torch

from dree.lifelong import Learner, Lesson, Method
from dree.problems import Instances


class Rehearse(Method):
    """Keep the last batches and solve a random one of them again beside every new one."""

    batches_per_epoch = 82  # each is solved with an old one, which makes 164
    kept = 16

    def __init__(self, options: None = None) -> None:
        super().__init__(options)
        self.memory: list[Instances] = []

    def replay(self, learner: Learner, lesson: Lesson) -> torch.Tensor | None:
        """REINFORCE on a remembered batch."""
        if not self.memory:
            return None
        row = torch.randint(len(self.memory), (1,), generator=learner.chance("pick"))
        return learner.loss(learner.attempt(self.memory[int(row)], "rehearse"))

    def remember(self, learner: Learner, lesson: Lesson) -> None:
        """Keep the batch without its copies, and let the oldest go."""
        self.memory = [*self.memory, lesson.originals()[0]][-self.kept :]

    def state_dict(self) -> dict:
        """The batches, as tensors."""
        return {"memory": [dict(vars(batch)) for batch in self.memory]}

    def load_state_dict(self, state: dict, learner: Learner) -> None:
        """The batches again."""
        self.memory = [Instances(**batch) for batch in state["memory"]]
