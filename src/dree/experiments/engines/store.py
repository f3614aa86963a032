"""Runs' folders in one place for machines that share no disk: anything that fsspec has a URL for."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from dree.errors import DreeError
from dree.experiments.folder import RunFolder
from dree.lifelong.checkpoint import checkpoints

LOGS = ("manifest.json", "metrics.jsonl", "timings.jsonl", "gaps.csv")
PART = ".part"  # the end of the name of a file that is not there in full


class Store:
    """Copies of runs' folders, each as of a checkpoint. The logs of a copy are never older than its checkpoint."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise DreeError("A store needs fsspec, which is not installed: pip install 'dree[ray]'.") from None
        with self._explained():
            self._files, self._root = url_to_fs(self.url)

    def push(self, folder: RunFolder) -> None:
        """Copy a run to the store, its newest checkpoint last; other checkpoints of it there are deleted then."""
        place = f"{self._root}/{folder.path.name}"
        with self._explained():
            self._files.makedirs(f"{place}/checkpoint", exist_ok=True)
            there = self._checkpoints(folder.path.name)
            for name in LOGS:
                if (folder.path / name).exists():
                    self._put(folder.path / name, f"{place}/{name}")
            ours = checkpoints(folder.checkpoints)
            for path in reversed(ours):
                if there.get(path.name) != path.stat().st_size:
                    self._put(path, f"{place}/checkpoint/{path.name}")
            for name in there.keys() - {path.name for path in ours}:
                self._files.rm_file(f"{place}/checkpoint/{name}")

    def fetch(self, path: Path, check: Callable[[Path], object]) -> None:
        """Put a run that the store has in its place, unless what is there is as far; `check` may refuse either.

        It is put there in one step. What was there, an earlier state of the same run, is deleted.
        """
        if path.exists():
            check(path)
        with self._explained():
            reached = max(self._checkpoints(path.name), default="")
        newest = [each.name for each in checkpoints(path / "checkpoint")][:1]
        if reached <= max(newest, default=""):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as temporary:
            copy = Path(temporary) / "new"
            self._get(path.name, copy)
            try:
                check(copy)
            except DreeError as error:
                raise DreeError(str(error).replace(str(copy), f"{self.url}/{path.name}")) from None
            with RunFolder(path).locked() if path.exists() else nullcontext():
                if path.exists():
                    path.rename(Path(temporary) / "old")
                copy.rename(path)

    def _checkpoints(self, name: str) -> dict[str, int]:
        """The checkpoints of a run that are there in full, with their sizes."""
        folder = f"{self._root}/{name}/checkpoint"
        self._files.invalidate_cache()
        if not self._files.exists(folder):
            return {}
        found = {Path(each["name"]).name: int(each["size"]) for each in self._files.ls(folder, detail=True)}
        return {file: size for file, size in found.items() if file.endswith(".safetensors")}

    def _put(self, path: Path, target: str) -> None:
        """Copy a file: under another name first, so that it is never there in part."""
        self._files.put_file(str(path), target + PART)
        self._files.mv(target + PART, target)

    def _get(self, name: str, target: Path) -> None:
        """Copy a run from the store."""
        place = f"{self._root}/{name}"
        (target / "checkpoint").mkdir(parents=True)
        with self._explained():
            for log in LOGS:
                if self._files.exists(f"{place}/{log}"):
                    self._files.get_file(f"{place}/{log}", str(target / log))
            for file in self._checkpoints(name):
                self._files.get_file(f"{place}/checkpoint/{file}", str(target / "checkpoint" / file))

    @contextmanager
    def _explained(self) -> Iterator[Any]:
        """Every kind of store has errors of its own."""
        try:
            yield
        except Exception as error:
            raise DreeError(
                f"The store {self.url} cannot be used ({type(error).__name__}: {error}). Check the URL, its "
                "credentials, and that fsspec's package for it is installed, such as s3fs."
            ) from error
