"""INViT: a small view of what is near, encoded anew at every step (Fang et al., 2024).

An action view holds the candidates, wider state views give context; each is moved and scaled to the unit square. So the
network never sees a whole instance, and its actions are slots: for CVRP first the depot, then the candidates from near
to far. Nothing is carried from step to step, so all states of finished tours are scored in parallel.

Shapes: B instances, P tours of each, T actions of a tour, S = T - 1 decisions, N nodes, R states, K slots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dree.problems import Instances, State, Tours
from dree.solvers.base import Score, Solver
from dree.solvers.capture import captured, taking_turns
from dree.solvers.chunks import Chunk, GradientSum, split
from dree.solvers.divergence import kl_divergence
from dree.solvers.invit_encoding import Neighbours
from dree.solvers.invit_network import INViTNetwork, INViTSettings
from dree.solvers.invit_rollout import CapturedSteps, Rollout
from dree.solvers.invit_views import Scene, look, sort_neighbours
from dree.solvers.precision import autocast_precision
from dree.solvers.sampling import uniform_numbers

CHUNK_BYTES = 32 * 2**20  # what is held at once on a CPU, about
CHUNK_SHARE = 10  # and on another device: one part in so many of its memory


class Beginning(NamedTuple):
    """What tours are made from."""

    instances: Instances
    starts: Tensor  # [B, P]
    neighbours: Neighbours
    uniform: Tensor | None = None  # [B, P, T] by which decisions are drawn; None: they are greedy


class INViT(Solver):
    """The invariant nested view transformer for TSP or CVRP."""

    settings_class = INViTSettings
    captures_itself = True
    learning: Mapping[str, Any] = {"optimiser": "adamw", "weight_decay": 0.01, "baseline": "greedy"}
    settings: INViTSettings

    def __init__(self, problem: str, settings: INViTSettings | None = None) -> None:
        super().__init__(problem, settings)
        self.network = INViTNetwork(self.rules.first_customer, self.settings)
        self._captured_steps = CapturedSteps()

    def capturable(self, nodes: int) -> bool:
        """On CUDA devices."""
        return self.network.pointer.weight.is_cuda

    def starts(self, instances: Instances, generator: torch.Generator | None = None) -> Tensor:
        """The depot, or of a TSP a random node (greedy: the first), or every customer, as the settings say."""
        if self.settings.starts == "all":
            return super().starts(instances, generator)
        if instances.demands is not None or generator is None:
            return torch.zeros(len(instances), 1, dtype=torch.int64, device=instances.device)
        return torch.randint(instances.nodes, (len(instances), 1), generator=generator, device=instances.device)

    def candidates(self, instances: Instances, state: State) -> Tensor:
        """For CVRP the depot; then the nearest nodes that may be next, and -1 where there are no more: [..., K]."""
        (left,) = self._left(instances, state.served.reshape(-1, 1))
        scene = _look(self.settings, instances, self.encode(instances), state.current, state, left)
        return scene.nodes.view(*state.current.shape, -1)

    def encode(self, instances: Instances) -> Neighbours:
        """Sort neighbours. Under autocast views will be encoded in low precision; log-probabilities need every bit."""
        self.check_fitting(instances)
        return Neighbours(sort_neighbours(instances), self.network, autocast_precision(instances.device))

    def solve(
        self,
        instances: Instances,
        starts: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
        encoding: Neighbours | None = None,
        record: bool = False,
    ) -> Tours:
        """Construct tours step by step: sampled with a generator, greedy without."""
        solving = INViT.solving(self, instances, starts, generator=generator, encoding=encoding, record=record)
        return taking_turns([solving], instances.device)[0]

    @torch.no_grad()
    def solving(
        self,
        instances: Instances,
        starts: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
        encoding: Neighbours | None = None,
        record: bool = False,
    ) -> Generator[None, None, Tours]:
        """The same; it pauses where a device is asked whether tours have ended."""
        neighbours = encoding or self.encode(instances)
        starts = self.starts(instances, generator) if starts is None else starts
        longest = self._longest(instances)
        uniform = None if generator is None else uniform_numbers(starts, longest, generator)
        weights = neighbours.weights()
        row_bytes = self.network.state_bytes(instances.customers, 1)  # nothing is kept of a layer
        chunks, parts = split(len(instances), starts.shape[1], row_bytes, self._budget(instances)), []
        for rows, columns in chunks:
            draws = None if uniform is None else uniform[rows, columns]
            begin = Beginning(instances[rows], starts[rows, columns], neighbours[rows], draws)
            parts.append((yield from self._roll(begin, weights)))
        actions = starts.new_zeros(*starts.shape, max(part.shape[-1] for part in parts))
        for (rows, columns), part in zip(chunks, parts, strict=True):
            actions[rows, columns, : part.shape[-1]] = part
        return Tours(actions, self.rules.cost(instances, actions))

    def _roll(self, begin: Beginning, weights: dict[str, Tensor]) -> Generator[None, None, Tensor]:
        """Tours from given starts: [B, P, T]."""
        if not (self.captures_itself and self.capturable(begin.instances.nodes)):
            rollout = self._rollout(begin, weights)
            return (yield from rollout.finish(lambda: rollout.step(rollout.left())))
        weights = {**dict(begin.neighbours.network.named_parameters()), **weights}
        fields, draws = begin.instances.tensors(), () if begin.uniform is None else (begin.uniform,)

        def make(given: tuple[Tensor, ...], own_weights: dict[str, Tensor]) -> Rollout:
            own, (starts, order, *uniform) = given[: len(fields)], given[len(fields) :]
            near = replace(begin.neighbours, order=order)
            return self._rollout(Beginning(Instances(*own), starts, near, *uniform), own_weights)

        inputs = (*fields, begin.starts, begin.neighbours.order, *draws)
        return (yield from self._captured_steps.run(inputs, weights, make, key=bool(draws)))

    def _rollout(self, begin: Beginning, weights: dict[str, Tensor]) -> Rollout:
        """Tours from given starts, at their beginning. It does not know this solver, which may keep it."""
        settings, (instances, starts, neighbours, uniform) = self.settings, begin

        def look_around(state: State, left: int) -> tuple[Tensor, Tensor]:
            scene = _look(settings, instances, neighbours, starts, state, left)
            return neighbours.policy(scene, weights).exp(), scene.nodes

        return Rollout(self.rules, instances, starts, self._longest(instances), uniform, look_around)

    def _longest(self, instances: Instances) -> int:
        """One more action than from a customer, where a tour may begin at the depot."""
        return self.rules.longest(instances) + self.rules.first_customer

    def score(
        self,
        instances: Instances,
        tours: Tours,
        weights_BP: Tensor | None = None,
        *,
        encoding: Neighbours | None = None,
    ) -> Score:
        """All decisions of all tours in parallel, in chunks. A tour that no slots can make has minus infinity."""
        weights = torch.ones_like(tours.costs) if weights_BP is None else weights_BP

        def log_prob(policy: Tensor, scene: Scene, taken: Tensor) -> Tensor:
            match = scene.nodes == taken[:, None]
            slot = match.to(torch.int8).argmax(1, keepdim=True)
            return policy.gather(1, slot).squeeze(1).masked_fill(~match.any(1), -math.inf)

        return self._sum(log_prob, encoding or self.encode(instances), instances, tours.actions, weights)

    def imitate(
        self, instances: Instances, tours: Tours, teacher: Neighbours, *, encoding: Neighbours | None = None
    ) -> Score:
        """Both policies at all decisions of all tours in parallel, in chunks."""

        def distance(policy: Tensor, scene: Scene, _: Tensor) -> Tensor:
            with torch.no_grad():
                target = teacher.policy(scene)
            return kl_divergence(policy, target, dims=1)

        ones = torch.ones_like(tours.costs)
        return self._sum(distance, encoding or self.encode(instances), instances, tours.actions, ones)

    def _sum(
        self,
        measure: Callable[[Tensor, Scene, Tensor], Tensor],
        neighbours: Neighbours,
        instances: Instances,
        actions_BPT: Tensor,
        weights_BP: Tensor,
    ) -> Score:
        """A measure of the policies [R, K] of all states, given the actions taken there [R], summed over each tour."""
        total = GradientSum(list(self.parameters()))
        per_tour = torch.zeros_like(weights_BP)
        for chunk, steps, scene in self._passes(neighbours, instances, actions_BPT):
            taken = actions_BPT[chunk][..., 1:][..., steps]
            value = measure(neighbours.policy(scene), scene, taken.flatten()).view_as(taken).sum(-1)
            total.add((value * weights_BP[chunk]).sum())
            per_tour[chunk] += value.detach()
        return Score(per_tour, total.value())

    def behave(self, instances: Instances, tours: Tours, *, encoding: Neighbours | None = None) -> Tensor:
        """The policy at every state of one tour per instance."""
        if tours.actions.shape[1] != 1:
            raise ValueError(f"behave takes one tour per instance, not {tours.actions.shape[1]}")
        neighbours = encoding or self.encode(instances)
        passes = list(self._passes(neighbours, instances, tours.actions))
        policies = neighbours.policies([scene for _, _, scene in passes])
        found: dict[int, list[Tensor]] = {}
        for ((rows, _), _, _), policy in zip(passes, policies, strict=True):
            found.setdefault(rows.start, []).append(policy.view(rows.stop - rows.start, -1, self.network.slots))
        return torch.cat([torch.cat(of_rows, dim=1) for of_rows in found.values()])

    def decide(
        self, instances: Instances, starts_BP: Tensor, state: State, *, encoding: Neighbours | None = None
    ) -> Tensor:
        """The policy at the given states."""
        neighbours = encoding or self.encode(instances)
        (left,) = self._left(instances, state.served.reshape(-1, 1))
        scene = _look(self.settings, instances, neighbours, starts_BP, state, left)
        count = self._budget(instances) // self._state_bytes(neighbours, left)
        return torch.cat(neighbours.policies(scene.parts(max(1, count)))).view(*starts_BP.shape, -1)

    def _passes(
        self, neighbours: Neighbours, instances: Instances, actions_BPT: Tensor
    ) -> Iterator[tuple[Chunk, slice, Scene]]:
        """All states before actions 1 to T - 1 of finished tours, as some decisions of some tours at a time.

        Decisions go together with those that are as late, when as few customers are left.
        """
        budget, decisions = self._budget(instances), actions_BPT.shape[2] - 1
        tour_bytes = max(self._state_bytes(neighbours, instances.customers), 4 * decisions * instances.nodes)
        for chunk in split(len(instances), actions_BPT.shape[1], tour_bytes, budget):
            some, near, actions = instances[chunk[0]], neighbours[chunk[0]], actions_BPT[chunk]
            starts, states = actions[..., :1], self.rules.hindsight(some, actions)
            left = self._left(some, states.served.flatten(0, 1))
            begin = 0
            while begin < decisions:
                count = budget // (starts.numel() * self._state_bytes(neighbours, left[begin]))
                steps = slice(begin, min(begin + max(1, count), decisions))
                state = states.map(partial(_steps, steps))
                scene = _look(self.settings, some, near, starts.expand_as(state.current), state, left[begin])
                yield chunk, steps, scene
                begin = steps.stop

    def _left(self, instances: Instances, served_XS: Tensor) -> list[int]:
        """How many customers are left at most at each of S decisions, of X tours, or later.

        Of all decisions at once, because asking a device means waiting for it.
        """
        if captured(instances.device):  # every second action of a tour that is not finished serves one, at least
            actions = range(1, served_XS.shape[1] + 1)
            least = [acted // (1 + self.rules.first_customer) for acted in actions]
        else:
            least = served_XS.amin(0).tolist()
        return [max(1, instances.customers - served) for served in least]

    def _state_bytes(self, neighbours: Neighbours, left: int) -> int:
        """About what scoring a state holds, with so many customers left."""
        return self.network.state_bytes(left, (neighbours.low or neighbours.network.pointer.weight.dtype).itemsize)

    def _budget(self, instances: Instances) -> int:
        return self.settings.chunk_bytes or _chunk_bytes(instances.device)


@cache
def _chunk_bytes(device: torch.device) -> int:
    """What suits a device: many passes over few states wait for their launches, not for their work."""
    if device.type == "cpu":
        return CHUNK_BYTES
    return int(torch.cuda.get_device_properties(device).total_memory) // CHUNK_SHARE


def _steps(steps: slice, of_all: Tensor) -> Tensor:
    return of_all[:, :, steps]


def _look(
    settings: INViTSettings, instances: Instances, neighbours: Neighbours, starts: Tensor, state: State, left: int
) -> Scene:
    """What is seen at some states [B, ...] of tours from given starts, with at most so many customers left."""
    depth = state.current.ndim - 1
    state = state.map(lambda tensor: tensor.flatten(1, depth))
    order, slots, strict = neighbours.order, settings.action_view, settings.strict_capacity
    others = max(settings.state_views) - slots
    return look(instances, order, starts.flatten(1), state, left=left, slots=slots, others=others, strict=strict)
