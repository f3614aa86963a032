"""One problem in a JSON file, which programs write: a day of orders in a plane, whose stops have numbers for names.

`{"coordinates": [[x, y], ...], "demands": [0, 3, ...], "capacity": 30}`. With demands the first node is the depot.
Without them the problem is a TSP.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import torch

from dree.errors import DreeError, unknown
from dree.problems import Instances
from dree.tasks.orders import Orders

KEYS = ("coordinates", "demands", "capacity")


def read_problem(path: Path, capacity: Decimal | None = None) -> Orders:
    """The problem in a file as a day that has the file's name; `capacity` overrides the file's."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DreeError(f"There is no file {path}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DreeError(f"{path} cannot be read as UTF-8 text ({error}).") from None
    coords, demands, in_file = _read_json(path, text)
    limit = in_file if capacity is None else _whole(path, "capacity", float(capacity))
    try:
        return _orders(path.stem, coords, demands, limit)
    except DreeError as error:
        raise DreeError(f"{path}: {re.sub('^Instance 0[,:] ', '', str(error))}") from None


def _orders(day: str, coords: list[list[float]], demands: list[int] | None, capacity: int | None) -> Orders:
    points = torch.tensor(coords, dtype=torch.float64).view(1, -1, 2)
    if demands is None:
        if capacity is not None:
            raise DreeError("There is a capacity but no demands. Add a demand for every node, or leave both out.")
        places = Instances(points).validated().coords[0].numpy()
        return Orders(day, places, tuple(map(str, range(len(places)))), geographic=False)
    if capacity is None:
        raise DreeError("There are demands but no capacity. Give it in the JSON file or with --capacity.")
    Instances(points, torch.tensor([demands]), torch.tensor([capacity])).validated()
    nodes, weights = points[0].numpy(), torch.tensor(demands).numpy()
    x, y = nodes[0].tolist()
    names = tuple(map(str, range(1, len(nodes))))
    return Orders(day, nodes[1:], names, False, (x, y), weights[1:], capacity)


def _read_json(path: Path, text: str) -> tuple[list[list[float]], list[int] | None, int | None]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DreeError(f"{path} is not complete JSON: {error}. Was the file cut off?") from None
    if not isinstance(content, dict) or "coordinates" not in content:
        raise DreeError(f'{path} must hold an object with "coordinates": [[x, y], ...].')
    for key in content:
        if key not in KEYS:
            raise unknown(f"entry in {path}", key, KEYS)
    if not isinstance(content["coordinates"], list):
        raise DreeError(f'{path}: "coordinates" must be a list of [x, y] pairs.')
    coords = []
    for row, pair in enumerate(content["coordinates"]):
        if not isinstance(pair, list) or len(pair) != 2:
            raise DreeError(f"{path}: node {row} must be a pair [x, y], not {json.dumps(pair)}.")
        coords.append([_number(path, f"node {row}", value) for value in pair])
    demands, capacity = content.get("demands"), content.get("capacity")
    if demands is not None:
        if not isinstance(demands, list) or len(demands) != len(coords):
            raise DreeError(f'{path}: "demands" must list one number for each of the {len(coords)} nodes, depot first.')
        demands = [_whole(path, f"demand of node {row}", value) for row, value in enumerate(demands)]
    return coords, demands, None if capacity is None else _whole(path, "capacity", capacity)


def _number(path: Path, what: str, value: Any) -> float:
    if isinstance(value, str):
        raise DreeError(f"{path}: {what} has {value!r} where a number is needed. Write numbers without quotes.")
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise DreeError(f"{path}: {what} has {value!r} where a number is needed.") from None


def _whole(path: Path, what: str, value: Any) -> int:
    number = _number(path, what, value)
    if not math.isfinite(number) or number != int(number) or abs(number) >= 2**53:
        raise DreeError(
            f"{path}: the {what} is {value!r}, but demands and capacity are whole numbers. "
            "Count in smaller units, such as kilograms instead of tonnes."
        )
    return int(number)
