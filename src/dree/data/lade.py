"""LaDe-D: what the regions of some CSV files had to deliver on each day, read once and then kept in compact form.

A kept file is named by what it was made of: the names and hashes of the CSV files. It begins with the SHA-256 of the
rest, an npz archive; a damaged one is made again.

Shapes: N packages, G pairs of region and day, L rows left out.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dree.bars import Bars, Say, no_bar
from dree.data.lade_csv import Progress, check_header
from dree.data.lade_rows import REASONS, UNITS, LeftOut, RegionId, Rows, date_of, read_rows
from dree.errors import DreeError, unknown
from dree.files import cache_folder, write_bytes, write_text
from dree.tasks.lade import LEAST_DAYS, RATIOS, Day, LadeStream, Source, learned_days

VERSION = 1  # of what is kept; a new one makes all of it again
EXAMPLES = 3  # lines named for each reason


@dataclass(frozen=True, eq=False)
class Region:
    """What one region had to deliver, day by day."""

    id: RegionId
    days: tuple[Day, ...]  # those with any packages, in order

    @property
    def name(self) -> str:
        """City and number, such as `sh-2`."""
        return self.id.name

    @property
    def packages(self) -> NDArray[np.int64]:
        """The number of packages of each day."""
        return np.array([day.packages for day in self.days], np.int64)

    @property
    def valid_days(self) -> int:
        """The days with enough packages to be used."""
        return sum(day.valid for day in self.days)

    def summary(self) -> dict[str, Any]:
        """The region's row of the paper's table, and how its stream would be divided, if it can be one.

        All days with packages count in the range, mean and (population) standard deviation, valid or not.
        """
        packages, valid = self.packages, self.valid_days
        learned = learned_days(valid) if valid >= LEAST_DAYS else 0
        return {
            "region": self.name,
            "city": self.id.city,
            "days": len(self.days),
            "valid_days": valid,
            "packages": int(packages.sum()),
            "least": int(packages.min()),
            "most": int(packages.max()),
            "mean": float(packages.mean()),
            "std": float(packages.std()),
            "learned_days": learned,
            "held_out_days": valid - learned if learned else 0,
        }

    def stream(self, ratio: float | None = None) -> LadeStream:
        """The region as a stream; the share of a day's packages in an instance is the paper's for its city."""
        if ratio is None and self.id.code not in RATIOS:
            raise DreeError(
                f"The paper has no share of a day's packages for {self.id.city}. Give one between 0 and 1 (--ratio), "
                "such that instances get about 10 to 100 nodes."
            )
        return LadeStream(self.name, self.days, RATIOS[self.id.code] if ratio is None else ratio)


@dataclass(frozen=True, eq=False)
class Deliveries:
    """All clean rows of some files by region and day, and what is known of the others."""

    key: str  # the hash of what they were made of
    files: tuple[str, ...]  # names
    counts: tuple[int, ...]  # rows of each file, the header not counted
    names: tuple[RegionId, ...]
    groups: NDArray[np.int64]  # [3, G] region, day and first package, sorted
    places: NDArray[np.int32]  # [N, 2] sorted by region and day, then as in the files
    left_out: LeftOut

    def region(self, name: str) -> Region:
        """The region with this name, such as `sh-2`."""
        known = [each.name for each in self.names]
        if name not in known:
            raise unknown("region", name, known)
        return self._region(known.index(name))

    def stream(self, name: str, ratio: float | None = None) -> LadeStream:
        """A region as a stream that knows which files it comes from."""
        return replace(self.region(name).stream(ratio), source=Source(self.files, self.key))

    def regions(self) -> Iterator[Region]:
        """All regions, sorted by city and number."""
        return map(self._region, range(len(self.names)))

    def reasons(self) -> dict[str, int]:
        """How many rows were left out for which reason, the commonest first."""
        return {REASONS[code]: count for code, count in Counter(self.left_out.reasons.tolist()).most_common()}

    def describe_left_out(self) -> list[str]:
        """A line for each reason: how many rows it took, and the first of them."""
        return [f"{count}: {reason} ({self._where(reason, count)})" for reason, count in self.reasons().items()]

    def _where(self, reason: str, count: int) -> str:
        """The first lines that were left out for a reason, with the file if there are several."""
        chosen = np.flatnonzero(self.left_out.reasons == REASONS.index(reason))[:EXAMPLES]
        files, lines = (column[chosen].tolist() for column in self.left_out[:2])
        words = [
            f"{self.files[file]} line {line}" if len(self.files) > 1 else f"line {line}"
            for file, line in zip(files, lines, strict=True)
        ]
        return ", ".join(words if count <= EXAMPLES else [*words, "..."])

    def _region(self, index: int) -> Region:
        _, days, starts = self.groups
        ends = np.append(starts[1:], len(self.places))
        return Region(
            self.names[index],
            tuple(
                Day(date_of(int(days[group])), self.places[starts[group] : ends[group]] / UNITS)
                for group in np.flatnonzero(self.groups[0] == index)
            ),
        )


def load_deliveries(source: Path, say: Say = lambda _: None, bars: Bars = no_bar) -> Deliveries:
    """What a file of LaDe-D, or a folder of them, holds."""
    paths = lade_files(source, say)
    with bars(2 * sum(path.stat().st_size for path in paths)) as part:
        return read_lade(paths, say, part(f"reading {source.name}", 1.0))


def lade_files(source: Path, say: Say = lambda _: None) -> list[Path]:
    """The CSV files that are meant: one, or all of a folder's, except those that are not LaDe's, which is said."""
    if not source.exists():
        raise DreeError(f"There is no file or folder {source}.")
    if not source.is_dir():
        check_header(source)
        return [source]
    found = []
    for path in sorted(path for path in source.iterdir() if path.suffix.lower() == ".csv" and path.is_file()):
        try:
            check_header(path)
            found.append(path)
        except DreeError as error:
            say(f"Left out: {error}")
    if not found:
        raise DreeError(f"There is no CSV file of LaDe-D in {source}.")
    return found


def read_lade(paths: Sequence[Path], say: Say = lambda _: None, progress: Progress = lambda _: None) -> Deliveries:
    """The deliveries in these files (see `lade_files`): what was kept of them, if anything, or else read anew.

    `progress` hears of all bytes when they are hashed, and again if they are read.
    """
    files = [(path.name, _hash(path, progress)) for path in paths]
    key = hashlib.sha256(json.dumps([VERSION, files]).encode()).hexdigest()
    found = _kept(key, say)
    if found is None:
        found = _grouped(key, [name for name, _ in files], read_rows(paths, progress))
        archive = _pack(found)
        write_bytes(kept_at(key), hashlib.sha256(archive).digest(), archive)
        log_at(key).unlink(missing_ok=True)
    if len(found.left_out.lines) and not log_at(key).exists():
        write_text(log_at(key), _log(found))
    if not found.names:
        reasons = "; ".join(found.describe_left_out()) or "there is none"
        raise DreeError(f"No row of {', '.join(map(str, paths))} can be used. {reasons}.")
    return found


def kept_at(key: str) -> Path:
    """Where deliveries are kept."""
    return cache_folder() / "lade" / f"{key[:32]}.lade"


def log_at(key: str) -> Path:
    """Where the rows that were left out are listed, if there are any: file, line and reason."""
    return kept_at(key).with_suffix(".left-out.csv")


def _hash(path: Path, progress: Progress) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            progress(len(chunk))
    return digest.hexdigest()


def _grouped(key: str, files: Sequence[str], rows: Rows) -> Deliveries:
    """Rows sorted by region and day; those of one day stay in the order of the files."""
    pairs = rows.regions * 1000 + rows.days
    order = np.argsort(pairs, kind="stable")
    found, starts = np.unique(pairs[order], return_index=True)
    groups = np.stack((found // 1000, found % 1000, starts))
    return Deliveries(
        key, tuple(files), tuple(rows.counts), tuple(rows.names), groups, rows.places[order], rows.left_out
    )


def _pack(deliveries: Deliveries) -> bytes:
    facts = {"files": deliveries.files, "counts": deliveries.counts, "names": deliveries.names}
    buffer = io.BytesIO()
    np.savez(
        buffer,
        facts=np.frombuffer(json.dumps(facts).encode(), np.uint8),
        groups=deliveries.groups,
        places=deliveries.places,
        left_out=np.stack(deliveries.left_out),
    )
    return buffer.getvalue()


def _kept(key: str, say: Say) -> Deliveries | None:
    """What was kept under this key, if it is there and sound."""
    try:
        content = kept_at(key).read_bytes()
    except FileNotFoundError:
        return None
    digest, archive = content[:32], content[32:]
    if hashlib.sha256(archive).digest() != digest:
        say(f"{kept_at(key)} is damaged and is made again.")
        return None
    with np.load(io.BytesIO(archive), allow_pickle=False) as arrays:
        facts = json.loads(arrays["facts"].tobytes())
        return Deliveries(
            key,
            tuple(facts["files"]),
            tuple(facts["counts"]),
            tuple(RegionId(*each) for each in facts["names"]),
            arrays["groups"],
            arrays["places"],
            LeftOut(*arrays["left_out"]),
        )


def _log(deliveries: Deliveries) -> str:
    """The rows left out as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("file", "line", "reason"))
    for file, line, reason in zip(*(column.tolist() for column in deliveries.left_out), strict=True):
        writer.writerow((deliveries.files[file], line, REASONS[reason]))
    return text.getvalue()
