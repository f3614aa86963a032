"""Checkpoints: tensors and JSON in one safetensors file, no code in them, written in one step.

The two newest are kept. Each carries a digest of its content, so that a damaged one is noticed and the one before
it is used instead.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from dree.errors import DreeError, with_article
from dree.files import write_bytes

FORMAT = "dree-checkpoint"
VERSION = 2
KEPT = 2
KINDS = {  # a tensor's type as safetensors calls it
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
STORABLE = "tensors, numbers, texts, None, and lists and dicts of these"


def save_checkpoint(folder: Path, number: int, state: Mapping[str, Any]) -> Path:
    """Write a state (nested dicts and lists of tensors and plain values) as checkpoint `number`."""
    path = write_bytes(folder / f"{number:09d}.safetensors", *checkpoint_parts(state))
    for old in checkpoints(folder)[KEPT:]:
        old.unlink(missing_ok=True)
    return path


def checkpoint_parts(state: Mapping[str, Any]) -> list[bytes | memoryview]:
    """The bytes of a checkpoint's file, in order; nothing large among them is copied."""
    if fault := unstorable(state):
        raise TypeError(f"A checkpoint cannot hold {fault}, but only {STORABLE}")
    tensors: dict[str, Tensor] = {}
    plain = _take_tensors(state, "", tensors)
    header = {"version": VERSION, "state": plain, "digest": _digest(plain, tensors)}
    return _parts(tensors, json.dumps(header))


def unstorable(value: Any, place: str = "") -> str | None:
    """What in a state a checkpoint cannot hold, and where that is, in words; None where it can hold everything."""
    if isinstance(value, Tensor):
        return None if value.dtype in KINDS else f"a tensor of {value.dtype} at {place or '/'}"
    if isinstance(value, Mapping):
        for key in value:
            if not _is_plain(key):
                return f"{with_article(type(key).__name__)} as a key at {place or '/'}"
        inside = (unstorable(item, f"{place}/{key}") for key, item in value.items())
    elif isinstance(value, list | tuple):
        inside = (unstorable(item, f"{place}/{i}") for i, item in enumerate(value))
    else:
        return None if _is_plain(value) else f"{with_article(type(value).__name__)} at {place or '/'}"
    return next(filter(None, inside), None)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, the newest first."""
    return sorted(folder.glob("[0-9]*.safetensors"), reverse=True)


def load_latest(folder: Path, say: Callable[[str], object] = print) -> dict[str, Any] | None:
    """The newest good state in a folder, or None where there is none at all; an unusable one is passed over aloud."""
    found = checkpoints(folder)
    for path in found:
        try:
            return load_checkpoint(path)
        except UnusableError as error:
            say(f"{error} Using the one before it." if path != found[-1] else str(error))
    if found:
        raise DreeError(
            f"No checkpoint in {folder} can be used. Restore one from a backup; or delete the folder, to begin again."
        )
    return None


def load_checkpoint(path: Path) -> dict[str, Any]:
    """One checkpoint's state, on the CPU."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise DreeError(f"There is no checkpoint {path}.") from None
    except (SafetensorError, OSError) as error:
        raise UnusableError(f"Checkpoint {path} cannot be read ({error}).") from None
    try:
        header = json.loads(metadata[FORMAT])
        version, plain, digest = header["version"], header["state"], header["digest"]
    except (KeyError, TypeError, ValueError):
        raise UnusableError(f"{path} is not a dree checkpoint, or is damaged.") from None
    if version != VERSION:
        raise UnusableError(
            f"Checkpoint {path} has version {version}, this program reads version {VERSION}: "
            "use the version of dree that wrote it."
        )
    if digest != _digest(plain, tensors):
        raise UnusableError(f"Checkpoint {path} is damaged: its content does not match its digest.")
    state: dict[str, Any] = _put_tensors(plain, tensors)
    return state


def is_complete(path: Path) -> bool:
    """Whether a checkpoint has its header and the length that it says; what it holds is not read."""
    try:
        with safe_open(path, framework="pt") as file:
            return FORMAT in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False


class UnusableError(DreeError):
    """A checkpoint that is damaged, of another version, or none at all."""


def _take_tensors(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """The plain part of a state; its tensors go to `tensors` and leave their name behind."""
    if isinstance(value, Tensor):
        tensors[name] = value.detach().cpu().contiguous()
        return {"tensor": name}
    if isinstance(value, Mapping):
        return {"dict": [[key, _take_tensors(item, f"{name}/{key}", tensors)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [_take_tensors(item, f"{name}/{i}", tensors) for i, item in enumerate(value)]}
    return value


def _put_tensors(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The state again, from its plain part and its tensors."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "list":
        return [_put_tensors(item, tensors) for item in content]
    return {key: _put_tensors(item, tensors) for key, item in content}


def _digest(plain: Any, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.blake2b(json.dumps(plain).encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {list(tensors[name].shape)}".encode())
        digest.update(_memory(tensors[name]))
    return digest.hexdigest()


def _parts(tensors: Mapping[str, Tensor], metadata: str) -> list[bytes | memoryview]:
    """A safetensors file with one entry of metadata; nothing large is copied, as it would be by safetensors' `save`."""
    names = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))  # so that every tensor is aligned
    entries: dict[str, Any] = {"__metadata__": {FORMAT: metadata}}
    end = 0
    for name in names:
        begin, end = end, end + tensors[name].nbytes
        kind, shape = KINDS[tensors[name].dtype], list(tensors[name].shape)
        entries[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
    header = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return [len(header).to_bytes(8, "little"), header, *(_memory(tensors[name]) for name in names)]


def _memory(tensor: Tensor) -> memoryview:
    """The bytes of a contiguous tensor on the CPU, where they are."""
    return tensor.reshape(-1).view(torch.uint8).numpy().data
