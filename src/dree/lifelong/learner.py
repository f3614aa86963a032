"""The learner: the paper's Algorithm 1 for any solver and any method.

One call of `learn` is one iteration: solve a batch, take its loss, which is the solver's own and the method's pull, add
what the method replays, make one step of the optimiser, and let the method remember.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dree.errors import DreeError
from dree.lifelong.baseline import GreedyBaseline, mean_over_copies
from dree.lifelong.flat import FlatParameters
from dree.lifelong.graphs import Graphs, Work
from dree.lifelong.learning import OPTIMISERS, LearnerSettings
from dree.lifelong.methods import Lesson, Method, checked_loss, checked_state, in_hook
from dree.lifelong.parallel import Together
from dree.problems import Instances, Tours, augment
from dree.randomness import named_generator, named_seed
from dree.settings import build
from dree.solvers import Solver
from dree.solvers.capture import taking_turns
from dree.solvers.chunks import with_gradient
from dree.solvers.precision import in_precision
from dree.tasks import Stream


@dataclass(frozen=True)
class Progress:
    """What a batch showed, as tensors, so that looking at them is the caller's choice."""

    loss: Tensor  # scalar
    cost: Tensor  # scalar: mean over instances of the best tour found
    own: Tensor  # scalar: the loss without what was replayed, of this process alone


class Learner:
    """A solver, a method, an optimiser and a seed."""

    optimiser: torch.optim.Adam  # or AdamW, which derives from it

    def __init__(self, solver: Solver, method: Method, settings: LearnerSettings | None = None, seed: int = 0) -> None:
        self.solver = solver
        self.method = method
        self._settings = settings = settings or build(LearnerSettings, solver.learning)
        self.seed = seed
        self.batches = 0  # learned so far
        self.together = Together()  # with other processes, where there are several
        self.device = next(solver.parameters()).device
        self.baseline = GreedyBaseline(solver) if settings.baseline == "greedy" else None
        self._flat = FlatParameters(solver)
        self._graphs = Graphs(self._flat) if self.device.type == "cuda" else None
        self._pull: Callable[[Lesson], Tensor] | None = None  # the method's, when a lesson was last captured
        self.best_only = self._graphs is not None and not method.whole_lessons  # what `attempt` gives of a lesson
        self.lost_start = ""  # why the weights it began with are not known, where they are not
        self._first_weights = {name: tensor.clone() for name, tensor in solver.state_dict().items()}
        self.renew_optimiser()

    @property
    def settings(self) -> LearnerSettings:
        """Those it was made with: they cannot be changed."""
        return self._settings

    @property
    def proven(self) -> Solver:
        """What is tested and used: the solver or, with a greedy baseline, its copy, which only better ones replace."""
        return self.solver if self.baseline is None else self.baseline.solver

    def learn(self, new: Instances) -> Progress:
        """Learn one batch of new instances; of several processes that are given the same one, each its share."""
        if self._graphs is not None:
            self._graphs.begin()
        lesson = self.attempt(self.together.share(new), "solve")
        own = loss = self.loss(lesson)
        with in_hook(self.method, "replay"):
            replayed = self.method.replay(self, lesson)
        if replayed is not None:
            loss = own + checked_loss(self.method, "replay", replayed)
        self._flat.clear_gradient()
        loss.backward()  # type: ignore[no-untyped-call]
        self.together.average(self._flat.gradient)
        self.optimiser.step()
        with in_hook(self.method, "remember"):
            self.method.remember(self, lesson)
        self.batches += 1
        _, best = lesson.best()
        return Progress(self.together.mean(loss.detach()), self.together.mean(best.costs.mean()), own.detach())

    def attempt(self, instances: Instances, purpose: str) -> Lesson:
        """Solve a batch and its symmetric copies by sampling, ready to be learned."""
        instances = instances.to(self.device)
        if not self.best_only:
            return self._solve(instances, self.generator(purpose))

        def work(generator: torch.Generator, given: Instances) -> tuple[Tensor, Lesson]:
            lesson = self._solve(given, generator)
            return self.loss(lesson), lesson.best_only(self.solver)

        if self.solver.captures_itself:
            loss, best = work(self.generator(purpose), instances)
            # At once: what is captured in between must meet nothing that belongs to work outside of it.
            loss = with_gradient(loss.detach(), [self._flat.weights], [self._flat.gradient_of(loss)])
        else:
            self._forget_captures_of_another_pull()
            loss, best = self.differentiate("attempt", work, instances, purpose=purpose)
        return replace(best, loss=loss)

    def _forget_captures_of_another_pull(self) -> None:
        """What was captured with one pull does not serve for another."""
        with in_hook(self.method, "pull"):
            pull = self.method.pull(self)
        if self._graphs is not None and pull != self._pull:
            self._graphs.forget()
        self._pull = pull

    def _solve(self, instances: Instances, generator: torch.Generator) -> Lesson:
        """Tours of a batch and its symmetric copies, sampled."""
        copies = self.settings.augmentation
        augmented = augment(instances, copies)
        encoding = self.encode(augmented)
        solving = self.solver.solving(augmented, generator=generator, encoding=encoding, record=True)
        if self.baseline is not None:
            comparison = self.baseline.solving(self, augmented, generator)
            tours, greedy = taking_turns([solving, comparison], self.device)
            return Lesson(augmented, tours, encoding, copies, greedy.costs)
        (tours,) = taking_turns([solving], self.device)
        if self.settings.baseline == "copies":
            return Lesson(augmented, tours, encoding, copies, mean_over_copies(tours, copies))
        if tours.costs.shape[1] == 1 and instances.customers > 1:
            raise DreeError(
                "A shared baseline compares the tours of an instance with each other, and this solver makes only one "
                "of each. Set learner.baseline to greedy, or to copies with learner.augmentation 8; or, for INViT, "
                "solver.starts to all."
            )
        return Lesson(augmented, tours, encoding, copies)

    def begin(self, stream: Stream, epoch: int) -> None:
        """An epoch of a stream begins. Where another task has come to stay, the optimiser is a new one."""
        if epoch > 1 and stream.begins(epoch) and not stream.ends(epoch):
            self.renew_optimiser()
        with in_hook(self.method, "begin"):
            self.method.begin(self, stream, epoch)

    def end(self, stream: Stream, epoch: int) -> None:
        """An epoch is over."""
        with in_hook(self.method, "end"):
            self.method.end(self, stream, epoch)
        if self.baseline is not None:
            generator = named_generator(self.seed, "baseline", epoch, device=self.device)
            self.baseline.test(self, stream.task(epoch), generator)

    def loss(self, lesson: Lesson) -> Tensor:
        """A lesson's own loss: the base solver's and, where the method has one, its pull."""
        if lesson.loss is not None:
            return lesson.loss
        loss = reinforce(self.solver, lesson)
        with in_hook(self.method, "pull"):
            pull = self.method.pull(self)
            return loss if pull is None else loss + checked_loss(self.method, "pull", pull(lesson))

    def differentiate(
        self, name: str, work: Work, instances: Instances, *inputs: Tensor, purpose: str = ""
    ) -> tuple[Any, ...]:
        """What some work returns for some instances and inputs, the first of it being a scalar with gradient.

        The work is given a generator, then these. On a CUDA device it is captured once for each shape of them and
        replayed after that: it must depend on nothing but them, the generator, the solver's weights and tensors that
        stay in place, and what it returns must be tensors or be able to `map` their tensors.
        """
        (result,) = self.differentiate_each(name, work, [(instances, inputs)], purpose)
        return result

    def differentiate_each(
        self, name: str, work: Work, pieces: Sequence[tuple[Instances, tuple[Tensor, ...]]], purpose: str = ""
    ) -> list[tuple[Any, ...]]:
        """The same for several batches and their inputs; on a CUDA device, some of them side by side."""
        if self._graphs is None or not all(self.captures(instances.nodes) for instances, _ in pieces):
            return [work(self.generator(purpose), instances, *inputs) for instances, inputs in pieces]
        fields = len(pieces[0][0].tensors())

        def on_tensors(generator: torch.Generator, *tensors: Tensor) -> tuple[Any, ...]:
            return work(generator, Instances(*tensors[:fields]), *tensors[fields:])

        tensors = [(*instances.tensors(), *inputs) for instances, inputs in pieces]
        return self._graphs.differentiate(name, on_tensors, tensors, named_seed(self.seed, *self._draw(purpose)))

    def beside(self) -> AbstractContextManager[None]:
        """For what a method does in `replay` that needs nothing of the lesson: a CUDA device does both side by side."""
        return nullcontext() if self._graphs is None else self._graphs.beside()

    def encode(self, instances: Instances, solver: Solver | None = None) -> Any:
        """The solver's encoding (or another solver's) in the learner's precision, with gradient."""
        with in_precision(self.settings.precision, self.device, learning=True):
            return (solver or self.solver).encode(instances)

    def encode_padded(self, instances: Instances, sizes_B: Tensor) -> Any:
        """The same of instances of several sizes padded to one, where the solver mixes sizes."""
        with in_precision(self.settings.precision, self.device, learning=True):
            return self.solver.encode_padded(instances, sizes_B)

    def captures(self, nodes: int) -> bool:
        """Whether `differentiate` captures work on instances of so many nodes."""
        return self._graphs is not None and self.best_only and self.solver.capturable(nodes)

    def generator(self, purpose: str) -> torch.Generator:
        """The generator of this batch for one purpose; each of several processes has its own."""
        return named_generator(self.seed, *self._draw(purpose), device=self.device)

    def _draw(self, purpose: str) -> tuple[str | int, ...]:
        rank = self.together.rank
        return (purpose, self.batches, rank) if rank else (purpose, self.batches)

    def chance(self, purpose: str) -> torch.Generator:
        """The same for decisions that are made on the host, whatever the device, and in all processes alike."""
        return named_generator(self.seed, purpose, self.batches)

    def restart(self) -> None:
        """Forget everything: the first weights again, and a new optimiser."""
        if self.lost_start:
            raise DreeError(self.lost_start)
        self.solver.load_state_dict(self._first_weights)
        if self.baseline is not None:
            self.baseline.load_state_dict(self._first_weights)
        self.renew_optimiser()

    def renew_optimiser(self) -> None:
        """An optimiser without memory of earlier gradients."""
        rate, decay = self.settings.learning_rate, self.settings.weight_decay
        kind = OPTIMISERS[self.settings.optimiser]
        self.optimiser = kind([self._flat.weights], lr=rate, weight_decay=decay, fused=True)

    def state_dict(self) -> dict[str, Any]:
        """Everything that must survive an interruption, as tensors and plain values."""
        with in_hook(self.method, "state_dict"):
            method = checked_state(self.method, self.method.state_dict())
        return {
            "batches": self.batches,
            "solver": self.solver.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "method": method,
            "baseline": {} if self.baseline is None else self.baseline.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where an earlier `state_dict` was taken."""
        self.batches = state["batches"]
        self.solver.load_state_dict(state["solver"])
        self.optimiser.load_state_dict(state["optimiser"])
        with in_hook(self.method, "load_state_dict"):
            self.method.load_state_dict(state["method"], self)
        if self.baseline is not None:
            self.baseline.load_state_dict(state["baseline"])


def reinforce(solver: Solver, lesson: Lesson) -> Tensor:
    """The base solvers' loss: REINFORCE with the lesson's baseline or, where it has none, the shared one."""
    tours, baseline = lesson.tours, lesson.baseline
    advantage = shared_baseline(tours) if baseline is None else tours.costs - baseline
    return solver.score(lesson.instances, tours, advantage / advantage.numel(), encoding=lesson.encoding).weighted


def shared_baseline(tours: Tours) -> Tensor:
    """How much worse each tour is than the mean of its instance's: [B, P]."""
    return tours.costs - tours.costs.mean(1, keepdim=True)
