"""Places on the earth or in a plane, and the unit square, with one scale for both axes.

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


def middle(places: Places) -> tuple[float, float]:
    """The longitude and latitude in the middle of some places, wherever the 180th meridian is."""
    east, north = _places(_directions(places).mean(0)[None])[0].tolist()
    return east, north


def median_place(places: Places) -> tuple[float, float]:
    """The longitude and latitude that most of some places are around, however far off a few are; at a pole, too."""
    east, north = _places(np.median(_directions(places), axis=0)[None])[0].tolist()
    return east, north


@dataclass(frozen=True)
class Frame:
    """A square of the earth or of a plane; places inside go to the unit square and keep their shape.

    The earth is projected stereographically from around the frame's middle, which keeps angles everywhere, and
    ratios of lengths to 1e-5 within 50 km and to 1 % within 1000 km; no meridian and no pole is special.
    """

    geographic: bool
    centre: tuple[float, float]  # longitude and latitude where the plane touches the earth; in a plane (0, 0)
    corner: tuple[float, float]  # the least kilometres east and north of the centre, or the least x and y
    extent: float  # of the longer side, in kilometres or in the plane's unit

    @staticmethod
    def around(places: Places, geographic: bool) -> Frame:
        """The smallest square around some places."""
        centre = middle(places) if geographic else (0.0, 0.0)
        plane = _projected(places, centre) if geographic else places
        low, high = plane.min(0), plane.max(0)
        extent = float((high - low).max())
        return Frame(geographic, centre, (float(low[0]), float(low[1])), extent if extent > 0 else 1.0)

    def to_unit(self, places: Places) -> Places:
        """Places as points, in the unit square for those in the frame."""
        plane = _projected(places, self.centre) if self.geographic else places
        return np.asarray((plane - self.corner) / self.extent)


def _directions(places: Places) -> NDArray[np.float64]:
    """Places on the earth as unit vectors."""
    lng, lat = np.radians(places).T
    return np.stack((np.cos(lat) * np.cos(lng), np.cos(lat) * np.sin(lng), np.sin(lat)), axis=1)


def _places(directions: NDArray[np.float64]) -> Places:
    """Vectors of any length as places on the earth."""
    x, y, z = directions.T
    return np.asarray(np.degrees(np.stack((np.arctan2(y, x), np.arctan2(z, np.hypot(x, y))), axis=1)))


def _axes(centre: tuple[float, float]) -> NDArray[np.float64]:
    """East, north and up at a place, as the rows of a rotation."""
    lng, lat = np.radians(centre)
    return np.array(
        [
            [-np.sin(lng), np.cos(lng), 0.0],
            [-np.sin(lat) * np.cos(lng), -np.sin(lat) * np.sin(lng), np.cos(lat)],
            [np.cos(lat) * np.cos(lng), np.cos(lat) * np.sin(lng), np.sin(lat)],
        ]
    )


def _projected(places: Places, centre: tuple[float, float]) -> Places:
    """Kilometres east and north of the centre."""
    east, north, up = _axes(centre) @ _directions(places).T
    return np.asarray(2 * EARTH_RADIUS * np.stack((east, north), axis=1) / (1 + up)[:, None])
