"""Whether a day is where a state's days are: in the same coordinates, not on another continent, from one depot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from dree.data.orders_depot import ROUNDED, ROUNDED_SHARE
from dree.data.orders_rows import FARTHEST
from dree.errors import DreeError
from dree.problems.geography import Frame, distances, middle
from dree.service.records import said
from dree.service.state import State
from dree.tasks.orders import Orders

FAR = 5  # times the extent of days: stops farther away may be of another city


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
            f"The stops of {day.day} are {away:.0f} km from those of {last.name}, a day of {state.path}."
            f"{hint or ' Use another state for another region.'}"
        )


def check_fits(day: Orders, state: State, guessed: bool = False) -> None:
    """Refuse a day, as its own file has it, of another region than the state's, or with another depot.

    To be asked where nobody has said a depot, before the state's takes the place of the file's. One that is `guessed`
    from a first row without a demand is no other depot: that row is an order whose demand somebody has forgotten.
    """
    check_region(day, state)
    depot = state.settings.depot
    if depot is None or day.depot is None or guessed:
        return
    away = float(distances(np.array([day.depot]), np.array([depot]), day.geographic)[0])
    if away > (ROUNDED if day.geographic else ROUNDED_SHARE * day.frame().extent):
        own, ours = (said(place, day.geographic) for place in (day.depot, depot))
        distance = f"{float(f'{away:.3g}'):g}{' km' if day.geographic else ''}"
        raise DreeError(
            f"{day.day} has its depot at {own}, {distance} from {ours}, where that of {state.path} is. Correct the "
            f"file or, for another depot, use another state. If vehicles do start at {ours}, say so: --depot={ours}"
        )


@contextmanager
def depot_named(state: State | None) -> Iterator[None]:
    """Where a file is refused until somebody says a depot, say which one is the state's."""
    try:
        yield
    except DreeError as error:
        if state is None or state.settings.depot is None or "--depot" not in str(error):
            raise
        ours = said(state.settings.depot, state.settings.geographic)
        raise DreeError(
            f"{error} Vehicles of {state.path} start at {ours}. If they do here, too: --depot={ours}"
        ) from None


def far_away(day: Orders, state: State) -> str | None:
    """A warning where a day is many times its extent from the stops of earlier days, or the first one from its depot.

    The extent is that of earlier days where it is larger, so that a day in one street is not far from the next.
    """
    extent = Frame.around(day.places, day.geographic).extent
    learned = [each for each in state.seen if each.version is not None]
    if learned:
        known, what = np.concatenate([each.places for each in learned]), "the nearest stop of earlier days"
        extent = max(extent, float(np.median([each.extent for each in learned])))
    elif day.depot is not None:
        known, what = np.array([day.depot]), "the depot"
    else:
        return None
    away = min(float(distances(known, np.broadcast_to(stop, known.shape), day.geographic).min()) for stop in day.places)
    if away <= FAR * extent:
        return None
    unit = " km" if day.geographic else ""
    return (
        f"Look at {day.day}: its stops are at least {away:.0f}{unit} from {what}, and a day spans {extent:.3g}{unit}. "
        "If they are another city's, learn them in a folder of their own; what is learned of them, and of days since "
        f"version {state.in_use}, is undone by: {state.going_back(state.in_use)}"
    )
