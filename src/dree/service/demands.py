"""Files that do not say the demands: every stop would count 1 where it did not before, and vehicles be overloaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dree.data.orders import OrderFile
from dree.errors import DreeError
from dree.service.records import Day
from dree.service.state import State


def says_demands(file: OrderFile, columns: Mapping[str, str]) -> bool:
    """Whether a file has a column for demands, or somebody said that there is none."""
    return "demand" in file.columns or columns.get("demand") == ""


def had_demands(days: Sequence[Day]) -> bool:
    """Whether stops of these days counted other than 1."""
    return any(day.demand not in (None, day.stops) for day in days)


def without_demands(where: object) -> str:
    """Why a file that does not say the demands is refused, and what to do; `where` names it, and the day if need be."""
    return (
        f"{where}: no column for demands is recognised, and other days have one, so that every stop would count 1. "
        "Name the column as there, or say which it is: --map demand=NAME. If every stop does count 1, say so: "
        "--map demand="
    )


def check_demands(file: OrderFile, columns: Mapping[str, str], state: State) -> None:
    """Refuse a file to be routed with a capacity that does not say the demands, where the state's days had some.

    `columns` is the map that the file was read with.
    """
    vehicles = any(day.demands is not None for day in file.days)
    if vehicles and had_demands(state.seen) and not says_demands(file, columns):
        raise DreeError(without_demands(file.path))
