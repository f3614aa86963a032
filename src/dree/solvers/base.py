"""What every base solver can do: solve, score and behave.

No solver here is recurrent: given a finished tour, the distribution at each state on it depends only on the
instance and the actions before. So learning has two phases. `solve` decides sequentially without gradient;
`score` computes, with gradient, the log-probabilities of all decisions of all tours in parallel.

Shapes: B instances, P tours of each, N nodes, S = T - 1 decisions of a tour with T actions, K slots of a policy. A
solver that can choose any node has K = N, and slot i is node i.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dree.errors import DreeError
from dree.problems import Instances, Rules, State, Tours, rules


@dataclass(frozen=True)
class NoSettings:
    """A solver of which nothing can be set."""


@dataclass(frozen=True)
class Score:
    """A number for each tour, summed over its decisions, and their weighted sum."""

    per_tour: Tensor  # [B, P] values only
    weighted: Tensor  # scalar, with gradient


class Solver(nn.Module, ABC):
    """A neural network that constructs tours, for one problem."""

    settings_class: type = NoSettings  # a frozen dataclass: what can be set, with its defaults
    learning: Mapping[str, Any] = {}  # settings of its learner that are not the general defaults
    epoch_share: float = 1.0  # of a method's batches an epoch, for a solver that is to learn less at a time
    rules: Rules
    # Where encodings depend on what else is in the batch, how many instances, with their symmetric copies, are encoded
    # together in tests, so that results depend on no device and no limit of memory. None: an instance's is its own.
    encoding_batch: int | None = None
    mixes_sizes = False  # whether this very class has `encode_padded`; the slots of its policies are then the nodes
    captures_itself = False  # whether `solve` captures its own steps, and waits for them even where it is `capturable`

    def __init_subclass__(cls) -> None:
        """Mixing sizes is not inherited: a subclass may look at all nodes together, as Omni does.

        Nor is `solving` where a subclass, or what it is mixed with, has another `solve`.
        """
        super().__init_subclass__()
        cls.mixes_sizes = vars(cls).get("mixes_sizes", False)
        newest = next(kind for kind in cls.__mro__ if {"solve", "solving"} & vars(kind).keys())
        if "solving" not in vars(newest):
            cls.solving = Solver.solving  # type: ignore[method-assign]

    def __init__(self, problem: str, settings: Any = None) -> None:
        super().__init__()
        self.rules = rules(problem)
        self.settings = self.settings_class() if settings is None else settings

    def check_fitting(self, instances: Instances) -> None:
        """Refuse instances of another problem, or in another precision than the weights; for `encode` to call."""
        if instances.problem != self.rules.name:
            given = "without demands and capacity" if self.rules.name == "tsp" else "with demands and a capacity"
            raise DreeError(
                f"This solver was made for {self.rules.name}, these instances are {instances.problem}. Give them "
                f"{given}, or take another solver."
            )
        ours, theirs = next(self.parameters()).dtype, instances.coords.dtype
        if ours != theirs:
            raise DreeError(
                f"The weights of this solver are {ours}, these coordinates {theirs}. Make the instances with "
                "Instances.of(coords, demands, capacity), or give coords.to(torch.float32)."
            )

    def capturable(self, nodes: int) -> bool:
        """Whether encoding, solving and scoring instances of this size never wait for the device.

        They can then be captured as a graph. Encodings must have `map`, which changes every tensor in the same way.
        """
        return False

    def starts(self, instances: Instances, generator: torch.Generator | None = None) -> Tensor:
        """The first actions of the tours that this solver makes of its own accord: [B, P]; by default every customer.

        A generator is there when decisions are to be sampled.
        """
        return self.rules.starts(instances)

    def candidates(self, instances: Instances, state: State) -> Tensor:
        """The node that each slot of a policy stands for, at given states: [..., K]; by default every node is a slot.

        Slots may stand for other nodes at other states, and for none at all (-1). For CVRP the first is the depot's.
        """
        nodes = torch.arange(instances.nodes, device=instances.device)
        return nodes.expand_as(state.blocked)

    @abstractmethod
    def encode(self, instances: Instances) -> Any:
        """What does not depend on decisions, with gradient; the other methods take it to save doing it twice.

        `encoding[rows]` is the encoding of some of the instances.
        """

    def encode_padded(self, instances: Instances, sizes_B: Tensor) -> Any:
        """The same for instances of several sizes, padded to one with nodes that do not exist.

        So many nodes of each are real (int32), the first ones; all others are blocked in the states that follow.
        """
        raise NotImplementedError(f"{type(self).__name__} says that it mixes sizes, and has no encode_padded")

    @abstractmethod
    def solve(
        self,
        instances: Instances,
        starts: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
        encoding: Any = None,
        record: bool = False,
    ) -> Tours:
        """Tours from the given first actions [B, P], by default those of `starts`, without gradient.

        With a generator the decisions are sampled, without one they are greedy. With `record`, the encoding keeps
        what makes scoring these very tours cheaper, once.
        """

    def solving(
        self,
        instances: Instances,
        starts: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
        encoding: Any = None,
        record: bool = False,
    ) -> Generator[None, None, Tours]:
        """The same by a generator, which may pause before it waits for the device, so that other work can go on.

        All that is drawn is drawn before the first pause. By default it does not pause, and returns what `solve` does.
        """
        yield from ()
        return self.solve(instances, starts, generator=generator, encoding=encoding, record=record)

    @abstractmethod
    def score(
        self, instances: Instances, tours: Tours, weights_BP: Tensor | None = None, *, encoding: Any = None
    ) -> Score:
        """The log-probability of given tours, and its weighted sum (default weights: one) with gradient."""

    @abstractmethod
    def behave(self, instances: Instances, tours: Tours, *, encoding: Any = None) -> Tensor:
        """The log-probability of every slot at every state of one tour each (P = 1): [B, S, K], with gradient.

        Actions that are not allowed have minus infinity.
        """

    @abstractmethod
    def decide(self, instances: Instances, starts_BP: Tensor, state: State, *, encoding: Any = None) -> Tensor:
        """The log-probability of every slot at given states, on tours from given starts: [B, P, K], with gradient."""

    @abstractmethod
    def imitate(self, instances: Instances, tours: Tours, teacher: Any, *, encoding: Any = None) -> Score:
        """How far this policy is from a teacher's, at every state of given tours.

        The teacher is another solver's encoding of the same instances, which must hold all that its decisions depend
        on: the weights of its decoder are not at hand here. The number for each tour is the KL divergence
        KL(teacher || this policy), summed over its decisions.
        """


def existing(sizes_B: Tensor, nodes: int) -> Tensor:
    """Which nodes of padded instances are real: [B, N]."""
    return torch.arange(nodes, device=sizes_B.device) < sizes_B[:, None]
