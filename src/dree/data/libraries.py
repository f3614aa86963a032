"""Problems from files of TSPLIB and CVRPLIB, and the best known lengths of those that the paper uses.

A file whose costs would come out wrong is refused: other distances than EUC_2D and CEIL_2D, further constraints, a
section that was cut off.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
import torch

from dree.errors import DreeError, unknown
from dree.problems import Instances
from dree.problems.check import Rounding

BEST_KNOWN = Path(__file__).parent / "best_known.json"
PROBLEMS = {"tsplib": "tsp", "cvrplib": "cvrp"}
SUFFIXES = {".tsp": "tsp", ".vrp": "cvrp"}
ROUNDINGS: dict[str, Rounding] = {"EUC_2D": lambda lengths: np.floor(lengths + 0.5), "CEIL_2D": np.ceil}
HARMLESS = {"NAME", "COMMENT", "EDGE_WEIGHT_FORMAT", "NODE_COORD_TYPE", "DISPLAY_DATA_TYPE"}  # no cost depends on them
UNDERSTOOD = {"TYPE", "DIMENSION", "EDGE_WEIGHT_TYPE", "CAPACITY", "NODE_COORD", "DEMAND", "DEPOT"}
OTHER = "its nodes, demands, capacity or EDGE_WEIGHT_TYPE are not those of the library's instance of this name"


class Library(NamedTuple):
    """The instances of a library that the paper uses."""

    name: str
    problem: str
    best_known: dict[str, int]  # instance -> length with every distance rounded
    digests: dict[str, str]  # instance -> the first half of its digest's digits: others may bear its name
    notes: dict[str, str]

    @property
    def suffix(self) -> str:
        """How the names of its files end."""
        return next(suffix for suffix, problem in SUFFIXES.items() if problem == self.problem)

    def holds(self, instance: LibraryInstance) -> bool:
        """Whether this is an instance of the library, and not only called like one."""
        return instance.digest[: len(instance.digest) // 2] == self.digests.get(instance.name)


@dataclass(frozen=True)
class LibraryInstance:
    """One problem from a file, in the file's own coordinates, the depot first."""

    name: str
    weights: str  # EUC_2D or CEIL_2D: how the library rounds distances
    instances: Instances  # a batch of one, float64

    @property
    def best_known(self) -> int | None:
        """The best known length, if this package knows one of this very problem; never a guess."""
        ours = self._library()
        return ours.best_known[self.name] if ours is not None and ours.holds(self) else None

    @property
    def digest(self) -> str:
        """A hash of the problem itself, whatever its name."""
        tensors = (tensor.numpy().tobytes() for tensor in self.instances.tensors())
        return hashlib.sha256(b"/".join([self.weights.encode(), *tensors])).hexdigest()

    @property
    def note(self) -> str | None:
        """What must be said about the best known length."""
        ours = self._library()
        if ours is None:
            return None
        return ours.notes.get(self.name) if ours.holds(self) else f"{OTHER}, so there is no gap"

    def _library(self) -> Library | None:
        """The one that has an instance of this name, which may be another one."""
        ours = (library(name) for name, problem in PROBLEMS.items() if problem == self.instances.problem)
        return next((each for each in ours if self.name in each.best_known), None)


@cache
def library(name: str) -> Library:
    """A library by name: tsplib or cvrplib."""
    if name not in PROBLEMS:
        raise unknown("library", name, PROBLEMS)
    content = json.loads(BEST_KNOWN.read_text(encoding="utf-8"))[name]
    return Library(name, PROBLEMS[name], content["values"], content["digests"], content["notes"])


def read_library_file(path: Path) -> LibraryInstance:
    """The problem in a .tsp or .vrp file; what cannot be costed correctly is refused."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise DreeError(f"There is no file {path}.") from None
    except OSError as error:
        raise DreeError(f"{path} cannot be read ({error.strerror}).") from None
    return _Reader(path, text).instance()


def find_instances(
    path: Path, problem: str, library_name: str | None = None, say: Callable[[str], object] = print
) -> list[LibraryInstance]:
    """The problems of one file, of all files of a folder, or of those of a library's in it; small ones first.

    A file that cannot be used is an error, but where all files of a folder are wanted it is left out aloud. So are
    instances of a library that are not there.
    """
    if library_name is not None and library(library_name).problem != problem:
        raise DreeError(
            f"{library_name} has {PROBLEMS[library_name].upper()} instances, this solver is for {problem.upper()}."
        )
    if not path.is_dir():
        found = [_read_for(problem, path)]
        if library_name is not None:
            _check_held(library(library_name), path, found[0])
    elif library_name is None:
        found = _read_all(path, problem, say)
    else:
        found = _read_library(path, library(library_name), say)
    return sorted(found, key=lambda instance: instance.instances.customers)


def _read_for(problem: str, path: Path) -> LibraryInstance:
    """The problem in a file, which must be of this kind."""
    found = read_library_file(path)
    if found.instances.problem != problem:
        raise DreeError(f"{path} is a {found.instances.problem.upper()}, this solver is for {problem.upper()}.")
    return found


def _read_all(folder: Path, problem: str, say: Callable[[str], object]) -> list[LibraryInstance]:
    """What can be used of the files in a folder."""
    found, refused = [], 0
    for path in sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES):
        try:
            found.append(_read_for(problem, path))
        except DreeError as error:
            say(f"Left out: {error}")
            refused += 1
    if not found:
        raise DreeError(f"No file in {folder} can be used; {refused} ending in {' or '.join(SUFFIXES)} were tried.")
    return found


def _read_library(folder: Path, wanted: Library, say: Callable[[str], object]) -> list[LibraryInstance]:
    """Those of a library's instances that are in a folder."""
    files = {name: folder / f"{name}{wanted.suffix}" for name in wanted.best_known}
    missing = [name for name, path in files.items() if not path.is_file()]
    if len(missing) == len(files):
        raise DreeError(f"None of the {len(files)} instances of {wanted.name} is in {folder}, such as {missing[0]}.")
    if missing:
        say(f"Not in {folder}, so left out: {', '.join(missing)}.")
    found = {path: _read_for(wanted.problem, path) for name, path in files.items() if name not in missing}
    for path, instance in found.items():
        if instance.name != path.stem:
            raise DreeError(f"{path} holds the instance {instance.name}. Rename the file, or get the right one.")
        _check_held(wanted, path, instance)
    return list(found.values())


def _check_held(wanted: Library, path: Path, instance: LibraryInstance) -> None:
    """Refuse what is none of a library's instances: the paper's numbers are about these."""
    if instance.name not in wanted.best_known:
        raise DreeError(
            f"{path} holds {instance.name}, which is none of the {len(wanted.best_known)} instances of {wanted.name}. "
            "Leave out --library to solve any file."
        )
    if not wanted.holds(instance):
        raise DreeError(
            f"{path} calls itself {instance.name}, but {OTHER}. Get the file from {wanted.name.upper()}'s own page; "
            "dree evaluate without --library takes any file."
        )


class _Line(NamedTuple):
    number: int
    cells: list[str]


class _Reader:
    """The entries and sections of one file, and errors that name it."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.entries: dict[str, str] = {}
        self.sections: dict[str, list[_Line]] = {}
        section: list[_Line] | None = None
        for number, line in enumerate(text.splitlines(), start=1):
            words = line.strip()
            key, colon, value = (part.strip() for part in words.partition(":"))
            if words == "EOF":
                break
            if key.endswith("_SECTION"):
                section = self.sections.setdefault(key.removesuffix("_SECTION"), [])
            elif colon:
                self.entries[key.upper()] = value
            elif section is not None and words:
                section.append(_Line(number, words.split()))
            elif words:
                self.fail(f"line {number}, '{words[:40]}', is neither an entry 'KEY : value' nor part of a section")

    def fail(self, problem: str) -> NoReturn:
        """Refuse the file."""
        raise DreeError(f"{self.path}: {problem}{'' if problem.endswith('?') else '.'}")

    def instance(self) -> LibraryInstance:
        """The problem, once everything that its cost depends on has been understood."""
        kind, weights = self.entry("TYPE").split()[0], self.entry("EDGE_WEIGHT_TYPE")
        if kind not in ("TSP", "CVRP"):
            self.fail(f"its TYPE is {kind}, but dree solves TSP and CVRP only")
        if weights not in ROUNDINGS:
            self.fail(
                f"its EDGE_WEIGHT_TYPE is {weights}, but dree computes {' and '.join(ROUNDINGS)} distances only; "
                "any cost it could give would be wrong"
            )
        strange = sorted({*self.entries, *self.sections} - HARMLESS - UNDERSTOOD)
        if strange:
            self.fail(f"it has {', '.join(strange)}, which dree would not respect, so its answer would be no solution")
        nodes = self.whole("DIMENSION", self.entry("DIMENSION"))
        if nodes < 2:
            self.fail(f"a problem needs at least 2 nodes, its DIMENSION is {nodes}")
        coords = torch.tensor(self.rows("NODE_COORD", nodes, 2), dtype=torch.float64)
        name = self.entries.get("NAME") or self.path.stem
        try:
            if kind == "TSP":
                return LibraryInstance(name, weights, Instances(coords[None]).validated())
            capacity = self.whole("CAPACITY", self.entry("CAPACITY"))
            demands = torch.tensor(self.demands(nodes, capacity))
            depot = self.depot(nodes)
            order = torch.tensor([depot, *(node for node in range(nodes) if node != depot)])
            batch = Instances(coords[order][None], demands[order][None], torch.tensor([capacity]))
            return LibraryInstance(name, weights, batch.validated())
        except DreeError as error:
            if str(error).startswith(str(self.path)):
                raise
            raise DreeError(f"{self.path}: {error}") from None

    def entry(self, key: str) -> str:
        """An entry that must be there."""
        if not self.entries.get(key):
            self.fail(f"it has no entry {key}. Is it a TSPLIB or CVRPLIB file, and whole?")
        return self.entries[key]

    def whole(self, what: str, text: str) -> int:
        """A whole number."""
        try:
            value = float(text)
            if not value.is_integer() or abs(value) >= 2**53:
                raise ValueError
        except ValueError:
            self.fail(f"{what} is '{text}' where a whole number is needed")
        return int(value)

    def rows(self, section: str, nodes: int, width: int) -> list[list[float]]:
        """The numbers of every node, in the order of the nodes' own numbers 1 to `nodes`."""
        lines = self.sections.get(section)
        if lines is None:
            self.fail(f"it has no {section}_SECTION. Was the file cut off?")
        found: dict[int, list[float]] = {}
        for number, cells in lines:
            try:
                node, *values = (float(cell) for cell in cells)
                if len(values) != width:
                    raise ValueError
            except ValueError:
                self.fail(f"line {number} of the {section}_SECTION is '{' '.join(cells)}'. Was the file cut off?")
            if node in found or node not in range(1, nodes + 1):
                self.fail(f"line {number}: node {cells[0]} is there twice, or not one of the {nodes} announced")
            found[int(node)] = values
        if len(found) != nodes:
            self.fail(f"{nodes} nodes are announced, the {section}_SECTION has {len(found)}. Was the file cut off?")
        return [found[node] for node in range(1, nodes + 1)]

    def demands(self, nodes: int, capacity: int) -> list[int]:
        """The demand of every node, none larger than the capacity."""
        demands = [self.whole("a demand", repr(row[0])) for row in self.rows("DEMAND", nodes, 1)]
        for node, demand in enumerate(demands, start=1):
            if not 0 <= demand <= capacity:
                self.fail(f"node {node} has demand {demand}, which is not between 0 and the CAPACITY {capacity}")
        return demands

    def depot(self, nodes: int) -> int:
        """The one depot, counted from 0."""
        cells = [cell for _, cells in self.sections.get("DEPOT", []) for cell in cells]
        depots = [self.whole("the depot", cell) for cell in cells if cell != "-1"]
        if len(depots) != 1 or not 1 <= depots[0] <= nodes:
            self.fail(f"its DEPOT_SECTION must name one of the {nodes} nodes, it has {depots}. Was the file cut off?")
        return depots[0] - 1
