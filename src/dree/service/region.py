"""Whether a day is where a state's days are: in the same kind of coordinates, and not on another continent."""

from __future__ import annotations

import numpy as np

from dree.data.orders_rows import FARTHEST
from dree.errors import DreeError
from dree.problems.geography import distances, middle
from dree.service.state import State
from dree.tasks.orders import Orders


def check_region(day: Orders, state: State) -> None:
    """Refuse a day in other coordinates than the state's, or more than 1000 km from the last day that it has seen."""
    if day.geographic != state.settings.geographic:
        kinds = {True: "latitude and longitude", False: "x and y"}
        raise DreeError(
            f"{day.day} has {kinds[day.geographic]}, but the days of {state.path} have {kinds[not day.geographic]}. "
            "Say with --map which columns are the place, or use another state."
        )
    if not (day.geographic and state.seen):
        return
    here = np.array([middle(day.places)])
    last = state.seen[-1]
    there = np.array([middle(last.places)])
    away, swapped = (float(distances(way, there, True)[0]) for way in (here, here[:, ::-1]))
    if away > FARTHEST:
        hint = " Latitude and longitude are swapped: say it with --map." if swapped <= FARTHEST else ""
        raise DreeError(
            f"The stops of {day.day} are {away:.0f} km from those of {last.name}, which {state.path} has "
            f"seen.{hint or ' Use another state for another region.'}"
        )
