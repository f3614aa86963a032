"""LaDe-D's files come whole and with the right hash or not at all, and only what is missing is asked for."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner

from dree.bars import Part
from dree.cli import app
from dree.data import lade_download
from dree.data.lade_download import PUBLISHED, REVISION, download
from dree.errors import DreeError
from lade_tables import HEADER, days

CITIES = {"sh": "Shanghai", "hz": "Hangzhou", "cq": "Chongqing", "jl": "Jilin", "yt": "Yantai"}
FIRST = {city: 10_000 * number for number, city in enumerate(CITIES)}


def content(city: str) -> bytes:
    lines = [HEADER, *days({601: 30, 602: 12}, "7", CITIES[city], first=FIRST[city])]
    return "".join(f"{line}\n" for line in lines).encode()


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


class Hub(ThreadingHTTPServer):
    """The dataset's addresses: pointers under /raw, files under /resolve, which sends on to /store."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {f"delivery_{city}.csv": content(city) for city in CITIES}
        self.hashes = {name: sha256(body) for name, body in self.files.items()}
        self.ranges = True
        self.pointers = True
        self.lengths = True
        self.back = 0  # a range begins so many bytes too early
        self.most: int | None = None  # a range has at most so many bytes
        self.total: str | None = None  # what a range says of the length of the whole
        self.cut: int | None = None  # the connection breaks after so many bytes
        self.asked: list[tuple[str, str | None]] = []  # what was asked for, and its range

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/LaDe"

    @property
    def bodies(self) -> list[tuple[str, str | None]]:
        """The files that were asked for."""
        return [(path.removeprefix("store/"), span) for path, span in self.asked if path.startswith("store/")]


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        path, span = self.path.removeprefix("/LaDe/"), self.headers["Range"]
        self.server.asked.append((path, span))
        kind, name = path.split("/")[0], path.split("/")[-1]
        if name not in self.server.files or path not in (f"{kind}/{REVISION}/delivery/{name}", f"store/{name}"):
            self.send_error(404)
        elif kind == "raw":
            pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.server.hashes[name]}\nsize 1\n"
            self._send(200, pointer.encode() if self.server.pointers else self.server.files[name])
        elif kind == "resolve":
            self._send(302, b"", Location=f"/LaDe/store/{name}")
        else:
            self._send_file(self.server.files[name], span)

    def _send_file(self, body: bytes, span: str | None) -> None:
        if span is None or not self.server.ranges:
            self._send(200, body)
            return
        start = int(span.removeprefix("bytes=").removesuffix("-"))
        if start >= len(body):
            self.send_error(416)
        else:
            start -= self.server.back
            some = body[start:][: self.server.most]
            total = self.server.total or len(body)
            self._send(206, some, **{"Content-Range": f"bytes {start}-{start + len(some) - 1}/{total}"})

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        if self.server.lengths:
            self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        whole = self.server.cut is None or status == 302
        self.wfile.write(body if whole else body[: self.server.cut])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(monkeypatch) -> Iterator[Hub]:
    with Hub() as server:
        monkeypatch.setenv("DREE_LADE_URL", f"{server.address}/")
        monkeypatch.setenv("no_proxy", "*")
        monkeypatch.setattr(lade_download, "BLOCK", 1000)
        for city, known in PUBLISHED.items():  # the same hashes are known as of the true files
            mine = known._replace(sha256=known.sha256 and sha256(content(city)))
            monkeypatch.setitem(PUBLISHED, city, mine)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "new" / "lade"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_known_hashes_are_hashes():
    assert {city for city, known in PUBLISHED.items() if known.sha256} == {"hz", "cq", "jl"}
    assert all(len(bytes.fromhex(known.sha256)) == 32 for known in PUBLISHED.values() if known.sha256)


def test_all_five_files_come_with_their_hashes(hub, folder):
    said: list[str] = []
    download(folder, say=said.append)
    assert names(folder) == ["SHA256SUMS", *sorted(hub.files)]
    assert all((folder / name).read_bytes() == body for name, body in hub.files.items())
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    assert lines == [f"{sha256(content(city))}  delivery_{city}.csv" for city in CITIES]
    assert hub.bodies == [(f"delivery_{city}.csv", None) for city in CITIES]
    pointers = [path for path, _ in hub.asked if path.startswith("raw/")]
    assert pointers == [f"raw/{REVISION}/delivery/delivery_{city}.csv" for city in ("sh", "yt")]
    assert said[0].endswith(f"from {hub.address}: about 696 MB.")
    assert said[1:] == [f"Fetched {folder / f'delivery_{city}.csv'}" for city in CITIES]


def test_only_chosen_cities_come_and_none_twice(hub, folder):
    download(folder, ["yt", "jl", "yt"])
    assert names(folder) == ["SHA256SUMS", "delivery_jl.csv", "delivery_yt.csv"]
    assert hub.bodies == [("delivery_yt.csv", None), ("delivery_jl.csv", None)]


def test_what_is_there_is_not_asked_for_again(hub, folder):
    download(folder, ["sh", "cq"])
    hub.asked.clear()
    said: list[str] = []
    download(folder, ["sh", "cq"], said.append)
    assert (hub.asked, said) == ([], ["Already there: 2 of 2 files."])


def test_a_file_fetched_by_hand_is_checked_and_recorded(hub, folder):
    folder.mkdir(parents=True)
    (folder / "delivery_sh.csv").write_bytes(content("sh"))
    download(folder, ["sh"])
    assert [path.split("/")[0] for path, _ in hub.asked] == ["raw"]
    assert (folder / "SHA256SUMS").read_text() == f"{sha256(content('sh'))}  delivery_sh.csv\n"


@pytest.mark.parametrize("city", ["sh", "hz"])
def test_after_a_cut_only_the_missing_bytes_are_asked_for(hub, folder, city):
    body, name = content(city), f"delivery_{city}.csv"
    hub.cut = 1500  # pointers are shorter
    with pytest.raises(DreeError, match=f"broke off {len(body) - 1500} bytes before the end of {name}.*goes on"):
        download(folder, [city])
    assert (folder / f"{name}.part").read_bytes() == body[:1500]
    assert names(folder) == [f"{name}.part"]
    hub.cut = None
    seen: list[float] = []
    download(folder, [city], bars=counting(seen))
    assert hub.bodies == [(name, None), (name, "bytes=1500-")]
    assert names(folder) == ["SHA256SUMS", name]
    assert (folder / name).read_bytes() == body
    assert seen == [PUBLISHED[city].size - 1500, *[1000] * ((len(body) - 1500) // 1000), (len(body) - 1500) % 1000]


def counting(seen: list[float]):
    """A bar that notes its total, then every advance."""

    @contextmanager
    def bars(total: float) -> Iterator[Part]:
        seen.append(total)
        yield lambda words, weight: seen.append

    return bars


def test_without_ranges_it_begins_again(hub, folder):
    folder.mkdir(parents=True)
    part = folder / "delivery_jl.csv.part"
    part.write_bytes(b"something else" * 1000)
    hub.ranges = False
    download(folder, ["jl"])
    assert hub.bodies == [("delivery_jl.csv", f"bytes={14 * 1000}-")]
    assert (folder / "delivery_jl.csv").read_bytes() == content("jl")
    assert not part.exists()


@pytest.fixture
def part(folder) -> Path:
    """The first 1500 bytes of Jilin's file, fetched by an earlier call."""
    folder.mkdir(parents=True)
    path = folder / "delivery_jl.csv.part"
    path.write_bytes(content("jl")[:1500])
    return path


def refused(folder: Path, words: str) -> None:
    """Jilin's file does not come; its part is right and alone in the folder."""
    with pytest.raises(DreeError, match=words):
        download(folder, ["jl"])
    assert names(folder) == ["delivery_jl.csv.part"]
    assert content("jl").startswith((folder / "delivery_jl.csv.part").read_bytes())


def test_a_range_that_begins_elsewhere_is_not_appended(hub, folder, part):
    hub.back = 100
    refused(folder, "asked for the bytes from 1500 on, but sends 'bytes 1400-")
    assert part.stat().st_size == 1500


def test_a_range_that_ends_early_is_kept_and_goes_on(hub, folder, part):
    hub.most = 1200
    refused(folder, f"broke off {len(content('jl')) - 2700} bytes before the end .* kept")
    assert part.stat().st_size == 2700
    hub.most = None
    download(folder, ["jl"])
    assert (folder / "delivery_jl.csv").read_bytes() == content("jl")


def test_a_range_of_an_unknown_whole_is_kept(hub, folder, part):
    hub.most, hub.total = 1200, "*"
    refused(folder, "so it is not used. delivery_jl.csv.part is kept")
    assert part.stat().st_size == 2700


@pytest.mark.parametrize("lengths", [True, False])
def test_a_page_in_place_of_the_rest_leaves_the_part(hub, folder, part, lengths):
    hub.ranges, hub.lengths = False, lengths
    hub.files["delivery_jl.csv"] = b"<html>Log in, please</html>"
    refused(folder, "so it is not used. delivery_jl.csv.part is kept")
    assert part.stat().st_size == 1500


def test_a_whole_file_that_breaks_off_leaves_the_part(hub, folder, part):
    hub.ranges, hub.cut = False, 1000
    refused(folder, f"broke off {len(content('jl')) - 1000} bytes before the end")
    assert part.stat().st_size == 1500


def test_a_cut_that_no_length_tells_of_leaves_the_part(hub, folder):
    hub.lengths, hub.cut = False, 1500
    refused(folder, "so it is not used. delivery_jl.csv.part is kept")
    hub.cut = None
    download(folder, ["jl"])
    assert hub.bodies[-1] == ("delivery_jl.csv", "bytes=1500-")
    assert names(folder) == ["SHA256SUMS", "delivery_jl.csv"]


def test_a_part_that_is_whole_already_becomes_the_file(hub, folder):
    folder.mkdir(parents=True)
    (folder / "delivery_sh.csv.part").write_bytes(content("sh"))
    download(folder, ["sh"])
    assert hub.bodies == [("delivery_sh.csv", f"bytes={len(content('sh'))}-")]
    assert names(folder) == ["SHA256SUMS", "delivery_sh.csv"]


@pytest.mark.parametrize("part", [b"other bytes", b"x" * 100_000])
def test_a_wrong_part_is_deleted_and_the_next_call_begins_anew(hub, folder, part):
    folder.mkdir(parents=True)
    (folder / "delivery_cq.csv.part").write_bytes(part)
    with pytest.raises(DreeError, match=f"not {sha256(content('cq'))}, so it was deleted. Call again"):
        download(folder, ["cq"])
    assert names(folder) == []
    download(folder, ["cq"])
    assert (folder / "delivery_cq.csv").read_bytes() == content("cq")


def test_a_file_with_another_hash_than_the_hub_says_is_refused(hub, folder):
    hub.hashes["delivery_sh.csv"] = "0" * 64
    with pytest.raises(DreeError, match=f"has the SHA-256 {sha256(content('sh'))}, not {'0' * 64}") as error:
        download(folder, ["sh"])
    assert "SHA256SUMS" not in str(error.value)
    assert names(folder) == []


def test_a_file_that_changes_on_the_hub_after_it_was_recorded_is_refused(hub, folder):
    download(folder, ["yt"])
    recorded = (folder / "SHA256SUMS").read_bytes()
    (folder / "delivery_yt.csv").unlink()
    hub.files["delivery_yt.csv"] += b"one more\n"
    hub.hashes["delivery_yt.csv"] = sha256(hub.files["delivery_yt.csv"])
    with pytest.raises(DreeError, match="delete its line in SHA256SUMS"):
        download(folder, ["yt"])
    assert names(folder) == ["SHA256SUMS"]
    assert (folder / "SHA256SUMS").read_bytes() == recorded


def test_another_file_under_the_name_is_left_as_it_is(hub, folder):
    download(folder, ["jl", "sh"])
    (folder / "delivery_sh.csv").write_bytes(b"mine")
    with pytest.raises(DreeError, match=f"delivery_sh.csv is not the published file: .* {sha256(b'mine')}, not"):
        download(folder)
    assert (folder / "delivery_sh.csv").read_bytes() == b"mine"
    assert names(folder) == ["SHA256SUMS", "delivery_jl.csv", "delivery_sh.csv"]


def test_foreign_lines_of_the_sums_stay(hub, folder):
    folder.mkdir(parents=True)
    (folder / "SHA256SUMS").write_text(f"# mine\n{'a' * 64}  notes on delivery_jl.csv\n{'b' * 64}  delivery_jl.csv\n")
    download(folder, ["jl"])
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    assert lines == ["# mine", f"{'a' * 64}  notes on delivery_jl.csv", f"{sha256(content('jl'))}  delivery_jl.csv"]


def test_without_a_network_it_says_what_to_fetch_by_hand(folder, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
    monkeypatch.setenv("DREE_LADE_URL", address)
    monkeypatch.setenv("no_proxy", "*")
    for city, asked in (("sh", "raw"), ("hz", "resolve")):
        with pytest.raises(DreeError) as error:
            download(folder, [city])
        path = f"{REVISION}/delivery/delivery_{city}.csv"
        assert str(error.value).startswith(f"Cannot reach {address}/{asked}/{path}: [Errno 111] Connection refused.")
        assert f"fetch {address}/resolve/{path} elsewhere, put it at {folder}/delivery_{city}.csv" in str(error.value)
        assert names(folder) == []


def test_an_address_that_is_not_there_is_named(hub, folder):
    del hub.files["delivery_sh.csv"], hub.files["delivery_jl.csv"]
    folder.mkdir(parents=True)
    (folder / "delivery_jl.csv.part").write_bytes(b"half")
    for city, kind in (("sh", "raw"), ("jl", "resolve")):
        address = f"{hub.address}/{kind}/{REVISION}/delivery/delivery_{city}.csv"
        with pytest.raises(DreeError, match=f"^{address} answers 404 Not Found. Try later"):
            download(folder, [city])
    assert names(folder) == ["delivery_jl.csv.part"]


def test_a_mirror_without_pointers_is_refused(hub, folder):
    hub.pointers = False
    with pytest.raises(DreeError, match="does not give the hash of delivery_sh"):
        download(folder, ["sh"])
    assert names(folder) == []


def test_a_full_disk_is_named_and_the_part_stays(hub, folder):
    folder.mkdir(parents=True)
    (folder / "delivery_jl.csv.part").symlink_to("/dev/full")
    with pytest.raises(DreeError, match=r"No space left on device\. What was fetched is kept"):
        download(folder, ["jl"])
    assert names(folder) == ["delivery_jl.csv.part"]


def stopping(done: float) -> None:
    raise KeyboardInterrupt


@contextmanager
def stopped(total: float) -> Iterator[Part]:
    """A bar under which the user presses Ctrl-C after the first bytes."""
    yield lambda words, weight: stopping


def test_what_was_fetched_before_an_interruption_stays(hub, folder):
    with pytest.raises(KeyboardInterrupt):
        download(folder, ["hz"], bars=stopped)
    assert (folder / "delivery_hz.csv.part").read_bytes() == content("hz")[:1000]
    download(folder, ["hz"])
    assert hub.bodies[-1] == ("delivery_hz.csv", "bytes=1000-")


def test_unknown_cities_and_impossible_places_are_refused(hub, folder, tmp_path, monkeypatch):
    with pytest.raises(DreeError, match=r"Unknown city 'bj'\. .*Choose from: sh, hz, cq, jl, yt"):
        download(folder, ["sh", "bj"])
    (tmp_path / "file").write_text("")
    with pytest.raises(DreeError, match="file cannot be one: File exists"):
        download(tmp_path / "file")
    monkeypatch.setenv("DREE_LADE_URL", "/mirror")
    with pytest.raises(DreeError, match="DREE_LADE_URL is /mirror, but must begin with https"):
        download(folder)
    assert (hub.asked, folder.exists()) == ([], False)


@pytest.mark.parametrize("city", ["sh", "jl"])
@pytest.mark.parametrize("address", ["http://[bad", "{hub}/ü"])
def test_an_address_that_is_none_is_named(hub, folder, monkeypatch, city, address):
    monkeypatch.setenv("DREE_LADE_URL", address.format(hub=hub.address))
    with pytest.raises(DreeError, match=r"is not a valid address: .* Correct DREE_LADE_URL"):
        download(folder, [city])


def test_sums_that_are_not_text_are_named(hub, folder):
    folder.mkdir(parents=True)
    (folder / "SHA256SUMS").write_bytes(b"\xff\xfe")
    with pytest.raises(DreeError, match=r"Cannot read .*SHA256SUMS: .* Delete it"):
        download(folder, ["sh"])
    assert hub.asked == []


def test_a_folder_under_the_name_is_named(hub, folder):
    (folder / "delivery_jl.csv").mkdir(parents=True)
    with pytest.raises(DreeError, match=r"Cannot read .*delivery_jl.csv: Is a directory\. Move it away"):
        download(folder, ["jl"])


def invoke(*arguments: object):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["data", "lade", *map(str, arguments)])


def test_the_command_downloads_and_goes_on(hub, folder):
    pytest.importorskip("pyarrow")
    result = invoke(folder, "--download", "--city", "sh", "--city", "jl")
    assert result.exit_code == 0, result.output
    assert "84 rows, all of them used." in result.output
    assert "cities: 2, regions: 2" in result.output
    assert f"Fetched {folder / 'delivery_jl.csv'}" in result.output
    hub.asked.clear()
    again = invoke(folder, "--download", "--city", "sh", "--city", "jl")
    assert "Already there: 2 of 2 files." in again.output
    assert "84 rows, all of them used." in again.output
    assert hub.asked == []


def test_the_command_says_that_it_was_stopped(hub, folder, monkeypatch):
    monkeypatch.setattr("dree.cli_lade.bar", stopped)
    result = invoke(folder, "--download")
    assert result.exit_code == 130
    assert result.output.endswith("Stopped. What was fetched is kept: the same command goes on.\n")
    assert names(folder) == ["delivery_sh.csv.part"]


def test_cities_are_for_downloads(folder):
    result = invoke(folder, "--city", "sh")
    assert isinstance(result.exception, DreeError)
    assert "--city is for --download" in str(result.exception)
