"""POMO: an attention encoder, and a decoder that points at the next node (Kwon et al., 2020).

Shapes: B instances, P tours of each, T actions of a tour, S = T - 1 decisions, N nodes, D width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from dree.errors import DreeError
from dree.problems import Instances, State, Tours
from dree.settings import check_types
from dree.solvers.base import Score, Solver
from dree.solvers.chunks import Chunk, split, sum_in_chunks, with_gradient
from dree.solvers.decoding import ENDLESS, Decoder, kernels_serve, make_decoder
from dree.solvers.divergence import kl_divergence
from dree.solvers.layers import EncoderLayer, NodeNorm
from dree.solvers.precision import autocast_precision, lowered
from dree.solvers.products import linear
from dree.solvers.sampling import sample, uniform_numbers

# Of each kind of float, integers as wide, and the one with the bits of minus infinity.
MINUS_INFINITY = {
    torch.float64: (torch.int64, -(1 << 52)),
    torch.float32: (torch.int32, -(1 << 23)),
    torch.bfloat16: (torch.int16, -(1 << 7)),
    torch.float16: (torch.int16, -(1 << 10)),
}
CHUNK_BYTES = {"cpu": 8 * 2**20, "cuda": 2**30}  # fastest: what stays in the cache; what fills the device


@dataclass(frozen=True)
class POMOSettings:
    """The size of the network. The defaults are the paper's."""

    width: int = 128
    heads: int = 8
    layers: int = 6
    feed_forward: int = 512
    clip: float = 10.0
    chunk_bytes: int | None = None  # what scoring in chunks may hold at once, about; None: what suits the device

    retired: ClassVar[tuple[str, ...]] = ("tape_bytes",)

    def __post_init__(self) -> None:
        """Refuse sizes that make no network."""
        check_types(self)
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not 0 < value < math.inf:
                raise DreeError(f"Solver setting '{field.name}' must be positive, not {value}.")
        if self.width % self.heads:
            raise DreeError(f"Solver width {self.width} must be a multiple of its heads, {self.heads}.")


class POMO(Solver):
    """The policy optimisation with multiple optima network for TSP or CVRP."""

    settings_class = POMOSettings
    settings: POMOSettings
    norm: ClassVar[type[NodeNorm]] = NodeNorm  # of the encoder
    mixes_sizes = True

    def __init__(self, problem: str, settings: POMOSettings | None = None) -> None:
        super().__init__(problem, settings)
        settings = self.settings
        width = settings.width
        if problem == "tsp":
            self.embed = nn.Linear(2, width)
            self.query_first = nn.Linear(width, width, bias=False)
            self.query_last = nn.Linear(width, width, bias=False)
        else:
            self.embed_depot = nn.Linear(2, width)
            self.embed = nn.Linear(3, width)
            self.query_last = nn.Linear(width + 1, width, bias=False)  # the last column is the load's
        self.layers = nn.ModuleList(
            EncoderLayer(width, settings.heads, settings.feed_forward, self.norm) for _ in range(settings.layers)
        )
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.combine = nn.Linear(width, width)

    def capturable(self, nodes: int) -> bool:
        """Where kernels serve."""
        width, heads, clip = self.settings.width, self.settings.heads, self.settings.clip
        return kernels_serve(self.key.weight.device, nodes, width // heads, clip)

    def embedding(self, instances: Instances) -> Tensor:
        """The nodes as the encoder sees them first: [B, N, D]."""
        self.check_fitting(instances)
        coords = instances.coords
        if instances.demands is None or instances.capacity is None:
            embedded: Tensor = self.embed(coords)
            return embedded
        share = (instances.demands / instances.capacity[:, None])[..., None].to(coords.dtype)
        customers = torch.cat([coords, share], dim=-1)[:, 1:]
        return torch.cat([self.embed_depot(coords[:, :1]), self.embed(customers)], dim=1)

    def encode(self, instances: Instances, sizes_B: Tensor | None = None) -> Decoder:
        """Run the encoder, and of the decoder everything that does not depend on decisions.

        Under autocast the encoder runs in low precision, and on CUDA devices what kernels read of the nodes;
        log-probabilities need every bit.
        """
        with torch.autocast(instances.device.type, enabled=False):
            nodes_BND = self.embedding(instances)
        low = autocast_precision(instances.device)
        if nodes_BND.is_cuda and low is not None:
            nodes_BND = nodes_BND.to(low)
        for layer, weights in zip(self.layers, self._layer_weights(low), strict=True):
            nodes_BND = functional_call(layer, weights, (nodes_BND, sizes_B))
        if self.capturable(instances.nodes):
            from dree.solvers.kernel_decoder import KernelDecoder

            return KernelDecoder(self.settings.heads, self._project(nodes_BND))
        with torch.autocast(instances.device.type, enabled=False):
            return make_decoder(self.settings.heads, *self._project(nodes_BND.to(instances.coords.dtype)))

    def encode_padded(self, instances: Instances, sizes_B: Tensor) -> Decoder:
        """The same, but that nodes which do not exist are not looked at."""
        return self.encode(instances, sizes_B)

    def _layer_weights(self, low: torch.dtype | None) -> list[dict[str, Tensor]]:
        """Of each layer, the weights of its products in low precision, where one is wanted."""
        products = [layer.products() for layer in self.layers if isinstance(layer, EncoderLayer)]
        if low is None or self.key.weight.dtype == torch.float64:  # which autocast leaves alone
            return [{} for _ in products]
        cast = iter(lowered([weight for weights in products for weight in weights.values()], low))
        return [{name: next(cast) for name in weights} for weights in products]

    def _project(self, nodes_BND: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The decoder's linear maps of the nodes as one product, what a full load adds to queries, and offsets.

        Of a node [B, N, G, D]: its query as last node, key and value for the attention; what the attended values are
        compared with, their output projection included; and for TSP its query as start. Both scales of the scores,
        one over a square root, are part of the maps.
        """
        width, heads = self.settings.width, self.settings.heads
        of_node, of_load = self.query_last.weight.tensor_split([width], dim=1)
        maps = [of_node, self.key.weight / math.sqrt(width // heads), self.value.weight]
        maps.append(self.combine.weight.T / math.sqrt(width))
        if self.rules.name == "tsp":
            maps.append(self.query_first.weight)
        packed = linear(nodes_BND, torch.cat(maps)).view(*nodes_BND.shape[:2], -1, width)
        with torch.autocast(nodes_BND.device.type, enabled=False):
            bias = self.combine.bias / math.sqrt(width)
            offset = nodes_BND.to(bias.dtype) @ bias
        return packed, of_load.T.expand(len(nodes_BND), -1, -1).contiguous(), offset

    @torch.no_grad()
    def solve(
        self,
        instances: Instances,
        starts: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
        encoding: Decoder | None = None,
        record: bool = False,
    ) -> Tours:
        """Construct tours step by step: sampled with a generator, greedy without."""
        decoder = encoding or self.encode(instances)
        starts = self.starts(instances, generator) if starts is None else starts
        longest = self.rules.longest(instances)
        at_once = decoder.rollout(instances, starts, longest, self.settings.clip, generator, record=record)
        if at_once is not None:
            at_once_actions, decoder.recorded = at_once
            return Tours(at_once_actions, self.rules.cost(instances, at_once_actions))
        state = self.rules.begin(instances, starts)
        context = decoder.context(starts)
        drawn = None if generator is None else uniform_numbers(starts, longest, generator)
        actions = [starts]
        policy = context  # of the last decision
        while len(actions) < self.rules.shortest(instances) or not self.rules.finished(instances, state).all():
            if len(actions) > longest:
                raise DreeError(ENDLESS)
            share, mask = _view(instances, state, decoder.dtype)
            clipped = decoder.scores(state.current, context, share, mask).tanh_()
            policy = mask.add(clipped, alpha=self.settings.clip).softmax(-1)
            step = len(actions)
            action = policy.argmax(-1) if drawn is None else sample(policy, drawn[..., step - 1 : step])
            state = self.rules.advance(instances, state, action)
            actions.append(action)
        if not record and policy.isnan().any():  # a loss will not be finite, that is enough
            raise DreeError(ENDLESS)
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
        at_once = decoder.score(instances, actions, weights, self.settings.clip)
        if at_once is not None:
            per_tour, gradients = at_once
            return Score(per_tour, with_gradient((per_tour * weights).sum(), decoder.tensors, gradients))

        def log_prob(policy: Tensor, chunk: Chunk) -> Tensor:
            return policy.gather(-1, actions[chunk][..., 1:, None]).squeeze(-1).sum(-1)

        return self._sum(log_prob, decoder, instances, actions, weights)

    def imitate(
        self, instances: Instances, tours: Tours, teacher: Decoder, *, encoding: Decoder | None = None
    ) -> Score:
        """Both policies at all decisions of all tours in parallel, at once or in chunks."""
        decoder = encoding or self.encode(instances)
        actions = tours.actions
        at_once = decoder.imitate(instances, actions, teacher, self.settings.clip)
        if at_once is not None:
            per_tour, gradients = at_once
            return Score(per_tour, with_gradient(per_tour.sum(), decoder.tensors, gradients))

        def distance(policy: Tensor, chunk: Chunk) -> Tensor:
            rows, _ = chunk
            with torch.no_grad():
                target = self._hindsight(teacher[rows], instances[rows], actions[chunk])
            return kl_divergence(policy, target, dims=2)

        return self._sum(distance, decoder, instances, actions, torch.ones_like(tours.costs))

    def _sum(
        self,
        measure: Callable[[Tensor, Chunk], Tensor],
        decoder: Decoder,
        instances: Instances,
        actions: Tensor,
        weights: Tensor,
    ) -> Score:
        """A measure of the policies [B, P, S, N] of all tours, one number for each tour, in chunks."""

        def term(chunk: Chunk, tensors: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
            measured = measure(self._hindsight(decoder.part(tensors), instances[chunk[0]], actions[chunk]), chunk)
            return (measured * weights[chunk]).sum(), measured.detach()

        # About what one tour holds: a few floats per state, node and head.
        tour_bytes = 4 * actions.shape[-1] * instances.nodes * (self.settings.heads + 8)
        budget = self.settings.chunk_bytes or CHUNK_BYTES[instances.device.type]
        chunks = split(len(instances), actions.shape[1], tour_bytes, budget)
        weighted, per_tour = sum_in_chunks(term, chunks, decoder.tensors)
        return Score(per_tour, weighted)

    def behave(self, instances: Instances, tours: Tours, *, encoding: Decoder | None = None) -> Tensor:
        """The policy at every state of one tour per instance."""
        if tours.actions.shape[1] != 1:
            raise ValueError(f"behave takes one tour per instance, not {tours.actions.shape[1]}")
        return self._hindsight(encoding or self.encode(instances), instances, tours.actions).squeeze(1)

    def decide(
        self, instances: Instances, starts_BP: Tensor, state: State, *, encoding: Decoder | None = None
    ) -> Tensor:
        """The policy at the given states."""
        decoder = encoding or self.encode(instances)
        return self._logits(decoder, instances, state, decoder.context(starts_BP)).log_softmax(-1)

    def _hindsight(self, decoder: Decoder, instances: Instances, actions_BPT: Tensor) -> Tensor:
        """The log-policy before actions 1 to T - 1 of finished tours: [B, P, S, N]."""
        states = self.rules.hindsight(instances, actions_BPT)
        return self._logits(decoder, instances, states, decoder.context(actions_BPT[..., 0])).log_softmax(-1)

    def _logits(self, decoder: Decoder, instances: Instances, state: State, context: Tensor) -> Tensor:
        """Clipped and masked scores of the next node: [..., N] for a state of shape [...]."""
        share, mask = _view(instances, state, decoder.dtype)
        scores = decoder.scores(state.current.flatten(1), context, share, mask)
        return mask.add(scores.tanh(), alpha=self.settings.clip).view(state.blocked.shape)


def _view(instances: Instances, state: State, dtype: torch.dtype) -> tuple[Tensor | None, Tensor]:
    """What a decoder wants to know of states: their load as a share of the capacity, and an additive mask."""
    blocked_BXN = state.blocked.flatten(1, -2)
    integer, bits = MINUS_INFINITY[dtype]
    mask = blocked_BXN.to(integer).mul_(bits).view(dtype)  # filling or choosing would be far slower
    if state.load is None or instances.capacity is None:
        return None, mask
    return (state.load.flatten(1) / instances.capacity[:, None]).to(dtype), mask
