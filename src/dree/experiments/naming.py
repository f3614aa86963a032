"""What runs are called: a method with what was changed in it, the folder of a run, and the command that repeats it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from hashlib import blake2b
from pathlib import Path
from typing import Any

from dree.errors import DreeError
from dree.experiments.configuration import LADE, PRESETS, RunSettings, preset_of
from dree.lifelong import method_class
from dree.settings import differences
from dree.tasks import Stream, SyntheticStream

IN_NAME = {"problem", "scenario", "order", "epochs", "method", "base", "seed"}  # always part of a folder's name
NO_MATTER = {"device", "checkpoint_seconds"}  # another run, but not another result
ELSEWHERE = {"data", "start"}  # places; what lies there is told by its content
FLAGS = {  # settings for which `dree run` has an option of their own
    "problem": "--problem",
    "scenario": "--scenario",
    "order": "--order",
    "data": "--data",
    "region": "--region",
    "ratio": "--ratio",
    "epochs": "--epochs",
    "method": "--method",
    "options.without": "--without",
    "base": "--solver",
    "start": "--start",
    "seed": "--seed",
    "device": "--device",
    "learner.precision": "--precision",
}
ALWAYS = ("problem", "order", "method", "seed")  # part of a command even where they are the preset's
LADE_ALWAYS = ("scenario", "data", "region", "method", "seed")  # the same for real days
OF_STREAM = ("problem", "scenario", "order", "epochs", "spec", "sizes", "region", "ratio")  # what a stream is made of
# Methods as the paper writes them, for its tables and for figures; elsewhere they are called by what `--method` takes.
IN_PRINT = {
    "mt-ref": "MT-Ref",
    "fine-tuning": "Fine-tuning",
    "li": "Li",
    "llr-bc": "LLR-BC",
    "dree": "DREE",
    "mt-cumulative": "MT-cu",
}
LONGEST = 160  # characters; file systems take 255


def method_title(settings: RunSettings) -> str:
    """A run's method as people call it: `dree`, `dree without pir`, `llr-bc, buffer_every 10`."""
    options = dict(settings.options)
    without = options.pop("without", None)
    ablation = f" without {without}" if without else ""
    return ", ".join([settings.method + ablation, *(f"{name} {value}" for name, value in options.items())])


def run_title(settings: RunSettings) -> str:
    """A run's method, and its base solver where that is not POMO: `dree (invit)`."""
    return method_title(settings) + (f" ({settings.base})" if settings.base != RunSettings.base else "")


def printed_title(settings: RunSettings) -> str:
    """The same in print: `DREE without PIR (invit)`; a method of a user's own is called by its path there, too."""
    title = run_title(settings)
    if settings.method not in IN_PRINT:
        return title
    title = IN_PRINT[settings.method] + title.removeprefix(settings.method)
    without = settings.options.get("without")
    return title.replace(f" without {without}", f" without {without.upper()}") if without else title


def run_labels(
    paths: Sequence[Path], settings: Sequence[RunSettings], title: Callable[[RunSettings], str] = run_title
) -> list[str]:
    """Runs are called by their methods, or by their folders where a method occurs twice with one problem."""
    methods = [(each.problem, title(each)) for each in settings]
    if len(set(methods)) == len(methods):
        return [method for _, method in methods]
    names = [path.resolve().name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def run_name(settings: RunSettings, start: str = "paper") -> str:
    """The name of a run's folder; runs with different settings have different names.

    It names the method with its options, and every other setting that is not as in the preset `start`.
    """
    parts = _name_parts(settings)
    changed = {
        name: value
        for name, value in from_preset(settings, start).items()
        if name not in IN_NAME | NO_MATTER and not name.startswith("options.")
    }
    parts = [*([start] if start != "paper" else []), *parts, *(f"{name}={value}" for name, value in changed.items())]
    name = re.sub(r"[^\w.=+-]+", "-", "-".join(parts))
    if len(name) <= LONGEST:
        return name
    return f"{name[:LONGEST]}-{blake2b(name.encode(), digest_size=4).hexdigest()}"


def keyed_name(settings: RunSettings) -> str:
    """A short name with a hash of all settings that are not the paper's: runs with one name are the same run.

    It stays the same when settings are added. Where data are does not matter, nor where the solver lies that a run
    starts from, as long as it has the same name.
    """
    values = {name: value for name, value in from_preset(settings, "paper").items() if name not in NO_MATTER}
    values |= {name: getattr(settings, name) for name in IN_NAME | {"region"}}
    if settings.start is not None:
        values["start"] = Path(settings.start).name
    digest = blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=5).hexdigest()
    return re.sub(r"[^\w.=+-]+", "-", "-".join([*_name_parts(settings), digest]))


def _name_parts(settings: RunSettings) -> list[str]:
    """Stream, method, base solver where it is not POMO, and seed."""
    problem, scenario, which, *length = stream_words(settings)
    method = method_title(settings).replace(", ", "-")
    base = [settings.base] if settings.base != RunSettings.base else []
    return [problem, scenario, which, method, *base, *length, f"seed{settings.seed}"]


def stream_words(settings: RunSettings) -> list[str]:
    """The stream of a run in words: problem, scenario, order and length (`T1000`); or, of real days, the region."""
    first = [settings.problem, settings.scenario]
    if settings.region is not None:
        return [*first, re.sub(r"[^\w.=+-]+", "-", settings.region)]
    return [*first, which_stream(settings).replace(" ", ""), f"T{settings.stream().epochs}"]


def which_stream(settings: RunSettings) -> str:
    """What tells a run's stream from others of its scenario: the region, the order's number, or its laws."""
    if settings.region is not None:
        return settings.region
    return str(settings.order) if isinstance(settings.order, int) else " ".join(settings.order)


def stream_title(settings: RunSettings, stream: Stream) -> str:
    """A run's stream for people: `drift, order 1 (E, C, G, U, R, GM), 1000 epochs`."""
    if isinstance(stream, SyntheticStream):
        number = f" {settings.order}" if isinstance(settings.order, int) else ""
        return f"{settings.scenario}, order{number} ({', '.join(stream.order)}), {stream.epochs} epochs"
    return f"{settings.scenario}, region {settings.region}, {stream.epochs} days"


def other_stream(ours: tuple[RunSettings, Stream], theirs: tuple[RunSettings, Stream]) -> str:
    """The settings in which the streams of two runs differ, `epochs 1000 and 500`; where they do not, the data do."""
    first, second = (
        {name: getattr(settings, name) for name in OF_STREAM} | {"epochs": stream.epochs}
        for settings, stream in (ours, theirs)
    )
    differing = [f"{name} {first[name]} and {second[name]}" for name in first if first[name] != second[name]]
    return ", ".join(differing) or "data"


def nearest_preset(settings: RunSettings) -> str:
    """The preset from which the fewest changes lead to these settings."""
    return min(PRESETS, key=lambda name: len(_changes(settings, name)))


def run_command(settings: RunSettings) -> list[str]:
    """The words of the command that starts a run with these settings; folders of one machine are left out."""
    start = nearest_preset(settings)
    always = LADE_ALWAYS if settings.scenario == LADE else ALWAYS
    changes = {name: getattr(settings, name) for name in always} | _changes(settings, start)
    if settings.base != RunSettings.base:
        changes["base"] = settings.base
    for name in ("data", "start"):
        if changes.get(name) is not None and (name == "data" or Path(changes[name]).is_absolute()):
            changes[name] = Path(changes[name]).name
    words = ["dree", "run", *([] if start == "paper" else ["--preset", start])]
    as_flags = {name: changes[name] for name in FLAGS if isinstance(changes.get(name), int | float | str)}
    for name, value in as_flags.items():
        words += [FLAGS[name], str(value)]
    for name, value in changes.items():
        if name not in as_flags:
            words += ["--set", f"{name}={_written(value)}"]
    return words


def check_ablation(method: str) -> None:
    """Refuse `without` for a method that has no parts to leave out."""
    if "without" not in {field.name for field in fields(method_class(method).options_class)}:
        raise DreeError(f"Nothing can be left out of method '{method}'. Use --without with --method dree.")


def from_preset(settings: RunSettings, start: str) -> dict[str, Any]:
    """The settings that are not those of a preset with the same method and base solver, by dotted names."""
    return differences(settings.spelled_out(), preset_of(settings, start).spelled_out())


def _changes(settings: RunSettings, start: str) -> dict[str, Any]:
    """What turns a preset into these settings, by dotted names; all sizes, where they lack one of the preset's."""
    changes = from_preset(settings, start)
    if set(preset_of(settings, start).sizes) - set(settings.sizes):
        changes = {each: value for each, value in changes.items() if each.split(".")[0] != "sizes"}
        changes["sizes"] = dict(settings.sizes)
    return changes


def _written(value: Any) -> str:
    """A value as `--set` reads it: JSON, or a text as it is if it cannot be taken for something else."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return value
    return json.dumps(value)
