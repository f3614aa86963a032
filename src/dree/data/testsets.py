"""Test sets: fixed instances of one task with the cost of a near-optimal tour of each.

A test set is one file, `{problem}-{law}{size}-{spec}.npz`. `index.json` beside the files holds the hash of
each and how it was made; a file that does not match its hash is refused.

Shapes: B instances, N nodes, T actions of the longest reference tour.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dree.errors import DreeError
from dree.files import write_bytes, write_text
from dree.problems import Instances

FILES = Path(__file__).parent / "files"
INDEX = "index.json"
RESTORE = "Get it back with `dree data build`, or reinstall the package `dree`."


class SetKey(NamedTuple):
    """What identifies a test set; `load_test(*key)` loads it."""

    problem: str
    law: str
    size: int
    spec: str = "text"

    @property
    def task(self) -> str:
        """The name of the task the instances are drawn from, such as `U20`."""
        return f"{self.law}{self.size}"

    @property
    def name(self) -> str:
        """The name of the test set, such as `cvrp-U20-text`."""
        return f"{self.problem}-{self.task}-{self.spec}"

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.name}.npz"


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


def available(folder: Path = FILES) -> list[SetKey]:
    """The test sets that can be loaded, sorted."""
    entries = read_index(folder).values()
    return sorted(SetKey(entry["problem"], entry["law"], entry["size"], entry["spec"]) for entry in entries)


def load_test(problem: str, law: str, size: int, spec: str = "text", *, folder: Path = FILES) -> TestSet:
    """A test set with its reference costs, once its file has been checked against its hash."""
    key = SetKey(problem, law, size, spec)
    entry = read_index(folder).get(key.file)
    if entry is None:
        names = ", ".join(key.name for key in available(folder)) or "none yet"
        raise DreeError(
            f"There is no test set {key.name}. Those there are: {names}. Build others with `dree data build`."
        )
    return _unpack(key, checked_bytes(folder / key.file, entry["sha256"]))


def write_test(key: SetKey, test: TestSet, made: Mapping[str, Any], folder: Path = FILES) -> Path:
    """Write a test set and its entry in the index, which also says how it was `made`.

    Either is first written under a temporary name, so that a reader never sees half of it.
    """
    content = _pack(test)
    entry = {
        "sha256": hashlib.sha256(content).hexdigest(),
        **key._asdict(),
        "task": test.task,
        "instances": len(test.instances),
        **made,
    }
    path = write_bytes(folder / key.file, content)
    index = dict(sorted({**read_index(folder), key.file: entry}.items()))
    write_text(folder / INDEX, json.dumps(index, indent=1) + "\n")
    return path


def read_index(folder: Path = FILES) -> dict[str, dict[str, Any]]:
    """What is known of each file of the folder, by its name; nothing where there is no index."""
    path = folder / INDEX
    try:
        index = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError:
        index = None
    needed = {"sha256", *SetKey._fields}
    entries = list(index.values()) if isinstance(index, dict) else [index]
    if not all(isinstance(entry, dict) and needed <= set(entry) for entry in entries):
        raise DreeError(
            f"The index of the test sets, {path}, is damaged. Delete it and run `dree data build`, or reinstall "
            "the package `dree`."
        )
    return dict(index)


def sound_entry(key: SetKey, folder: Path = FILES) -> dict[str, Any] | None:
    """What the index says of a test set whose file is there and undamaged; else nothing."""
    entry = read_index(folder).get(key.file)
    if entry is None:
        return None
    try:
        checked_bytes(folder / key.file, entry["sha256"])
    except DreeError:
        return None
    return entry


def checked_bytes(path: Path, sha256: str) -> bytes:
    """The content of a file, which must have this hash."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DreeError(f"The test set {path} cannot be read ({error.strerror}). {RESTORE}") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise DreeError(f"The test set {path} is damaged: it does not match its hash in {INDEX}. {RESTORE}")
    return content


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
