"""Weights of the original POMO's and Omni's checkpoints, for the solvers here.

Such files are pickles. They are read by torch's restricted reader, which knows tensors and plain values alone:
nothing in a file is ever run. NumPy's numbers and arrays, which logs may hold, are read as nothing.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dree.errors import DreeError, unknown
from dree.solvers.pomo import POMO, POMOSettings

HEADS = 8  # of the originals; their files do not say
NORMS = {"instance": "pomo", "batch-no-track": "omni"}  # and which solver has it
SHOWN = 3  # names of tensors that an error has
OUTER = "model_state_dict"
EMBEDDING = {"tsp": "encoder.embedding", "cvrp": "encoder.embedding_node"}
# How the originals spell the parts of a layer that have another name for each problem.
NORM1 = {"tsp": "addAndNormalization1", "cvrp": "add_n_normalization_1"}
NORM2 = {"tsp": "addAndNormalization2", "cvrp": "add_n_normalization_2"}
FEED_FORWARD = {"tsp": "feedForward", "cvrp": "feed_forward"}
NUMPY = (  # what NumPy's values are made of, by its first and second version
    "numpy.dtype",
    "numpy.ndarray",
    *(f"numpy.{core}.multiarray.{name}" for core in ("core", "_core") for name in ("scalar", "_reconstruct")),
)
BUFFERS = ("running_mean", "running_var", "num_batches_tracked")


class _Nothing:
    """Takes the place of a value of NumPy's."""

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, _: object) -> None:
        pass


@dataclass(frozen=True)
class Original:
    """What a file of the original has, as the solver here wants it."""

    problem: str
    settings: POMOSettings
    weights: dict[str, Tensor]
    epoch: int  # 0 where the file has none
    norm: str  # one of NORMS: as given, or as assumed, for the file does not tell

    @property
    def solver(self) -> str:
        """The solver that has this norm."""
        return NORMS[self.norm]


def read_original(path: Path, heads: int = HEADS, norm: str | None = None) -> Original:
    """The network of an original checkpoint, or of its bare state dict; `norm` says what its norm is known to be."""
    if norm is not None and norm not in NORMS:
        raise unknown("norm", norm, NORMS)
    content = _load(path)
    given = content.get(OUTER, content) if isinstance(content, Mapping) else None
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise DreeError(f"{path} is no checkpoint of POMO: it holds neither '{OUTER}' nor tensors by name.")
    problem = _problem(path, given)
    layers = {match[1] for name in given if (match := re.match(r"encoder\.layers\.(\d+)\.", name))}
    _check_norm(path, given)
    norm = norm or _assumed_norm(path)
    settings = POMOSettings(
        width=_rows(given, f"{EMBEDDING[problem]}.weight", POMOSettings.width),
        heads=heads,
        layers=max(1, len(layers)),
        feed_forward=_rows(given, f"encoder.layers.0.{FEED_FORWARD[problem]}.W1.weight", POMOSettings.feed_forward),
    )
    sources = original_names(problem, settings.layers)
    _check_tensors(path, given, _shapes(problem, settings, sources))
    weights = {ours: torch.cat([given[name].float() for name in theirs]) for ours, theirs in sources.items()}
    epoch = content.get("epoch", 0)
    known = type(epoch) is int and epoch >= 0
    return Original(problem, settings, weights, epoch if known else 0, norm)


def _assumed_norm(path: Path) -> str:
    """What a file's name says of its norm, on which its tensors are silent."""
    name = path.name.lower().replace("_", "-")
    if "batch-no-track" in name:
        return "batch-no-track"
    if "batch" in name:
        raise DreeError(
            f"The name of {path} speaks of batch norm, and does not say which. Taken for another norm its answers "
            "would be wrong, so say what it was trained with: --norm batch-no-track (batch norm without running "
            "statistics, as in Omni) or --norm instance (as in POMO)."
        )
    return "instance"


def original_names(problem: str, layers: int) -> dict[str, list[str]]:
    """For each tensor of the solver here, by name, the names of the originals it is made of, one below the other."""
    parts = {"embed": EMBEDDING[problem], "combine": "decoder.multi_head_combine"}
    if problem == "cvrp":
        parts["embed_depot"] = "encoder.embedding_depot"
    maps = {"query_last": "Wq_last", "key": "Wk", "value": "Wv"}
    if problem == "tsp":
        maps["query_first"] = "Wq_first"
    names = {f"{ours}.weight": [f"decoder.{theirs}.weight"] for ours, theirs in maps.items()}
    for layer in range(layers):
        here, there = f"layers.{layer}", f"encoder.layers.{layer}"
        names[f"{here}.query_key_value.weight"] = [f"{there}.{each}.weight" for each in ("Wq", "Wk", "Wv")]
        parts[f"{here}.combine"] = f"{there}.multi_head_combine"
        parts[f"{here}.expand"] = f"{there}.{FEED_FORWARD[problem]}.W1"
        parts[f"{here}.contract"] = f"{there}.{FEED_FORWARD[problem]}.W2"
        for ours, theirs in (("norm1", NORM1[problem]), ("norm2", NORM2[problem])):
            names[f"{here}.{ours}.gain"] = [f"{there}.{theirs}.norm.weight"]
            names[f"{here}.{ours}.bias"] = [f"{there}.{theirs}.norm.bias"]
    for ours, theirs in parts.items():
        names[f"{ours}.weight"], names[f"{ours}.bias"] = [f"{theirs}.weight"], [f"{theirs}.bias"]
    return names


def _load(path: Path) -> Any:
    """What is in a file, if it is tensors and plain values; for NumPy's, `_Nothing`."""
    try:
        with torch.serialization.safe_globals([(_Nothing, name) for name in NUMPY]):
            return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise DreeError(f"There is no file {path}.") from None
    except OSError as error:
        raise DreeError(f"{path} cannot be read: {error.strerror or error}.") from None
    except pickle.UnpicklingError as error:
        wanted = re.search(r"GLOBAL ([\w.]+)", str(error))  # the rest of the message advises to read it unsafely
        asks = f" It asks for {wanted[1]}." if wanted else ""
        raise DreeError(
            f"{path} is not a file of tensors and plain values alone, or is damaged.{asks} Nothing in it was run. "
            "Where you trust its source, load it there and save its state dict alone."
        ) from None
    except Exception as error:  # a damaged file can fail anywhere in torch's reader
        raise DreeError(f"{path} is no file of torch.save, or is damaged ({type(error).__name__}).") from None


def _problem(path: Path, given: Mapping[str, Any]) -> str:
    """Which problem a network is for, by its embedding."""
    for problem in ("cvrp", "tsp"):
        if any(name.startswith(f"{EMBEDDING[problem]}.") for name in given):
            return problem
    expected = " nor ".join(f"{name}.weight" for name in EMBEDDING.values())
    raise DreeError(f"{path} is no checkpoint of POMO: among its {len(given)} entries is neither {expected}.")


def _check_norm(path: Path, given: Mapping[str, Any]) -> None:
    """Refuse networks whose tensors show that they have another norm."""
    ends = [name.rpartition(".")[2] for name in given]
    norms = [name for name in given if set(name.split(".")) & {*NORM1.values(), *NORM2.values()}]
    if any(end in BUFFERS for end in ends):
        found = "batch norm with running statistics"
    elif any(name.endswith(".norm") for name in norms):
        found = "'rezero' in place of a norm"
    elif not norms:
        found = "no norm"
    else:
        return
    raise DreeError(
        f"{path} has {found}. The solvers here have instance norm (POMO) or batch norm without running statistics "
        "(Omni), and neither can take its place."
    )


def _rows(given: Mapping[str, Any], name: str, otherwise: int) -> int:
    """The outputs of a linear map; where there is none, any number will do, for the map will be missed later."""
    tensor = given.get(name)
    return tensor.shape[0] if isinstance(tensor, Tensor) and tensor.ndim == 2 and len(tensor) else otherwise


def _shapes(problem: str, settings: POMOSettings, sources: Mapping[str, list[str]]) -> dict[str, list[int]]:
    """The shape that each of the original's tensors must have."""
    with torch.device("meta"):
        ours = POMO(problem, settings).state_dict()
    return {
        name: [ours[mine].shape[0] // len(theirs), *ours[mine].shape[1:]]
        for mine, theirs in sources.items()
        for name in theirs
    }


def _check_tensors(path: Path, given: Mapping[str, Any], shapes: Mapping[str, list[int]]) -> None:
    """Refuse what is not exactly the expected tensors, of finite floats."""
    there = {name: given[name] for name in shapes if name in given}
    broken = [name for name, value in there.items() if not _is_plain(value)]
    other = [
        f"{name} {list(value.shape)} instead of {shapes[name]}"
        for name, value in there.items()
        if name not in broken and list(value.shape) != shapes[name]
    ]
    wrong = [
        _listed("missing", [name for name in shapes if name not in given]),
        _listed("unknown", [name for name in given if name not in shapes]),
        _listed("not finite floats", broken),
        _listed("of another shape", other),
    ]
    if any(wrong):
        raise DreeError(f"{path} does not fit a POMO network. Of its tensors {'; '.join(filter(None, wrong))}.")


def _is_plain(value: Any) -> bool:
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.device.type != "cpu":
        return False
    return value.is_floating_point() and bool(value.float().isfinite().all())


def _listed(what: str, names: list[str]) -> str:
    if not names:
        return ""
    more = ", ..." if len(names) > SHOWN else ""
    return f"{len(names)} {'is' if len(names) == 1 else 'are'} {what}: {', '.join(names[:SHOWN])}{more}"
