"""A run's folder: its manifest, its logs, its gap matrix and its checkpoints.

`manifest.json` is there from the first moment. `metrics.jsonl` (a line per epoch) and `gaps.csv` (a row per tested
epoch) follow the newest checkpoint: what an interrupted run had logged after it is dropped when the run goes on,
so that both end the same as those of a run that was never interrupted. Wall-clock times, which never are, have
`timings.jsonl` to themselves.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dree.errors import DreeError
from dree.experiments.circumstances import circumstances
from dree.experiments.configuration import RecordedSettings, RunSettings
from dree.files import check_folder, lock, write_text
from dree.lifelong.checkpoint import checkpoints
from dree.settings import build
from dree.tasks import RecordedStream, Stream
from dree.tasks.lade import LadeStream

FORMAT = 1
CONVERTED = "converted"  # the kind of a folder whose solver comes from elsewhere
PRETRAINED = "pretrained"  # the kind of a folder whose solver was made to start from
LIBRARY_FILES = ("tsplib.json", "cvrplib.json")  # what its solver does on library instances, if somebody wanted that
# With a number: left over by a process that was killed while it wrote the file.
OWN_FILES = re.compile(
    r"checkpoint|\.lock|\.?(manifest\.json|(metrics|timings)\.jsonl|gaps\.csv|report\.html|(tsp|cvrp)lib\.json)(\.\d+)?"
)


class TakenError(DreeError):
    """A place for a new run where there is something already."""

    def __init__(self, path: Path, resume: str, choose: str = "another folder") -> None:
        """`resume` and `choose` are what to do, in the words of whoever asks: of a program, or of a command."""
        if not (path / "manifest.json").exists():
            go_on = "It is no run. Choose"
        elif RunFolder(path).solver_alone:
            go_on = "It is a solver alone. Choose"
        elif checkpoints(RunFolder(path).checkpoints):
            go_on = f"Continue it with {resume}, or choose"
        elif (log := path / "metrics.jsonl").exists() and log.stat().st_size:  # a kept run, which cannot go on
            go_on = "Choose"
        else:
            go_on = f"It has no checkpoint yet, so {resume} begins it again from the start; or choose"
        super().__init__(f"{path} exists already. {go_on} {choose}.")
        self.path = path

    def to_command(self, command: str) -> TakenError:
        """The same, said to whoever gave a command such as `dree run`."""
        return TakenError(self.path, f"{command} --resume {self.path}", "another folder with --out")


class UntestedError(DreeError):
    """A run of which there are no gaps yet."""


class RunFolder:
    """The files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = path = Path(path)
        self.checkpoints = path / "checkpoint"
        self.report = path / "report.html"

    @staticmethod
    def create(path: Path, settings: RunSettings, record: Mapping[str, Any], kind: str = "run") -> RunFolder:
        """A new folder with its manifest; an existing one is never touched.

        `record` is what the manifest has of the run's data: `data`, the test sets' hashes, and of real days
        `deliveries`.
        """
        check_new(path)
        manifest = {
            "format": FORMAT,
            "kind": kind,
            "settings": settings.spelled_out(),
            "data": {},
            **record,
            **circumstances(settings),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            write_text(temporary / "manifest.json", json.dumps(manifest, indent=2) + "\n")
            temporary.chmod(0o755)
            temporary.rename(path)
        except BaseException as error:
            shutil.rmtree(temporary, ignore_errors=True)
            if isinstance(error, OSError):
                check_new(path)  # another process may have taken it just now
            raise
        return RunFolder(path)

    @staticmethod
    def open(path: str | Path) -> RunFolder:
        """An existing folder."""
        path = Path(path)
        if not (path / "manifest.json").is_file():
            inside = sorted(file.parent.name for file in path.glob("*/manifest.json"))
            hint = f" But it holds runs: {', '.join(inside)}. Name one of them." if inside else ""
            raise DreeError(f"{path} is not a run: it has no manifest.json.{hint}")
        return RunFolder(path)

    def manifest(self) -> dict[str, Any]:
        """What the run is and where it came from."""
        try:
            manifest: dict[str, Any] = json.loads((self.path / "manifest.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DreeError(f"The manifest of {self.path} cannot be read ({error}).") from None
        found = manifest.get("format") if isinstance(manifest, dict) else None
        if found != FORMAT:
            raise DreeError(
                f"{self.path} has run format {found}, this program reads format {FORMAT}. "
                "Use the version of dree that wrote it."
            )
        missing = {"kind", "settings", "data", "command", "versions", "hardware", "created"} - set(manifest)
        if missing:
            raise DreeError(f"The manifest of {self.path} is damaged: it lacks {', '.join(sorted(missing))}.")
        return manifest

    def settings(self) -> RunSettings:
        """The settings the run was started with; a manifest spells all of them out, so defaults may change.

        A method, base solver, scenario or law of the user's own need not be there, or may be another by now: only to
        learn or to solve is it needed.
        """
        settings = self.manifest()["settings"]
        if not isinstance(settings, dict):
            raise DreeError(f"The manifest of {self.path} is damaged: its settings are {settings!r}.")
        try:
            return build(RunSettings, settings)
        except DreeError:
            return build(RecordedSettings, settings)  # raises again what is not theirs

    @property
    def solver_alone(self) -> bool:
        """Whether there is a solver and nothing else of a run, which is tested before it learns."""
        if self.manifest()["kind"] == PRETRAINED or not checkpoints(self.checkpoints):
            return False
        return not any((self.path / name).exists() for name in ("gaps.csv", "metrics.jsonl"))

    def untested(self) -> UntestedError:
        """What to say where gaps are asked for, and there are none."""
        if self.solver_alone:
            return UntestedError(f"{self.path} is a solver alone, not a run. Test it with: dree evaluate {self.path}")
        return UntestedError(f"{self.path} has not been tested yet. Continue it with: dree run --resume {self.path}")

    def stream(self) -> Stream:
        """The run's stream, without the data it was made of: the days of a region are as the manifest has them.

        Of a scenario that is not here, the tasks are as they were logged.
        """
        manifest = self.manifest()
        if manifest.get("deliveries"):
            return LadeStream.recorded(manifest["deliveries"])
        stream = self.settings().stream()
        if not isinstance(stream, RecordedStream):
            return stream
        learned = {row["epoch"]: str(row["task"]) for row in self.log("metrics.jsonl") if "task" in row}
        before, after = f"{stream.problem}-", f"-{stream.spec}"
        return replace(
            stream,
            learned=learned,
            tested=tuple(name.removeprefix(before).removesuffix(after) for name in manifest["data"]),
        )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for one process; a second one is refused."""
        with (self.path / ".lock").open("w") as file:
            lock(file, lambda: f"Another process is working on {self.path}. Wait for it to end.")
            for left_over in self.checkpoints.glob(".*.safetensors.*"):  # of a process that was killed
                left_over.unlink()
            yield

    def strangers(self) -> list[Path]:
        """What lies in the folder and was not written by the run."""
        return [file for file in sorted(self.path.iterdir()) if not OWN_FILES.fullmatch(file.name)]

    def remove(self) -> None:
        """Delete what the run has written, its manifest last, and the folder if there is nothing else in it.

        To be called while the folder is `locked`.
        """
        strangers = self.strangers()
        own = [file for file in self.path.iterdir() if file not in strangers]
        for file in sorted(own, key=lambda file: file.name == "manifest.json"):
            if file.is_dir():
                shutil.rmtree(file)
            else:
                file.unlink()
        if not strangers:
            self.path.rmdir()

    def go_back_to(self, epoch: int) -> None:
        """Drop what was logged after an epoch; later checkpoints, which cannot be used, are set aside."""
        for path in checkpoints(self.checkpoints):
            if int(path.stem) > epoch:
                path.rename(path.with_name(f"{path.name}.unusable"))
        for name in ("metrics.jsonl", "timings.jsonl"):
            rows = [row for row in self.log(name) if row["epoch"] <= epoch]
            write_text(self.path / name, "".join(json.dumps(row) + "\n" for row in rows))

    def append(self, name: str, row: dict[str, Any]) -> None:
        """Add a line to a log."""
        with (self.path / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def log(self, name: str) -> list[dict[str, Any]]:
        """The complete lines of a log."""
        path = self.path / name
        needed = {"metrics.jsonl": {"epoch"}, "timings.jsonl": {"epoch", "seconds"}}.get(name, set())
        rows = []
        for number, line in enumerate(path.read_bytes().split(b"\n")[:-1] if path.exists() else [], start=1):
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            if not isinstance(row, dict) or not needed <= set(row):
                raise DreeError(f"{path} is damaged: line {number} is not what a run writes. Remove that line.")
            rows.append(row)
        return rows

    def write_gaps(self, epochs: list[int], matrix: Sequence[Sequence[float]], tasks: list[str]) -> None:
        """Replace the gap matrix: tested epochs down, test tasks across, per cent."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["epoch", *tasks])
        writer.writerows([epoch, *map(float, row)] for epoch, row in zip(epochs, matrix, strict=True))
        write_text(self.path / "gaps.csv", text.getvalue())

    def gaps(self) -> tuple[list[int], np.ndarray[Any, Any], list[str]]:
        """The tested epochs, the gap matrix and the names of the test tasks; empty before the first test."""
        path = self.path / "gaps.csv"
        if not path.exists():
            return [], np.zeros((0, 0)), []
        try:
            with path.open(encoding="utf-8", newline="") as file:
                (first, *tasks), *rows = csv.reader(file)
            if first != "epoch" or not tasks or not rows:
                raise ValueError("it is not a row of gaps for each tested epoch")
            if any(len(row) != 1 + len(tasks) for row in rows):
                raise ValueError("its lines do not all have as many numbers as the first has names")
            epochs = [int(row[0]) for row in rows]
            if any(later <= earlier for earlier, later in pairwise(epochs)):
                raise ValueError("its epochs do not increase from line to line")
            if absent := sorted(set(range(0, epochs[-1], self.settings().test_every)) - set(epochs)):
                raise ValueError(f"it lacks a row for epoch {absent[0]}, after which the run was tested")
            matrix = np.array([[float(cell) for cell in row[1:]] for row in rows])
            if not np.isfinite(matrix).all():
                raise ValueError("it has gaps that are not finite")
            return epochs, matrix, tasks
        except (ValueError, IndexError, csv.Error) as error:
            raise self.damaged_gaps(f"{error}.") from None

    def damaged_gaps(self, why: str) -> DreeError:
        """The error for a gap matrix that is not one; only from a checkpoint can a run write it again."""
        again = checkpoints(self.checkpoints)
        advice = "Remove it; a resumed run writes it again." if again else "Restore it from where it was kept."
        return DreeError(f"{self.path / 'gaps.csv'} is damaged: {why} {advice}")


class Onlooker(RunFolder):
    """The folder of a run as those of its processes have it that write nothing."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """It is, by the first process."""
        yield

    def go_back_to(self, epoch: int) -> None:
        """Nothing."""

    def append(self, name: str, row: dict[str, Any]) -> None:
        """Nothing."""

    def write_gaps(self, epochs: list[int], matrix: Sequence[Sequence[float]], tasks: list[str]) -> None:
        """Nothing."""


def check_new(path: Path, resume: str = "Run.resume(path)") -> None:
    """Refuse a place for a new run where there is something already, or where nothing can be written."""
    if path.exists():
        raise TakenError(path, resume)
    check_folder(path)
