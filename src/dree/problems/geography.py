"""Places on the earth or in a plane, and the unit square: one shift and one scale for both axes, and back again.

Shapes: M places, each longitude and latitude in degrees, or x and y in any unit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EARTH_RADIUS = 6371.0088  # kilometres, the mean

Places = NDArray[np.float64]


def distances(first: Places, second: Places, geographic: bool) -> NDArray[np.float64]:
    """From each place to its partner: kilometres along a great circle, or straight in the unit of x and y."""
    if not geographic:
        return np.asarray(np.hypot(*(second - first).T))
    (lng, lat), (other_lng, other_lat) = np.radians(first).T, np.radians(second).T
    half = np.sin((other_lat - lat) / 2) ** 2 + np.cos(lat) * np.cos(other_lat) * np.sin((other_lng - lng) / 2) ** 2
    return np.asarray(2 * EARTH_RADIUS * np.arcsin(np.sqrt(np.clip(half, 0, 1))))


@dataclass(frozen=True)
class Frame:
    """A square of the earth or of a plane; places inside go to the unit square and keep their shape.

    On the earth, degrees of longitude count as much as they do at the middle latitude, so over a delivery region
    lengths are right to a small part; across the 180th meridian, longitudes go on beyond it.
    """

    geographic: bool
    corner: tuple[float, float]  # the least longitude and latitude, or x and y
    stretch: float  # of the first axis: the cosine of the middle latitude; 1 in a plane
    extent: float  # of the longer side, in degrees of latitude or in the plane's unit

    @staticmethod
    def around(places: Places, geographic: bool) -> Frame:
        """The smallest square around some places."""
        moved = _unwrapped(places, places[0, 0]) if geographic else places
        low, high = moved.min(0), moved.max(0)
        stretch = float(np.cos(np.radians((low[1] + high[1]) / 2))) if geographic else 1.0
        extent = float(max((high[0] - low[0]) * stretch, high[1] - low[1]))
        return Frame(geographic, (float(low[0]), float(low[1])), stretch, extent if extent > 0 else 1.0)

    def to_unit(self, places: Places) -> Places:
        """Places as points, in the unit square for those in the frame."""
        moved = _unwrapped(places, self.corner[0]) if self.geographic else places
        return np.asarray((moved - self.corner) * (self.stretch, 1.0) / self.extent)

    def from_unit(self, points: Places) -> Places:
        """Points as places again."""
        places = points * self.extent / (self.stretch, 1.0) + self.corner
        if self.geographic:
            places[:, 0] = (places[:, 0] + 180) % 360 - 180
        return np.asarray(places)


def _unwrapped(places: Places, near: float) -> Places:
    """The same places with longitudes within half a turn of another."""
    moved = places.copy()
    moved[:, 0] = near + (places[:, 0] - near + 180) % 360 - 180
    return moved
