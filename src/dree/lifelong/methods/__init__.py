"""Lifelong methods: how a learner uses the past. One file each; a user's own class goes by its dotted path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dree.errors import DreeError
from dree.lifelong.methods.base import (
    Lesson,
    Method,
    checked_loss,
    checked_state,
    checked_task,
    in_hook,
    own_method,
    suspicion,
)
from dree.lifelong.methods.dree import DREE
from dree.lifelong.methods.fine_tuning import FineTuning
from dree.lifelong.methods.li import Li
from dree.lifelong.methods.llr_bc import LLRBC
from dree.lifelong.methods.multi_task import CumulativeMultiTask, MultiTask
from dree.registry import constructed, named_class
from dree.settings import build

METHODS: dict[str, type[Method]] = {
    "fine-tuning": FineTuning,
    "dree": DREE,
    "llr-bc": LLRBC,
    "li": Li,
    "mt-ref": MultiTask,
    "mt-cumulative": CumulativeMultiTask,
}


def make_method(name: str, options: Mapping[str, Any] | None = None) -> Method:
    """A method with its options, by name; `options` holds those that are not to be the defaults."""
    kind = method_class(name)
    chosen: Any = build(kind.options_class, options or {}, "options.")
    method = constructed("method", name, kind, {"options": chosen})
    if not hasattr(method, "options"):
        raise DreeError(f"Method '{name}' has no options: its __init__ must call super().__init__(options).")
    return method


def method_class(name: str) -> type[Method]:
    """A method by its name, or a user's own by its dotted path (`package.module.Class`)."""
    return named_class("method", name, METHODS, Method)


__all__ = [
    "DREE",
    "LLRBC",
    "METHODS",
    "CumulativeMultiTask",
    "FineTuning",
    "Lesson",
    "Li",
    "Method",
    "MultiTask",
    "checked_loss",
    "checked_state",
    "checked_task",
    "in_hook",
    "make_method",
    "method_class",
    "own_method",
    "suspicion",
]
