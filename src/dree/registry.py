"""What goes by a short name, or by the dotted path to a class of the user's own."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any, TypeVar

from dree.errors import DreeError, unknown, with_article

T = TypeVar("T")


def named_class(what: str, name: str, known: Mapping[str, type[T]], base: type[T]) -> type[T]:
    """A class by its short name, or by its path (`package.module.Class`); it must derive from `base`."""
    if name in known:
        return known[name]
    module, _, attribute = name.rpartition(".")
    if not module:
        raise DreeError(f"{unknown(what, name, known)} A class of your own goes by module.Class.")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except SyntaxError as error:
        where = f"{error.filename}, line {error.lineno}"
        raise DreeError(f"{what.capitalize()} '{name}' cannot be imported: {error.msg} ({where}).") from error
    except (ImportError, AttributeError) as error:
        raise DreeError(
            f"{what.capitalize()} '{name}' cannot be imported: {error}. Give it as module.Class, where module.py is in "
            "this folder or installed."
        ) from error
    except Exception as error:  # whatever the user's code raises
        cause = f"{type(error).__name__}: {error}"
        raise DreeError(
            f"{what.capitalize()} '{name}' cannot be imported ({cause}). This shows where: python -c 'import {module}'"
        ) from error
    if not (isinstance(found, type) and issubclass(found, base)):
        home = ".".join(base.__module__.split(".")[:2])
        raise DreeError(
            f"'{name}' is not {with_article(what)}: it must be a class derived from {home}.{base.__name__}."
        )
    if inspect.isabstract(found):
        missing = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
        raise DreeError(f"{what.capitalize()} '{name}' cannot be made: the class lacks {missing}.")
    return found


def constructed(what: str, name: str, kind: type[T], arguments: Mapping[str, Any]) -> T:
    """An object of such a class, whose `__init__` must take these arguments in this order."""
    try:
        inspect.signature(kind).bind(*arguments.values())
    except TypeError as error:
        words = ", ".join(("self", *arguments))
        raise DreeError(
            f"{what.capitalize()} '{name}' cannot be made: its __init__ must take ({words}), and calling it so fails: "
            f"{error}."
        ) from None
    return kind(*arguments.values())
