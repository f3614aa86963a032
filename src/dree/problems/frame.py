"""From anybody's coordinates to the unit square and back: one shift, one scale for both axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from dree.errors import DreeError
from dree.problems.instances import Instances

FARTHEST = 1e150  # of a coordinate from another or from zero; squares of larger numbers are none


def to_unit_square(instances: Instances) -> Instances:
    """The same problems, each moved and scaled into the unit square; the shape, and so the best tour, is kept."""
    low = instances.coords.amin(dim=1, keepdim=True)
    extent = (instances.coords.amax(dim=1, keepdim=True) - low).amax(dim=2, keepdim=True)
    if not (extent <= FARTHEST).all():
        instances.validated()  # which says so where a coordinate itself is not finite
        raise DreeError("The coordinates lie too far apart for floating-point numbers. Use larger units.")
    scaled = (instances.coords - low) / torch.where(extent > 0, extent, 1.0)
    return replace(instances, coords=scaled.float())


def over_largest(instances: Instances) -> Instances:
    """The same problems, each divided by its largest coordinate and not moved, as the official code does it."""
    largest = instances.coords.amax(dim=(1, 2), keepdim=True)
    if not (largest > 0).all():
        raise DreeError("No coordinate is positive, so none can be the scale. Use the frame 'fit'.")
    return replace(instances, coords=(instances.coords / largest).float())


FRAMES: dict[str, Callable[[Instances], Instances]] = {"fit": to_unit_square, "official": over_largest}
