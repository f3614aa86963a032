"""The six laws by which nodes, and for CVRP their demands, are drawn.

Every law has two specifications: `text`, what the paper says (and the official code where it is silent), and
`official`, what the code released with LLR-BC does. Demands are rounded half up. Everything is tensor
operations on whole batches on the generator's device, without waiting for a result on the host.

Shapes: B instances, n nodes of one law, M nodes drawn where they are more than the n that are kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from dree.errors import DreeError, unknown
from dree.registry import named_class
from dree.tasks.dice import Dice
from dree.tasks.shapes import explode, grid, heights, min_max, min_max_within, move_across, polar

SPECS = ("text", "official")
LOWEST, HIGHEST = 1, 10  # customary demands


@dataclass(frozen=True)
class Placement:
    """Where a law put its nodes, and what it has to remember to give them demands."""

    coords: Tensor  # [B, n, 2] float32
    reach: Tensor | None = None  # Gaussian mixture: how far out in its cluster each node lies, 0 to 1


class Law(ABC):
    """A distribution of nodes in the unit square and of their demands."""

    title: str
    size: int  # the paper's scale for this law

    @abstractmethod
    def draw(
        self, batch: int, n: int, generator: torch.Generator, depot_B2: Tensor | None = None, spec: str = "text"
    ) -> tuple[Tensor, Tensor | None]:
        """Coordinates [B, n, 2] and, given depots (so for CVRP), integer demands [B, n]."""


class PaperLaw(Law):
    """One of the paper's: first where nodes are, then what they demand."""

    def draw(
        self, batch: int, n: int, generator: torch.Generator, depot_B2: Tensor | None = None, spec: str = "text"
    ) -> tuple[Tensor, Tensor | None]:
        """By one specification or the other."""
        if n < 1:
            raise DreeError(f"{self.title}: cannot draw {n} nodes, ask for at least 1.")
        if spec not in SPECS:
            raise unknown("specification", spec, SPECS)
        dice = Dice(batch, generator)
        official = spec == "official"
        placement = self._place(dice, n, official, tsp=depot_B2 is None)
        if depot_B2 is None:
            return placement.coords, None
        return placement.coords, self._weigh(dice, placement, depot_B2, official)

    @abstractmethod
    def _place(self, dice: Dice, n: int, official: bool, tsp: bool) -> Placement:
        """The nodes; the official code has one law that places them differently for TSP."""

    @abstractmethod
    def _weigh(self, dice: Dice, placement: Placement, depot_B2: Tensor, official: bool) -> Tensor:
        """Their demands: [B, n] int64."""


class Uniform(PaperLaw):
    """Nodes anywhere, demands 1 to 10, all equally likely."""

    title = "Uniform"
    size = 20

    def _place(self, dice: Dice, n: int, official: bool, tsp: bool) -> Placement:
        return Placement(dice.uniform(n, 2))

    def _weigh(self, dice: Dice, placement: Placement, depot_B2: Tensor, official: bool) -> Tensor:
        return dice.integers(placement.coords.shape[1], low=LOWEST, high=HIGHEST)


class GaussianMixture(PaperLaw):
    """Five round clusters; demand grows with the distance from the cluster's centre.

    The official code makes the centres themselves the first five nodes, with uniform demands.
    """

    title = "Gaussian mixture"
    size = 100
    clusters = 5

    def _place(self, dice: Dice, n: int, official: bool, tsp: bool) -> Placement:
        centres = dice.uniform(self.clusters, 2, high=50.0)
        kept = self._official_clusters(n, dice.device) if official else self._even_clusters(n, dice.device)
        cluster = torch.cat((kept, self._helpers(n, official, dice.device)))
        offsets = dice.normal(len(cluster), 2)
        nodes = centres[:, cluster] + offsets
        if official:
            nodes = torch.cat((centres, nodes), dim=1)
        scale_by = nodes[:, :n] if n >= self.clusters else nodes
        coords = min_max(nodes, over=scale_by)[:, :n]
        reach = min_max_within(offsets.norm(dim=-1), cluster, self.clusters)
        return Placement(coords, reach[:, : len(kept)])

    def _weigh(self, dice: Dice, placement: Placement, depot_B2: Tensor, official: bool) -> Tensor:
        assert placement.reach is not None
        if not official:
            return round_half_up(HIGHEST * placement.reach)
        centres = dice.integers(self.clusters, low=LOWEST, high=HIGHEST)
        others = ((HIGHEST - LOWEST) * placement.reach).floor().long() + LOWEST
        return torch.cat((centres, others), dim=1)[:, : placement.coords.shape[1]]

    def _even_clusters(self, n: int, device: torch.device) -> Tensor:
        """The cluster of each node, as evenly as possible."""
        return torch.arange(n, device=device) % self.clusters

    def _official_clusters(self, n: int, device: torch.device) -> Tensor:
        """The cluster of each node that is no centre: n // 5 - 1 to each, the remainder to the last."""
        index = torch.arange(max(n - self.clusters, 0), device=device)
        each = n // self.clusters - 1
        if each < 1:
            return torch.full_like(index, self.clusters - 1)
        return (index // each).clamp(max=self.clusters - 1)

    def _helpers(self, n: int, official: bool, device: torch.device) -> Tensor:
        """Clusters of nodes drawn for scale only: a full-size draw where a cluster has no two nodes."""
        enough = (3 if official else 2) * self.clusters
        return self._even_clusters(0 if n >= enough else self.size, device)


class Explosion(PaperLaw):
    """Uniform nodes with an empty disc blown into them; demands around 5."""

    title = "Explosion"
    size = 50
    rate = 40.0

    def _place(self, dice: Dice, n: int, official: bool, tsp: bool) -> Placement:
        points = explode(dice.uniform(n, 2), dice.uniform(1, 2), dice.exponential(n, rate=self.rate))
        return Placement(min_max(points) if official and tsp else points.clamp(0, 1))

    def _weigh(self, dice: Dice, placement: Placement, depot_B2: Tensor, official: bool) -> Tensor:
        bell = round_half_up(dice.normal(placement.coords.shape[1], mean=5.0))
        return bell.clamp(LOWEST if official else 0, HIGHEST)


class Compression(PaperLaw):
    """Uniform nodes with a band drawn together around a line; demands around 5.

    The official code does not draw a new distance from the line: it shrinks the old one and mirrors it.
    """

    title = "Compression"
    size = 100
    spread = 0.1

    def _place(self, dice: Dice, n: int, official: bool, tsp: bool) -> Placement:
        points, first, second = dice.uniform(n, 2), dice.uniform(1, 2), dice.uniform(1, 2)
        noise = dice.normal(n, std=self.spread)
        target = -heights(points, first, second) * noise.abs().clamp(max=1) if official else noise
        return Placement(move_across(points, first, second, target).clamp(0, 1))

    def _weigh(self, dice: Dice, placement: Placement, depot_B2: Tensor, official: bool) -> Tensor:
        bell = dice.normal(placement.coords.shape[1], mean=5.0)
        if official:
            return HIGHEST - round_half_up(bell).clamp(LOWEST, HIGHEST)
        return round_half_up(HIGHEST - bell).clamp(0, HIGHEST)


class Grid(PaperLaw):
    """A regular grid in a rectangle as long as the square; demand grows with the distance from the depot."""

    title = "Grid"
    size = 50

    def _place(self, dice: Dice, n: int, official: bool, tsp: bool) -> Placement:
        sides = _one_short_side(dice, long=1 - 1e-5 if official else 1.0)
        corner = (1 - sides) * dice.uniform(1, 2)
        return Placement((corner + grid(n, sides)).clamp(0, 1))

    def _weigh(self, dice: Dice, placement: Placement, depot_B2: Tensor, official: bool) -> Tensor:
        return _to_demands(min_max(_noisy_distances(dice, placement, depot_B2, noise=1.0)))


class Ring(PaperLaw):
    """A ring squeezed along one axis, towards that axis' origin; demand grows with the depot distance.

    The official code draws one mean radius for the whole instance, and demand falls with the distance.
    """

    title = "Ring"
    size = 20
    spread = 0.05

    def _place(self, dice: Dice, n: int, official: bool, tsp: bool) -> Placement:
        angle = dice.uniform(n, high=2 * torch.pi)
        mean = dice.uniform(1 if official else n, low=0.3, high=0.4)
        circle = polar(0.5, mean + dice.normal(n, std=self.spread), angle)
        return Placement((circle * _one_short_side(dice, long=1.0)).clamp(0, 1))

    def _weigh(self, dice: Dice, placement: Placement, depot_B2: Tensor, official: bool) -> Tensor:
        if official:
            return _to_demands(1 - min_max(_noisy_distances(dice, placement, depot_B2, noise=1.0)))
        return _to_demands(min_max(_noisy_distances(dice, placement, depot_B2, noise=2.0)))


LAWS: dict[str, Law] = {
    "U": Uniform(),
    "GM": GaussianMixture(),
    "E": Explosion(),
    "C": Compression(),
    "G": Grid(),
    "R": Ring(),
}


def law_named(name: str) -> Law:
    """A law by its letters, or a user's own by its dotted path (`package.module.Class`)."""
    return LAWS[name] if name in LAWS else _own_law(name)


@cache
def _own_law(name: str) -> Law:
    if "." not in name:
        raise unknown("law", name, LAWS)
    if name[-1].isdigit():
        raise DreeError(f"Law '{name}' ends in a digit, and tasks are called by a law and a number. Call it otherwise.")
    try:
        return named_class("law", name, {}, Law)()  # type: ignore[type-abstract]
    except TypeError as error:
        raise DreeError(
            f"Law '{name}' cannot be made without arguments ({error}). It needs title, size and draw."
        ) from error


def round_half_up(values: Tensor) -> Tensor:
    """The nearest integers, int64; halves go up."""
    return (values + 0.5).floor().long()


def _one_short_side(dice: Dice, long: float) -> Tensor:
    """A horizontal and a vertical length: one, either equally likely, from U(0.2, 0.8), the other `long`."""
    short = dice.uniform(1, low=0.2, high=0.8)
    flat = dice.coin(1)
    return torch.stack((torch.where(flat, long, short), torch.where(flat, short, long)), dim=-1)


def _noisy_distances(dice: Dice, placement: Placement, depot_B2: Tensor, noise: float) -> Tensor:
    distance: Tensor = (placement.coords - depot_B2[:, None]).norm(dim=-1)
    return distance + dice.uniform(distance.shape[1], high=noise)


def _to_demands(unit_Bn: Tensor) -> Tensor:
    """[0, 1] mapped to the demands 1 to 10."""
    return round_half_up(LOWEST + (HIGHEST - LOWEST) * unit_Bn)
