"""The state directory: a solver that keeps learning, with all its versions, and everything needed to go on.

`state.json` is the one point of commit: it is replaced in one step, and names every other file with its hash. Those
lie in `files`, each written whole, under a name made of its content, before `state.json` names it. So a process that
is killed at any moment leaves the state of the last day that was finished.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from dree.bars import Say
from dree.errors import DreeError
from dree.files import sync_folder, write_bytes, write_json
from dree.lifelong.checkpoint import checkpoint_parts, load_checkpoint
from dree.service.lock import LOCK
from dree.service.records import Day, File, LearnerAt, Past, Rollback, Settings, Version
from dree.solvers import Solver

FORMAT = 1
STATE = "state.json"
FILES = "files"
UNFINISHED = f".{STATE}."  # how the name begins of what a process left that was killed while it wrote


class DamagedError(DreeError):
    """A file of a state directory that is not as it was written."""


@dataclass(frozen=True)
class State:
    """A state directory as `state.json` has it. Reading needs no lock and changes nothing."""

    path: Path
    settings: Settings
    versions: tuple[Version, ...]  # by number, from 0
    in_use: int  # the number of the version that solves
    learner: LearnerAt
    days: tuple[Day, ...] = ()  # all that came, in their order; those that count are `seen`
    past: tuple[Past, ...] = ()  # days on which forgetting is measured; those that count are the reservoir
    rollbacks: tuple[Rollback, ...] = ()

    @staticmethod
    def create(path: Path, settings: Settings, solver: Solver, when: str) -> State:
        """A new state directory, whose version 0 is a given solver. To be called while it is locked."""
        check_new(path)
        file = store(path, "solver", {"solver": solver.state_dict()})
        first = Version(0, when, promoted=True, solver=file, reason="the solver to start from")
        state = State(path, settings, (first,), 0, LearnerAt(0, None))
        state.commit()
        sync_folder(path.parent)
        return state

    @staticmethod
    def exists(path: Path) -> bool:
        """Whether there is a state directory."""
        return (path / STATE).is_file()

    @staticmethod
    def open(path: Path) -> State:
        """What is there; a newer format, a damaged `state.json` and missing files are said."""
        content = _read(path)
        try:
            return _from_plain(path, content)
        except (KeyError, TypeError, ValueError, IndexError, ArithmeticError) as error:
            raise DreeError(
                f"{path / STATE} is damaged ({type(error).__name__}: {error}). Restore it from a backup."
            ) from None

    def going_back(self, number: int) -> str:
        """The command that puts an earlier version to use again."""
        return shlex.join(["dree", "history", str(self.path), "--rollback", str(number)])

    def lineage(self, number: int) -> frozenset[int]:
        """A version and those that it was learned from, back to the start."""
        found = {number}
        while (parent := self.versions[number].parent) is not None:
            number = parent
            found.add(number)
        return frozenset(found)

    @property
    def seen(self) -> tuple[Day, ...]:
        """The days that count: all but those of versions that somebody went back from."""
        counted = self.lineage(self.learner.version)
        return tuple(day for day in self.days if day.version is None or day.version in counted)

    @property
    def reservoir(self) -> tuple[Past, ...]:
        """The past days that count, on which forgetting is measured."""
        counted = self.lineage(self.learner.version)
        return tuple(past for past in self.past if past.version in counted)

    def solver(self, say: Say = print) -> Solver:
        """The solver of the version in use, on the CPU."""
        return self.answering(say)[1]

    def answering(self, say: Say = print) -> tuple[Version, Solver]:
        """The version that solves, and its solver: the one in use or, where it is damaged, the newest good before it.

        What is passed over is said. Versions that somebody went back from come last.
        """
        before = [each for each in reversed(self.versions[: self.in_use]) if each.promoted and each.solver]
        before.sort(key=lambda each: each.number not in self.lineage(self.in_use))
        for version in (self.versions[self.in_use], *before):
            try:
                return version, self.solver_of(version)
            except DamagedError as error:
                say(f"{error} Version {version.number} cannot solve; looking for the newest good one before it.")
        raise DreeError(f"No solver in {self.path} can be used any more. Restore the folder from a backup.")

    def solver_of(self, version: Version) -> Solver:
        """The solver of any version that is still kept."""
        if version.solver is None:
            kept = ", ".join(str(each.number) for each in self.versions if each.solver)
            raise DreeError(f"The solver of version {version.number} is no longer kept. There are: {kept}.")
        solver = self.settings.make_solver()
        solver.load_state_dict(self.load(version.solver)["solver"])
        return solver.eval()

    def load(self, file: File) -> dict[str, Any]:
        """What a file holds, once its hash is found right."""
        path = self.path / FILES / file.name
        wrong = _wrong(path, file)
        if wrong:
            raise DamagedError(f"{path} {wrong}.")
        return load_checkpoint(path)

    def damaged(self) -> dict[File, str]:
        """What is wrong with the files, a sentence for each; their content is read, which takes a moment."""
        found = {file: _wrong(self.path / FILES / file.name, file) for file in self.files()}
        return {file: f"{self.path / FILES / file.name} {wrong}." for file, wrong in found.items() if wrong}

    def spare(self) -> dict[File, int]:
        """The solvers that only going back to their versions needs, with the numbers of these."""
        in_use = self.versions[self.in_use].solver
        return {each.solver: each.number for each in self.versions if each.solver and each.solver != in_use}

    def files(self) -> Iterator[File]:
        """Every file that `state.json` names."""
        yield from (version.solver for version in self.versions if version.solver)
        yield from (past.file for past in self.past)
        if self.learner.file:
            yield self.learner.file

    def commit(self) -> None:
        """Make this the state, in one step."""
        write_json(self.path / STATE, self._plain())

    def clean(self, before: State) -> None:
        """Remove, where possible, what neither this state names nor the one before it, which a reader may have."""
        named = {file.name for file in (*self.files(), *before.files())}
        killed = self.path.glob(f"{UNFINISHED}*")
        for path in (*(each for each in (self.path / FILES).iterdir() if each.name not in named), *killed):
            with suppress(OSError):  # what cannot be removed, as on some network drives, does no harm
                path.unlink()

    @contextmanager
    def unharmed(self) -> Iterator[None]:
        """Take away the files that were added, if work on the next state fails, or a full disk would never be mended.

        What `state.json` names by then stays: the work may have failed in the very last step, after its commit.
        """
        folder = self.path / FILES
        there = {each.name for each in folder.iterdir()} if folder.is_dir() else set()  # it is missed where it is read
        try:
            yield
        except BaseException:
            with suppress(DreeError, OSError):
                named = {file.name for file in State.open(self.path).files()}
                for path in folder.iterdir():
                    if path.name not in there | named:
                        path.unlink()
            raise

    def _plain(self) -> dict[str, Any]:
        """For JSON."""
        records = ("versions", "days", "past", "rollbacks")
        return {
            "format": FORMAT,
            "settings": self.settings.plain(),
            "in_use": self.in_use,
            "learner": asdict(self.learner),
            **{name: [asdict(each) for each in getattr(self, name)] for name in records},
        }


def store(path: Path, kind: str, content: Mapping[str, Any]) -> File:
    """Write tensors and plain values to a file of a state directory, under a name that no other content has."""
    parts = checkpoint_parts(content)
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    name = f"{kind}-{digest.hexdigest()[:16]}.safetensors"
    written = write_bytes(path / FILES / name, *parts)
    return File(name, digest.hexdigest(), written.stat().st_size)


def check_new(path: Path) -> None:
    """Refuse a place for a new state directory where there is something else; a creation that was killed is none."""
    if path.exists() and not path.is_dir():
        raise DreeError(f"{path} is a file. Name a folder for the state.")
    if State.exists(path):
        raise just_made(path)
    names = [each.name for each in path.glob("*") if each.name not in (LOCK, FILES)]
    strangers = [name for name in names if not name.startswith(UNFINISHED)]
    inside = [each.name for each in path.glob(f"{FILES}/*") if not each.name.startswith(("solver-", ".solver-"))]
    if strangers:
        raise DreeError(f"{path} is no state directory and not empty: it holds {strangers[0]}. Name another folder.")
    if inside:
        raise DreeError(f"{path} has lost its {STATE}. Restore it from a backup, or name another folder.")


def just_made(path: Path) -> DreeError:
    """The error where a state has come to be that was not there a moment ago."""
    return DreeError(f"Another process has just made {path}. Give the same command again.")


def _read(path: Path) -> dict[str, Any]:
    """What `state.json` says, if it is one that this program can read."""
    if not State.exists(path):
        raise DreeError(f"{path} is not a state directory: it has no {STATE}. Make one with: dree learn {path} DAY.csv")
    try:
        content = json.loads((path / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DreeError(f"{path / STATE} cannot be read ({error}). Restore it from a backup.") from None
    found = content.get("format") if isinstance(content, dict) else None
    if isinstance(found, int) and found > FORMAT:
        raise DreeError(
            f"{path} was written by a newer dree: its format is {found}, this program knows formats up to {FORMAT}. "
            "Update dree: pip install --upgrade dree"
        )
    if found != FORMAT:
        raise DreeError(f"{path / STATE} is damaged: it has no format. Restore it from a backup.")
    return dict(content)


def _from_plain(path: Path, content: Mapping[str, Any]) -> State:
    days = tuple(Day.of(each) for each in content["days"])
    versions = {day.name: day.version for day in days}
    rollbacks = tuple(Rollback(**each) for each in content["rollbacks"])
    state = State(
        path,
        Settings.of(content["settings"]),
        _with_parents([Version.of(each) for each in content["versions"]], rollbacks),
        content["in_use"],
        LearnerAt.of(content["learner"]),
        days,
        tuple(Past.of(each, versions) for each in content["past"]),
        rollbacks,
    )
    for number in (state.in_use, state.learner.version):
        if not 0 <= number < len(state.versions):
            raise ValueError(f"there is no version {number}")
    for version in state.versions:
        if version.parent is not None and not 0 <= version.parent < version.number:
            raise ValueError(f"version {version.number} cannot come of version {version.parent}")
    return state


def _with_parents(versions: Sequence[Version], rollbacks: Sequence[Rollback]) -> tuple[Version, ...]:
    """Versions with what they come of: the one before, in the first states, unless somebody went back in between."""
    found = list(versions[:1])
    for before, version in pairwise(versions):
        since = [
            each.to for each in rollbacks if each.left < version.number and before.when <= each.when <= version.when
        ]
        parent = [before.number, *since][-1] if version.parent is None else version.parent
        found.append(replace(version, parent=parent))
    return tuple(found)


def _wrong(path: Path, file: File) -> str | None:
    """What is wrong with a file, if anything is."""
    try:
        if path.stat().st_size != file.bytes:
            return "is damaged: it has not the length it was written with"
        with path.open("rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() != file.sha256:
                return "is damaged: it is not what was written"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None
