"""The geometry of the six laws, without any randomness: what is done to points once all dice are cast.

Shapes: B instances, N nodes. Points are [B, N, 2], one point per instance is [B, 1, 2].
"""

from __future__ import annotations

import torch
from torch import Tensor

EXPLOSION_RADIUS = 0.3
COMPRESSION_WIDTH = 0.3


def min_max(values: Tensor, over: Tensor | None = None) -> Tensor:
    """Map dimension 1 to [0, 1] by the smallest and largest of `over` (default: the values themselves).

    Where these are equal there is no scale, and the smallest becomes 0.
    """
    over = values if over is None else over
    low = over.amin(1, keepdim=True)
    width = over.amax(1, keepdim=True) - low
    return (values - low) / torch.where(width > 0, width, 1.0)


def min_max_within(values_BN: Tensor, group_N: Tensor, groups: int) -> Tensor:
    """Map each group's values to [0, 1] by the group's own smallest and largest."""
    index = group_N.expand_as(values_BN)
    empty = values_BN.new_full((values_BN.shape[0], groups), torch.inf)
    low = empty.scatter_reduce(1, index, values_BN, "amin").gather(1, index)
    high = (-empty).scatter_reduce(1, index, values_BN, "amax").gather(1, index)
    width = high - low
    return (values_BN - low) / torch.where(width > 0, width, 1.0)


def polar(centre: Tensor | float, radius_BN: Tensor, angle_BN: Tensor) -> Tensor:
    """Points at these radii and angles about the centre."""
    return centre + radius_BN[..., None] * _unit(angle_BN)


def explode(points: Tensor, centre: Tensor, extra_BN: Tensor) -> Tensor:
    """Move every point nearer to the centre than the radius straight out, to the radius plus `extra`."""
    away = points - centre
    pushed = polar(centre, EXPLOSION_RADIUS + extra_BN, _angle(away))
    return torch.where(away.norm(dim=-1, keepdim=True) < EXPLOSION_RADIUS, pushed, points)


def heights(points: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Signed distances from the line through `first` and `second`: [B, N]."""
    return ((points - first) * _normal(first, second)).sum(-1)


def move_across(points: Tensor, first: Tensor, second: Tensor, target_BN: Tensor) -> Tensor:
    """Move every point close to the line perpendicularly, to the signed distance `target`."""
    height = heights(points, first, second)
    moved = points + (target_BN - height)[..., None] * _normal(first, second)
    return torch.where(height.abs()[..., None] < COMPRESSION_WIDTH, moved, points)


def grid(n: int, sides: Tensor) -> Tensor:
    """The first n crossings of a grid that spans [0, width] x [0, height], row by row from the lowest y.

    It has a = ceil(sqrt(n width / height)) columns and b = ceil(n / a) rows, so cells are about square and
    only the top row can be incomplete, at its right end. A lone column lies at x = 0, a lone row at y = 0.
    """
    width, height = sides.unbind(-1)
    columns = (n * width / height).sqrt().ceil().long()
    rows = (n + columns - 1) // columns
    index = torch.arange(n, device=sides.device)
    cell = torch.stack((index % columns, index // columns), dim=-1)
    gaps = (torch.stack((columns, rows), dim=-1) - 1).clamp(min=1)
    return sides * (cell / gaps)


def _angle(vectors: Tensor) -> Tensor:
    # Through the angle, because the null vector has one (0) but no direction that division could find.
    return torch.atan2(vectors[..., 1], vectors[..., 0])


def _unit(angle: Tensor) -> Tensor:
    return torch.stack((angle.cos(), angle.sin()), dim=-1)


def _normal(first: Tensor, second: Tensor) -> Tensor:
    """The unit vector across the line through two points: [B, 1, 2]."""
    return _unit(_angle(second - first) + torch.pi / 2)
