"""Settings from files and command lines into frozen dataclasses, with errors that name the culprit."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any, TypeVar

from dree.errors import DreeError, unknown

T = TypeVar("T")
GROUPS = ("options", "solver", "learner")  # of which some members may be given, and the others stay
IN_WORDS: Mapping[object, str] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
    types.NoneType: "nothing",
}


def build(kind: type[T], values: Mapping[str, Any], where: str = "") -> T:
    """A settings dataclass from plain values.

    Unknown names and values of a wrong type are refused, and classes that leave a setting without a default; `where` is
    the dotted path to these settings. What the class names as `retired` is ignored: files of earlier versions have it.
    """
    if not dataclasses.is_dataclass(kind):
        raise DreeError(f"{kind.__name__} must be a frozen dataclass: what can be set, each with its default.")
    for field in dataclasses.fields(kind):
        if field.init and field.default is field.default_factory is dataclasses.MISSING:
            raise DreeError(
                f"Setting '{where}{field.name}' has no default. Give it one in {kind.__module__}.{kind.__qualname__}: "
                "a frozen dataclass of what can be set, each with its default."
            )
    hints = _hints(kind)
    given: dict[str, Any] = {}
    for name, value in values.items():
        if name in getattr(kind, "retired", ()):
            continue
        if not hints:
            raise DreeError(f"Unknown setting '{where}{name}': what was chosen there has no settings.")
        if name not in hints:
            raise unknown("setting", where + name, [where + hint for hint in hints])
        given[name] = _checked(value, hints[name], where + name)
    return kind(**given)


def check_types(settings: object) -> None:
    """Refuse values of a wrong type in a settings dataclass that was made directly; for its `__post_init__`."""
    kind: Any = type(settings)
    for name, hint in _hints(kind).items():
        _checked(getattr(settings, name), hint, name)


@cache  # hints are compiled from texts each time
def _hints(kind: Any) -> dict[str, Any]:
    return {field.name: typing.get_type_hints(kind)[field.name] for field in dataclasses.fields(kind)}


def override(settings: T, changes: Mapping[str, Any]) -> T:
    """The same settings with some changed, by names as in `changed`."""
    return build(type(settings), changed(dataclasses.asdict(settings), changes))  # type: ignore[call-overload]


def changed(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The same plain values with some changed.

    A dotted name reaches into a group (`solver.layers`), and a group stands for those of its members that it names.
    """
    result = deepcopy(dict(values))
    for path, value in by_member(changes).items():
        group = result
        *parents, name = path.split(".")
        for parent in parents:
            if not isinstance(group.get(parent), dict):
                raise unknown("group of settings", parent, [k for k, v in group.items() if isinstance(v, dict)])
            group = group[parent]
        group[name] = value
    return result


def differences(values: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not the same as in `base`, by their dotted names."""
    ours, theirs = _flat(values), _flat(base)
    return {name: value for name, value in ours.items() if name not in theirs or value != theirs[name]}


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        full = prefix + name
        flat |= _flat(value, f"{full}.") if isinstance(value, Mapping) and value else {full: value}
    return flat


def parse_assignments(texts: list[str]) -> dict[str, Any]:
    """`name=value` texts as values: JSON where it is JSON, else the text itself; of groups by dotted names."""
    result: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise DreeError(f"'{text}' is not a setting; write name=value, for example solver.layers=3.")
        try:
            result |= by_member({name: json.loads(value)})
        except json.JSONDecodeError:
            result[name] = value
    return result


def by_member(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes in which a group stands for those of its members that it names, by dotted names."""
    result: dict[str, Any] = {}
    for name, value in changes.items():
        members = name in GROUPS and isinstance(value, dict)
        result |= {f"{name}.{member}": each for member, each in value.items()} if members else {name: value}
    return result


def _checked(value: Any, hint: Any, name: str) -> Any:
    """The value, if it is of the hinted type (a whole number will do for a float)."""
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for option in options:
        if _fits(value, option):
            kind = typing.get_origin(option) or option
            return kind(value) if kind in (float, tuple) else value
    if any(typing.get_origin(option) is Mapping for option in options) and not isinstance(value, Mapping):
        raise DreeError(f"Setting '{name}' is a group of settings; set one of its members.")
    wanted = " or ".join(str(IN_WORDS.get(option) or getattr(option, "__name__", option)) for option in options)
    raise DreeError(f"Setting '{name}' must be {wanted}, not {value!r}.")


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, its items included."""
    if hint is Any:
        return True
    origin, arguments = typing.get_origin(hint) or hint, typing.get_args(hint)
    if isinstance(value, bool):
        return origin is bool
    if origin is float:
        return isinstance(value, int | float)
    if origin is tuple and isinstance(value, list):  # as JSON has it
        value = tuple(value)
    if not isinstance(value, origin):
        return False
    if isinstance(value, Mapping) and arguments:
        return all(_fits(key, arguments[0]) and _fits(item, arguments[1]) for key, item in value.items())
    return all(_fits(item, arguments[0]) for item in value) if isinstance(value, list | tuple) and arguments else True
