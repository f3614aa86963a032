"""The documentation as files and as a site: pages are in the navigation, and every link leads somewhere."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md"), *(ROOT / "results").glob("*/README.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
FENCE, CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE), re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(\s*<?([^)>\s]+)>?[^)]*\)")
ADDRESS = re.compile(r"[a-z][a-z+.-]*:|//")


def links(text: str) -> list[str]:
    """The links of a page that are no addresses."""
    found = LINK.findall(CODE.sub("", FENCE.sub("", text)))
    return [link for link in found if not ADDRESS.match(link)]


def anchors(text: str) -> set[str]:
    """The names of a page's headings, as the repository's web page and the site give them."""
    taken: dict[str, int] = {}
    found = set()
    for heading in re.findall(r"^#+ +(.+?)\s*$", FENCE.sub("", text), re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        taken[name] = taken.get(name, -1) + 1
        found.add(f"{name}-{taken[name]}" if taken[name] else name)
    return found


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_link_of_a_page_leads_to_something_in_the_repository(page):
    for link in links(page.read_text(encoding="utf-8")):
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT), f"{link} leaves the repository"
        assert target.exists(), f"there is no {link}"
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), f"no heading for {link}"


def test_every_page_is_in_the_navigation_once():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r"[\w/-]+\.md", navigation)
    assert sorted(named) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[a](b.md) and [c](d.md#e)", ["b.md", "d.md#e"]),
        ("`[a](b.md)`\n\n```\n[a](b.md)\n```\n", []),
        ("[a](https://example.org) [b](mailto:a@example.org)", []),
        ("![a picture](a.png)", ["a.png"]),
    ],
)
def test_links_are_found_but_not_in_code(text, found):
    assert links(text) == found


def test_headings_are_named_as_on_the_web():
    text = "# Problems for `dree solve`\n## A1: what, and why?\n## Twice\n## Twice\n```\n# code\n```\n"
    assert anchors(text) == {"problems-for-dree-solve", "a1-what-and-why", "twice", "twice-1"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with warnings as errors."""
    if importlib.util.find_spec("material") is None:
        pytest.skip("the site needs mkdocs-material: pip install 'dree[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    return folder


class _Page(HTMLParser):
    """What a page of the site links to and fetches, and the names in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.names: set[str | None] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.names.add(given.get("id"))
        target = given.get("href") or given.get("src")
        if target is not None:
            (self.links if tag == "a" else self.fetched).append(target)


def test_every_link_of_the_site_leads_somewhere_and_nothing_is_fetched_from_elsewhere(site):
    pages = {path: _Page(path) for path in site.rglob("*.html")}
    assert len(pages) > len(PAGES) / 2
    for path, page in pages.items():
        assert not [target for target in page.fetched if ADDRESS.match(target)]
        for link in [*page.links, *page.fetched]:
            if ADDRESS.match(link) or link.startswith("/"):  # the page for wrong addresses has the latter
                continue
            target, _, anchor = link.partition("#")
            there = (path.parent / unquote(target)).resolve() if target else path
            assert there.is_file(), f"{path.relative_to(site)} links to {link}"
            assert not anchor or there not in pages or unquote(anchor) in pages[there].names, f"no {link}"


def test_the_site_has_nothing_that_commands_have_made(tmp_path, monkeypatch):
    """Such as the demo's page, to which no page of the repository links."""
    pytest.importorskip("mkdocs")
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    hooks = importlib.import_module("site_hooks")
    for name in ("runs", "site", "src"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(hooks, "ROOT", tmp_path.parent)
    assert re.findall(r"\]\((.*)\)", hooks._folder_page(tmp_path)) == ["src/"]


def test_the_site_has_what_pages_link_to_outside_docs(site):
    assert (site / "results/small-stream/index.html").is_file()
    assert (site / "results/small-stream/dree-0/gaps.csv").is_file()
    assert (site / "examples/own_method.py").read_bytes() == (ROOT / "examples/own_method.py").read_bytes()
