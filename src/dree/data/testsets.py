"""Test sets: fixed instances of one task with the cost of a near-optimal tour of each.

A test set is one file, `{problem}-{task}-{spec}.npz`. `index.json` beside the files holds the hash of each and how it
was made; a file that does not match its hash is refused. Shipped sets lie in the package, a user's own in a folder of
the cache.

Shapes: B instances, N nodes, T actions of the longest reference tour.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dree.errors import DreeError
from dree.files import cache_folder, only_one_in, write_bytes, write_text
from dree.problems import Instances

FILES = Path(__file__).parent / "files"  # the shipped sets; only those who make dree write here
INDEX = "index.json"


class SetKey(NamedTuple):
    """What identifies a test set; `load_set(key)` loads it."""

    problem: str
    task: str  # the name of the task the instances are drawn from, such as `U20` or `E38+C12`
    spec: str = "text"

    @property
    def name(self) -> str:
        """The name of the test set, such as `cvrp-U20-text`."""
        return f"{self.problem}-{self.task}-{self.spec}"

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.name}.npz"


class StoredSet(NamedTuple):
    """An undamaged file of a test set: its folder, what the index there says of it, and its content."""

    folder: Path
    entry: dict[str, Any]
    content: bytes


@dataclass(frozen=True)
class TestSet:
    """Instances of one task, and for each the float64 cost of its reference tour."""

    __test__: ClassVar[bool] = False  # not for pytest to collect

    name: str  # such as `cvrp-U20-text`
    task: str  # such as `U20`
    instances: Instances
    references: Tensor  # [B] float64
    tours: Tensor | None = None  # [B, T] int64: the tours with these costs, as in `Tours.actions`

    def __post_init__(self) -> None:
        """Refuse references that do not belong to the instances."""
        if self.references.shape != (len(self.instances),) or self.references.dtype != torch.float64:
            raise DreeError(
                f"Test set {self.name}: its {len(self.instances)} instances need as many float64 references, "
                f"not {self.references.dtype} of shape {list(self.references.shape)}."
            )
        if not (self.references > 0).all():
            row = int((~(self.references > 0)).nonzero()[0])
            raise DreeError(
                f"Test set {self.name}: the reference of instance {row} is {float(self.references[row]):g}, so no gap "
                "to it can be given. A tour has the length 0 where all places are one. Leave such instances out."
            )

    def __repr__(self) -> str:
        """On one line, without the numbers."""
        return f"TestSet({self.name}, {self.instances!r})"

    def first(self, count: int) -> TestSet:
        """A set of its first instances."""
        tours = None if self.tours is None else self.tours[:count]
        return replace(self, instances=self.instances[:count], references=self.references[:count], tours=tours)


def user_folder() -> Path:
    """Where a user's own test sets are."""
    return cache_folder() / "tests"


def available(folder: Path | None = None) -> list[SetKey]:
    """The test sets there are, sorted: those of a folder, or else the shipped ones and the user's own."""
    entries = [entry for place in _places(folder) for entry in read_index(place).values()]
    keys = {SetKey(entry["problem"], entry["task"], entry["spec"]) for entry in entries}
    return sorted(
        keys, key=lambda key: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", key.name)]
    )


def load_test(problem: str, law: str, size: int, spec: str = "text", *, folder: str | Path | None = None) -> TestSet:
    """The test set of a task of one law."""
    return load_set(SetKey(problem, f"{law}{size}", spec), None if folder is None else Path(folder))


def load_set(key: SetKey, folder: Path | None = None) -> TestSet:
    """A test set with its reference costs, once its file has been checked against its hash.

    It is looked for in a folder, or else among the shipped sets and then among the user's own.
    """
    stored = find_set(key, folder)
    if stored is not None:
        return _unpack(key, stored.content)
    for place, entry in _entries(key, folder):
        checked_bytes(key, entry, place)  # says what is wrong with it
    raise DreeError(f"There is no test set {key.name}. Build it with: {build_command([key])}")


def find_set(key: SetKey, folder: Path | None = None) -> StoredSet | None:
    """The first undamaged file of a test set, looked for as `load_set` does; nothing where there is none."""
    for place, entry in _entries(key, folder):
        with suppress(DreeError):
            return StoredSet(place, entry, checked_bytes(key, entry, place))
    return None


def known_entry(key: SetKey, folder: Path | None = None) -> dict[str, Any]:
    """What an index says of a test set, whatever has become of its file; empty where none knows it."""
    return next((entry for _, entry in _entries(key, folder)), {})


def build_command(keys: Sequence[SetKey]) -> str:
    """The command that builds these sets, which are of one problem and specification."""
    which = f"--problem {keys[0].problem}{spec_option(keys[0].spec)}"
    return f"dree data build {which}" + "".join(f" --task {key.task}" for key in keys)


def spec_option(spec: str) -> str:
    """What a command says of the laws, after a space; nothing where they are those of the paper's text."""
    return "" if spec == SetKey._field_defaults["spec"] else f" --spec {spec}"


def write_test(key: SetKey, test: TestSet, made: Mapping[str, Any], folder: Path) -> Path:
    """Write a test set and its entry in the folder's index, which also says how it was `made`.

    Either is first written under a temporary name, so that a reader never sees half of it; of several processes
    that write into a folder, each adds its entry.
    """
    content = _pack(test)
    facts = {"sha256": hashlib.sha256(content).hexdigest(), **key._asdict(), "instances": len(test.instances)}
    entry = {**facts, **made, **facts}
    with only_one_in(folder):
        path = write_bytes(folder / key.file, content)
        index = dict(sorted({**read_index(folder), key.file: entry}.items()))
        write_text(folder / INDEX, json.dumps(index, indent=1) + "\n")
    return path


def read_index(folder: Path) -> dict[str, dict[str, Any]]:
    """What is known of each file of the folder, by its name; nothing where there is no index."""
    path = folder / INDEX
    try:
        index = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError:
        index = None
    needed = {"sha256", *SetKey._fields}
    entries = list(index.values()) if isinstance(index, dict) else [index]
    if not all(isinstance(entry, dict) and needed <= set(entry) for entry in entries):
        raise DreeError(
            f"The index of the test sets, {path}, is damaged. "
            + ("Reinstall dree." if folder == FILES else "Delete it and build the sets again with `dree data build`.")
        )
    return dict(index)


def checked_bytes(key: SetKey, entry: Mapping[str, Any], folder: Path) -> bytes:
    """The content of a test set's file, which must have the hash that its entry in the index gives."""
    path = folder / key.file
    restore = f"Get it back with `{build_command([key])}`" + (", or reinstall dree." if folder == FILES else ".")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DreeError(f"The test set {path} cannot be read ({error.strerror}). {restore}") from None
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise DreeError(f"The test set {path} is damaged: it does not match its hash in {INDEX}. {restore}")
    return content


def _places(folder: Path | None) -> list[Path]:
    return [FILES, user_folder()] if folder is None else [folder]


def _entries(key: SetKey, folder: Path | None) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Where a test set should be, with what the index there says of it, one place at a time."""
    for place in _places(folder):
        entry = read_index(place).get(key.file)
        if entry is not None:
            yield place, entry


def _pack(test: TestSet) -> bytes:
    arrays: dict[str, NDArray[Any]] = {
        "coords": test.instances.coords.cpu().numpy().astype(np.float32),
        "references": test.references.cpu().numpy(),
    }
    integers = {
        "demands": test.instances.demands,
        "capacity": test.instances.capacity,
        "tours": test.tours,
    }
    for name, values in integers.items():
        if values is not None:
            arrays[name] = values.cpu().numpy().astype(np.min_scalar_type(int(values.max())))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _unpack(key: SetKey, content: bytes) -> TestSet:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files}
    integers = {name: arrays[name].long() for name in ("demands", "capacity", "tours") if name in arrays}
    instances = Instances(arrays["coords"], integers.get("demands"), integers.get("capacity"))
    return TestSet(key.name, key.task, instances, arrays["references"], integers.get("tours"))
