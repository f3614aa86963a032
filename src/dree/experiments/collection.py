"""Runs in small, to be kept for good: their manifests, gap matrices and logs, without weights, in groups.

They lie in `<root>/<group>/<name>`. Such a folder is a run's like any other, but it cannot be resumed. What the run's
solver did on library instances is kept with it, where it was written to the run's folder.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dree.errors import DreeError
from dree.experiments.folder import LIBRARY_FILES, RunFolder
from dree.experiments.library_gaps import library_gaps
from dree.experiments.naming import nearest_preset, run_name, stream_words
from dree.files import write_bytes
from dree.settings import override

OF_A_RUN = ("gaps.csv", "metrics.jsonl", "timings.jsonl", "manifest.json")
KEPT = (*LIBRARY_FILES, *OF_A_RUN)  # written in this order: the last makes a run
GROUP = re.compile(r"[\w+=-][\w.+=-]*")


@dataclass(frozen=True)
class Collected:
    """Where a run is kept now, and whether it was not there before."""

    path: Path
    new: bool


def collect(runs: Sequence[Path], root: Path, group: str | None = None, force: bool = False) -> list[Collected]:
    """Copy what is kept of runs, finished or not; the group is that of their stream unless it is named.

    Nothing at all is copied if one of them is no run, or if other data are in its place; `force` replaces those.
    """
    if group is not None and not GROUP.fullmatch(group):
        raise DreeError(f"'{group}' cannot be the name of a group: use letters, digits and + - = . _ only.")
    contents: dict[Path, dict[str, bytes]] = {}
    for path in runs:
        folder = RunFolder.open(path)
        if group is None and path.resolve().is_relative_to(root.resolve()):
            raise DreeError(f"{path} is kept already. To keep it in another group too, name that with --group.")
        target = root / (group or "-".join(stream_words(folder.settings()))) / kept_name(folder)
        content = _content(folder)
        if contents.setdefault(target, content) != content:
            raise DreeError(f"Two of these runs would both be {target}. Put one of them elsewhere with --group.")
    there = {target: _files(target) for target in contents}
    for target, content in contents.items():
        changed = [name for name in OF_A_RUN if there[target].get(name) != content.get(name)]
        if not changed:  # the same run: what is known of its solver stays, or is replaced
            contents[target] = there[target] | content
        elif there[target] and not force:
            raise DreeError(
                f"{target} holds other data ({', '.join(sorted(changed))}). Nothing was copied. "
                "Replace it with --force, or keep both with --group."
            )
    for target, content in contents.items():
        if there[target] != content:
            _write(target, content)
    return [Collected(target, there[target] != content) for target, content in contents.items()]


def collected(root: Path) -> dict[str, list[Path]]:
    """The runs that are kept, by group, in the order of their names; what is no run is passed over."""
    groups: dict[str, list[Path]] = {}
    for manifest in sorted(root.glob("*/[!.]*/manifest.json")):  # a point: left over where one was being written
        groups.setdefault(manifest.parent.parent.name, []).append(manifest.parent)
    return groups


def kept_name(folder: RunFolder) -> str:
    """What a run is called where it is kept: as `dree run` calls it, and by the precision it has learned in."""
    settings = override(folder.settings(), {"learner.precision": "auto"})
    return f"{run_name(settings, nearest_preset(settings))}-{learned_in(folder)}"


def learned_in(folder: RunFolder) -> str:
    """The precision in which a run has learned; of runs that did not record it, the one that was set."""
    precision = folder.manifest()["hardware"].get("precision", folder.settings().learning.precision)
    return str(precision)


def _content(folder: RunFolder) -> dict[str, bytes]:
    """What is kept of a run, if it can be read; a line that is being written is left out."""
    if not folder.gaps()[0]:
        raise folder.untested()
    library_gaps(folder)
    content = _files(folder.path)
    for name in ("metrics.jsonl", "timings.jsonl"):
        folder.log(name)
        if name in content:
            content[name] = content[name][: content[name].rfind(b"\n") + 1]
    return content


def _files(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in KEPT if (path / name).is_file()}


def _write(path: Path, content: dict[str, bytes]) -> None:
    """Put files in the place of what is kept there, once all are on the disk; until the last, the folder is no run."""
    path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as temporary:
        for name, data in content.items():
            write_bytes(Path(temporary) / name, data)
        for name in reversed(KEPT):
            (path / name).unlink(missing_ok=True)
        for name in (name for name in KEPT if name in content):
            (Path(temporary) / name).rename(path / name)
