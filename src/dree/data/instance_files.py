"""One problem from a user's file: JSON or CSV.

JSON: `{"coordinates": [[x, y], ...], "demands": [0, 3, ...], "capacity": 30}`; CSV: columns `x`, `y` and, for a CVRP,
`demand`. With demands the first node is the depot. Without them the problem is a TSP.
"""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import torch

from dree.errors import DreeError, unknown
from dree.problems import Instances

KEYS = ("coordinates", "demands", "capacity")
COLUMNS = ("x", "y", "demand")


def read_instance(path: Path, capacity: int | None = None) -> Instances:
    """The problem in a file as a batch of one, float64, in the file's own coordinates; `capacity` overrides."""
    readers = {".json": _read_json, ".csv": _read_csv}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DreeError(f"{path} must end in .json or .csv, so that it is clear how to read it.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DreeError(f"There is no file {path}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DreeError(f"{path} cannot be read as UTF-8 text ({error}).") from None
    coords, demands, in_file = reader(path, text)
    capacity = in_file if capacity is None else _whole(path, "capacity", capacity)
    points = torch.tensor(coords, dtype=torch.float64).view(1, -1, 2)
    try:
        if demands is None:
            if capacity is not None:
                raise DreeError("There is a capacity but no demands. Add a demand for every node, or leave both out.")
            return Instances(points).validated()
        if capacity is None:
            raise DreeError("There are demands but no capacity. Give it in the JSON file or with --capacity.")
        return Instances(points, torch.tensor([demands]), torch.tensor([capacity])).validated()
    except DreeError as error:
        raise DreeError(f"{path}: {error}") from None


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


def _read_csv(path: Path, text: str) -> tuple[list[list[float]], list[int] | None, int | None]:
    try:
        rows = [row for row in csv.reader(text.splitlines()) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise DreeError(f"{path} is not CSV: {error}.") from None
    if not rows:
        raise DreeError(f"{path} is empty.")
    header = [cell.strip().lower() for cell in rows[0]]
    for name in header:
        if name not in COLUMNS:
            raise unknown(f"column in {path}", name, COLUMNS)
    if len(set(header)) < len(header):
        raise DreeError(f"{path} names a column twice: {', '.join(header)}.")
    missing = [name for name in ("x", "y") if name not in header]
    if missing:
        raise DreeError(f"{path} has no column {' and no column '.join(missing)}; its first line must name x and y.")
    coords, demands = [], []
    for number, row in enumerate(rows[1:]):
        if len(row) != len(header):
            raise DreeError(f"{path}: node {number} has {len(row)} cells, the header has {len(header)}.")
        cells = dict(zip(header, row, strict=True))
        coords.append([_number(path, f"node {number}", cells[name]) for name in ("x", "y")])
        if "demand" in cells:
            demands.append(_whole(path, f"demand of node {number}", cells["demand"]))
    return coords, demands if "demand" in header else None, None


def _number(path: Path, what: str, value: Any) -> float:
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
