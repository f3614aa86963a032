"""LaDe-D's public files, fetched from where they are published: with the right hash, or not at all.

What came of a file before the connection broke stays as NAME.part, and the next call goes on with it. It is deleted
only when it is as long as the file and has another hash. `SHA256SUMS` in the same folder has the hashes of all files
that were found right there; from then on they must not change.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from dree.bars import Advance, Bars, Say, no_bar
from dree.errors import DreeError, unknown
from dree.files import only_one_in, write_text

HUB = "https://huggingface.co/datasets/Cainiao-AI/LaDe"
REVISION = "be2cec02775cafc8d52230303f32134382bcc50b"  # a commit, so that everyone fetches the same
SUMS = "SHA256SUMS"
PATIENCE = 60  # seconds without an answer
BLOCK = 1 << 20
SPAN = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
SUM = re.compile(r"^([0-9a-f]{64})  (.+)$", re.MULTILINE)
POINTER = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\n")


class Published(NamedTuple):
    """What is known of a file before it is fetched."""

    size: int  # about so many bytes, for the bar
    sha256: str | None  # None: the hub is asked


PUBLISHED = {
    "sh": Published(228_000_000, None),
    "hz": Published(287_000_000, "9969df2a5c79dadc6149c384e3632eccc0417d01a2575a74db2310e786541c22"),
    "cq": Published(145_000_000, "114a35e9a31f817a3c9efb8513924688706bcedfa85ccd69df696eb5e8eddea2"),
    "jl": Published(4_736_342, "12e2cf4664dd5b4475d39dddee8872f5a03b3082f08f0eece7f103baee6c6e73"),
    "yt": Published(31_500_000, None),
}


def download(folder: Path, cities: Sequence[str] = (), say: Say = lambda _: None, bars: Bars = no_bar) -> None:
    """Bring the files of these cities (none named: of all) into a folder, but for those that are there and right."""
    for city in cities:
        if city not in PUBLISHED:
            raise unknown("city", city, PUBLISHED)
    hub = _hub()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DreeError(f"Files are downloaded into a folder, but {folder} cannot be one: {error.strerror}.") from error
    with only_one_in(folder):
        files = [_File(city, folder, hub) for city in dict.fromkeys(cities or PUBLISHED)]
        missing = [file for file in files if not file.is_there()]
        if len(missing) < len(files):
            say(f"Already there: {len(files) - len(missing)} of {len(files)} files.")
        if not missing:
            return
        total = sum(file.left for file in missing)
        say(f"Fetching {', '.join(file.name for file in missing)} from {hub}: about {round(total / 1e6)} MB.")
        with bars(total) as part:
            for number, file in enumerate(missing, start=1):
                file.fetch(part(f"fetching {file.name} ({number} of {len(missing)})", 1.0))
                say(f"Fetched {file.path}")


def _hub() -> str:
    """Where the dataset is: `$DREE_LADE_URL`, a mirror with the same paths, or the hub itself."""
    hub = os.environ.get("DREE_LADE_URL") or HUB
    if not hub.startswith(("https://", "http://")):
        raise DreeError(f"DREE_LADE_URL is {hub}, but must begin with https:// or http://, as {HUB} does.")
    return hub.rstrip("/")


@dataclass(frozen=True)
class _File:
    """The file of one city: where it comes from and where it goes."""

    city: str
    folder: Path
    hub: str

    @property
    def name(self) -> str:
        return f"delivery_{self.city}.csv"

    @property
    def path(self) -> Path:
        return self.folder / self.name

    @property
    def part(self) -> Path:
        return self.folder / f"{self.name}.part"

    @property
    def anew(self) -> Path:
        """Where the whole file goes when it comes although a part is there."""
        return self.folder / f"{self.name}.part.new"

    @property
    def address(self) -> str:
        return f"{self.hub}/resolve/{REVISION}/delivery/{self.name}"

    @property
    def left(self) -> int:
        """About so many bytes are still to come."""
        return max(PUBLISHED[self.city].size - _size(self.part), 0)

    def is_there(self) -> bool:
        """Whether the whole file is there. Another one under its name is refused."""
        if not self.path.exists():
            return False
        found, expected = _sha256(self.path), self._expected()
        if found != expected:
            raise DreeError(
                f"{self.path} is not the published file: its SHA-256 is {found}, not {expected}. Move it away and it "
                "is fetched, or leave --download out and it is read as it is."
            )
        self._record(found)
        return True

    def fetch(self, advance: Advance) -> None:
        """Fetch what is missing; the file has its name only when its hash is right."""
        expected = self._expected()
        try:
            came, whole = self._complete(advance)
            found = _sha256(came)
            if found != expected:
                raise self._wrong(found, expected, keep=came != self.part or not whole)
            self._record(found)
            came.replace(self.path)
            self.part.unlink(missing_ok=True)
        finally:
            self.anew.unlink(missing_ok=True)

    def _wrong(self, found: str, expected: str, keep: bool) -> DreeError:
        """What to say of a wrong hash. The part is deleted, but for one whose bytes may be right."""
        if not keep:
            self.part.unlink()
        fate = (
            f"is not used. {self.part.name} is kept: call again to go on with it"
            if keep
            else "was deleted. Call again to fetch it anew"
        )
        recorded = f" If the change is meant, delete its line in {SUMS}." if self.name in self._sums() else ""
        return DreeError(
            f"What came as {self.name} has the SHA-256 {found}, not {expected}, so it {fate}; if that does not help, "
            f"{self.address} has changed.{recorded}"
        )

    def _expected(self) -> str:
        """The hash that the file must have: the published one, the one that it had before, or what the hub says."""
        return PUBLISHED[self.city].sha256 or self._sums().get(self.name) or self._asked()

    def _asked(self) -> str:
        """The hash in the pointer that the dataset's history has in place of a large file."""
        address = f"{self.hub}/raw/{REVISION}/delivery/{self.name}"
        with self._reaching(address), urlopen(_request(address), timeout=PATIENCE) as answer:
            found = POINTER.match(answer.read(1024))
        if found is None:
            raise DreeError(
                f"{address} does not give the hash of {self.name}, so that it could not be checked. If DREE_LADE_URL "
                "is a mirror, it lacks these addresses: try without it."
            )
        return str(found[1], "ascii")

    def _complete(self, advance: Advance) -> tuple[Path, bool]:
        """Ask for the bytes that the part lacks. Gives where the file is now, and whether it is known to be whole."""
        start = _size(self.part)
        with self._reaching(self.address):
            try:
                answer = urlopen(_request(self.address, start), timeout=PATIENCE)
            except HTTPError as error:
                if error.code == 416 and start:  # nothing is missing
                    error.close()
                    return self.part, True
                raise
        with answer:
            rest = answer.status == 206  # else the whole file comes
            missing = self._missing(answer, start) if rest else answer.length
            path = self.part if rest or not start else self.anew
            try:
                with path.open("ab" if rest else "wb") as file:
                    for chunk in self._chunks(answer, answer.length if missing is None else missing):
                        file.write(chunk)
                        advance(len(chunk))
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise DreeError(
                    f"Cannot write {path}: {error.strerror}. What was fetched is kept. Make room, then the same "
                    "command goes on."
                ) from error
        return path, missing is not None

    def _missing(self, answer: HTTPResponse, start: int) -> int | None:
        """So many bytes follow the first ones, if the answer says it. One that begins elsewhere is refused."""
        said = answer.headers["Content-Range"] or ""
        span = SPAN.fullmatch(said)
        if span is None or int(span[1]) != start:
            raise DreeError(
                f"{self.address} was asked for the bytes from {start} on, but sends '{said}'. What was fetched is "
                f"kept. Try later, or delete {self.part} and it is fetched anew."
            )
        return None if span[2] == "*" else int(span[2]) - start

    def _chunks(self, answer: HTTPResponse, length: int | None) -> Iterator[bytes]:
        """The bytes of an answer, all of them."""
        left = length or 0
        with self._reaching(self.address):
            while chunk := answer.read(BLOCK):
                left -= len(chunk)
                yield chunk
        if left > 0:
            raise DreeError(
                f"The connection broke off {left} bytes before the end of {self.name}. What was fetched is kept: the "
                "same command goes on."
            )

    @contextmanager
    def _reaching(self, address: str) -> Iterator[None]:
        """Say what to do when an address cannot be reached, or no longer."""
        try:
            yield
        except HTTPError as error:
            error.close()
            raise DreeError(
                f"{address} answers {error.code} {error.reason}. Try later, or see at {HUB} whether the files have "
                "moved. DREE_LADE_URL names another address."
            ) from error
        except (OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, URLError) else error
            raise DreeError(
                f"Cannot reach {address}: {reason or type(error).__name__}. What was fetched is kept: with a network, "
                f"the same command goes on. Or fetch {self.address} elsewhere, put it at {self.path} and leave "
                "--download out."
            ) from error
        except ValueError as error:
            raise DreeError(
                f"{address} is not a valid address: {error}. Correct DREE_LADE_URL (other letters than ASCII are "
                f"written as %XX), or leave it out: then {HUB} is asked."
            ) from error

    def _sums(self) -> dict[str, str]:
        """The hashes that were recorded in the folder, by name."""
        return {name: sha256 for sha256, name in SUM.findall(self._recorded())}

    def _record(self, sha256: str) -> None:
        if self._sums().get(self.name) != sha256:
            others = [line for line in self._recorded().splitlines() if not line.endswith(f"  {self.name}")]
            write_text(self.folder / SUMS, "".join(f"{line}\n" for line in [*others, f"{sha256}  {self.name}"]))

    def _recorded(self) -> str:
        sums = self.folder / SUMS
        try:
            return sums.read_text(encoding="utf-8") if sums.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise DreeError(f"Cannot read {sums}: {error}. Delete it and it is written anew.") from error


def _request(address: str, start: int = 0) -> Request:
    return Request(address, headers={"User-Agent": "dree", **({"Range": f"bytes={start}-"} if start else {})})


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DreeError(f"Cannot read {path}: {error.strerror}. Move it away and the file is fetched.") from error
