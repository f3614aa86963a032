"""Lifelong methods: how a learner uses the past. One file each; a user's own class goes by its dotted path."""

from __future__ import annotations

import importlib

from dree.errors import DreeError, unknown
from dree.lifelong.methods.base import Lesson, Method
from dree.lifelong.methods.fine_tuning import FineTuning

METHODS: dict[str, type[Method]] = {"fine-tuning": FineTuning}


def method_class(name: str) -> type[Method]:
    """A method by its name, or a user's own by its dotted path (`package.module.Class`)."""
    if name in METHODS:
        return METHODS[name]
    module, _, attribute = name.rpartition(".")
    if not module:
        raise unknown("method", name, METHODS)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise DreeError(f"Method '{name}' cannot be imported: {error}.") from error
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise DreeError(f"'{name}' is not a method: it must be a class derived from dree.lifelong.Method.")
    return found


__all__ = ["METHODS", "FineTuning", "Lesson", "Method", "method_class"]
