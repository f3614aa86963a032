"""Anybody's numbers as tensors: of arrays, of lists, and of tensors of any type."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from dree.errors import DreeError

TYPES = {"i": np.int64, "u": np.uint64, "f": np.float64, "b": np.bool_, "c": np.complex128}  # by NumPy's kind
LIMIT = 2**63  # whole numbers are below it


def as_tensor(name: str, values: ArrayLike | Tensor, dtype: torch.dtype) -> Tensor:
    """Numbers as a tensor without gradient; those that are to be integers must be whole."""
    tensor = values.detach() if isinstance(values, Tensor) else _from_array(name, values)
    if tensor.dtype == torch.bool or tensor.is_complex():
        raise DreeError(f"'{name}' must be real numbers, not {tensor.dtype}. Convert them first.")
    if dtype == torch.int64:
        _check_integers(name, tensor)
    converted = tensor.to(dtype)
    if (tensor.isfinite() & ~converted.isfinite()).any():
        raise DreeError(f"'{name}' has a number that is too large for {dtype}. Count in larger units.")
    return converted


def _from_array(name: str, values: ArrayLike) -> Tensor:
    """What is no tensor as one, of 64 bits, so that no number changes."""
    if np.ma.is_masked(values):
        raise DreeError(f"'{name}' has values that are masked. Leave these nodes out, or fill the values in.")
    try:
        array = _as_array(values)
        if array.dtype == object:  # perhaps of plain numbers, as a column of a table may be
            array = np.asarray(array.tolist())
    except (TypeError, ValueError, RuntimeError):  # of lists of several lengths
        array = np.empty(0, dtype=np.str_)
    if array.dtype == object:
        raise _no_number(name, list(array.flat))
    if array.dtype.kind not in TYPES:
        raise DreeError(f"'{name}' must be an array of numbers in which all rows have the same length.")
    return torch.from_numpy(array.astype(TYPES[array.dtype.kind]))


def _no_number(name: str, values: list[Any]) -> DreeError:
    """What is wrong with values for which NumPy has no type."""
    others = {type(each).__name__ for each in values if not isinstance(each, int | float)}
    if not others:
        return _too_large(name)
    return DreeError(f"'{name}' must be plain numbers, and has also {', '.join(sorted(others))}. Convert them first.")


def _as_array(values: Any) -> NDArray[Any]:
    """As NumPy has it; of tensors in lists it refuses some: with gradient, on a GPU, or of a type that it lacks."""
    try:
        return np.asarray(values)
    except (TypeError, RuntimeError):
        return np.asarray(_without_tensors(values))


def _without_tensors(values: Any) -> Any:
    """Nested lists whose tensors are lists too."""
    if isinstance(values, list | tuple):
        return [_without_tensors(each) for each in values]
    return values.detach().tolist() if isinstance(values, Tensor) else values


def _check_integers(name: str, values: Tensor) -> None:
    """Refuse what an integer of 64 bits cannot be."""
    if values.dtype == torch.uint64 and (values.to(torch.int64) < 0).any():  # there, what is too large
        raise _too_large(name)
    if not values.is_floating_point():
        return
    exact = values.double()
    if not ((exact == exact.round()) & exact.isfinite()).all():
        raise DreeError(
            f"'{name}' must be whole numbers, so that loads are exact. Count in smaller units, such as kilograms "
            "instead of tonnes."
        )
    if (exact.abs() >= LIMIT).any():
        raise _too_large(name)


def _too_large(name: str) -> DreeError:
    return DreeError(
        f"'{name}' has a number that is too large: the largest whole number is {LIMIT - 1}. Count in larger units, "
        "such as tonnes instead of kilograms."
    )
