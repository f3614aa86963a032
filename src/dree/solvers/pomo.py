"""POMO: an attention encoder, and a decoder that points at the next node (Kwon et al., 2020).

Shapes: B instances, P tours of each, T actions of a tour, S = T - 1 decisions, N nodes, D width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from dree.errors import DreeError
from dree.problems import Instances, State, Tours, rules
from dree.solvers.base import Score, Solver
from dree.solvers.chunks import Chunk, split, sum_in_chunks
from dree.solvers.decoding import Decoder, Projections, make_decoder
from dree.solvers.layers import EncoderLayer


@dataclass(frozen=True)
class POMOSettings:
    """The size of the network. The defaults are the paper's."""

    width: int = 128
    heads: int = 8
    layers: int = 6
    feed_forward: int = 512
    clip: float = 10.0
    chunk_bytes: int = 8 * 2**20  # what scoring may hold at once, about: what stays in the cache is fastest

    def __post_init__(self) -> None:
        """Refuse sizes that make no network."""
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise DreeError(f"Solver setting '{field.name}' must be positive.")
        if self.width % self.heads:
            raise DreeError(f"Solver width {self.width} must be a multiple of its heads, {self.heads}.")


class POMO(Solver):
    """The policy optimisation with multiple optima network for TSP or CVRP."""

    def __init__(self, problem: str, settings: POMOSettings | None = None) -> None:
        super().__init__()
        self.rules = rules(problem)
        self.settings = settings = settings or POMOSettings()
        width = settings.width
        if problem == "tsp":
            self.embed = nn.Linear(2, width)
            self.query_first = nn.Linear(width, width, bias=False)
        else:
            self.embed_depot = nn.Linear(2, width)
            self.embed = nn.Linear(3, width)
            self.query_load = nn.Linear(1, width, bias=False)
        self.layers = nn.ModuleList(
            EncoderLayer(width, settings.heads, settings.feed_forward) for _ in range(settings.layers)
        )
        self.query_last = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.combine = nn.Linear(width, width)

    def embedding(self, instances: Instances) -> Tensor:
        """The nodes as the encoder sees them first: [B, N, D]."""
        if instances.problem != self.rules.name:
            raise DreeError(f"This solver was made for {self.rules.name}, these instances are {instances.problem}.")
        coords = instances.coords
        if instances.demands is None or instances.capacity is None:
            embedded: Tensor = self.embed(coords)
            return embedded
        share = (instances.demands / instances.capacity[:, None])[..., None]
        customers = torch.cat([coords, share], dim=-1)[:, 1:]
        return torch.cat([self.embed_depot(coords[:, :1]), self.embed(customers)], dim=1)

    def encode(self, instances: Instances) -> Decoder:
        """Run the encoder, and of the decoder everything that does not depend on decisions."""
        nodes_BND = self.embedding(instances)
        for layer in self.layers:
            nodes_BND = layer(nodes_BND)
        scaled = nodes_BND / math.sqrt(self.settings.width)
        if instances.problem == "tsp":
            context = self.query_first(nodes_BND)
        else:
            context = self.query_load.weight.T.expand(len(instances), 1, -1)
        projections = Projections(
            last=self.query_last(nodes_BND),
            context=context,
            keys=self.key(nodes_BND),
            values=self.value(nodes_BND),
            pointer=scaled @ self.combine.weight,
            offset=scaled @ self.combine.bias,
        )
        return make_decoder(self.settings.heads, projections)

    @torch.no_grad()
    def solve(
        self,
        instances: Instances,
        starts: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
        encoding: Decoder | None = None,
    ) -> Tours:
        """Construct tours step by step: sampled with a generator, greedy without."""
        decoder = encoding or self.encode(instances)
        starts = self.rules.starts(instances) if starts is None else starts
        state = self.rules.begin(instances, starts)
        context = decoder.context(starts)
        actions = [starts]
        while len(actions) < self.rules.shortest(instances) or not self.rules.finished(instances, state).all():
            action = _pick(self._logits(decoder, instances, state, context), generator)
            state = self.rules.advance(instances, state, action)
            actions.append(action)
        tours = torch.stack(actions, dim=-1)
        return Tours(tours, self.rules.cost(instances, tours))

    def score(
        self,
        instances: Instances,
        tours: Tours,
        weights_BP: Tensor | None = None,
        *,
        encoding: Decoder | None = None,
    ) -> Score:
        """All decisions of all tours in parallel, in chunks."""
        decoder = encoding or self.encode(instances)
        actions = tours.actions
        weights = torch.ones_like(tours.costs) if weights_BP is None else weights_BP

        def term(chunk: Chunk, tensors: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
            rows, columns = chunk
            taken = actions[rows, columns]
            policy = self._hindsight(decoder.part(tensors), instances[rows], taken)
            log_prob = policy.gather(-1, taken[..., 1:, None]).squeeze(-1).sum(-1)
            return (log_prob * weights[rows, columns]).sum(), log_prob.detach()

        # About what one tour holds: a few floats per state, node and head.
        tour_bytes = 4 * actions.shape[-1] * instances.nodes * (self.settings.heads + 8)
        chunks = split(len(instances), actions.shape[1], tour_bytes, self.settings.chunk_bytes)
        weighted, log_prob = sum_in_chunks(term, chunks, decoder.tensors)
        return Score(log_prob, weighted)

    def behave(self, instances: Instances, tours: Tours, *, encoding: Decoder | None = None) -> Tensor:
        """The policy at every state of one tour per instance."""
        if tours.actions.shape[1] != 1:
            raise ValueError(f"behave takes one tour per instance, not {tours.actions.shape[1]}")
        return self._hindsight(encoding or self.encode(instances), instances, tours.actions).squeeze(1)

    def _hindsight(self, decoder: Decoder, instances: Instances, actions_BPT: Tensor) -> Tensor:
        """The log-policy before actions 1 to T - 1 of finished tours: [B, P, S, N]."""
        states = self.rules.hindsight(instances, actions_BPT)
        return self._logits(decoder, instances, states, decoder.context(actions_BPT[..., 0])).log_softmax(-1)

    def _logits(self, decoder: Decoder, instances: Instances, state: State, context: Tensor) -> Tensor:
        """Clipped and masked scores of the next node: [..., N] for a state of shape [...]."""
        shape = state.blocked.shape
        zero = decoder.tensors[0].new_zeros(())
        mask = torch.where(state.blocked, zero - math.inf, zero).view(shape[0], -1, shape[-1])
        share = None
        if state.load is not None and instances.capacity is not None:
            share = (state.load.flatten(1) / instances.capacity[:, None]).to(mask.dtype)
        scores = decoder.scores(state.current.flatten(1), context, share, mask)
        return (scores.tanh() * self.settings.clip + mask).view(shape)


def _pick(logits_BPN: Tensor, generator: torch.Generator | None) -> Tensor:
    """The most likely action, or a sampled one (the first arrival of exponential clocks)."""
    if generator is None:
        return logits_BPN.argmax(-1)
    uniform = torch.rand(logits_BPN.shape, generator=generator, device=logits_BPN.device)
    clocks = uniform.clamp_min_(2**-24).neg_().log1p_().neg_()  # never 0, whose logarithm would win or be NaN
    return logits_BPN.sub(clocks.log_()).argmax(-1)
