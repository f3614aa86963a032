"""Hooks of the documentation's site: links that leave docs/ go on working in it.

In the repository the pages link to kept results, to examples and to each other's headings, and a web page of the
repository follows these links. The site has only what is built into it. So every file that a page links to is built in
too: a Markdown file as a page, a folder as a page that lists its files, anything else as it is. No page is changed for
that. In the site docs/ is the root, and everything else has the path that it has in the repository.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

DOCS, README = "docs", "README.md"
ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<=\]\()(?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n"
IGNORED = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
MADE = {name.removeprefix("/") for name in IGNORED}  # by commands: no part of the repository
CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.DOTALL | re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name headings as the repository's web page does, so that links to them fit both."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify(case="lower")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Build in what pages link to outside docs/, and what that links to."""
    waiting = [file.src_uri for file in files.documentation_pages()]
    while waiting:
        file = files.get_file_from_path(waiting.pop())
        assert file is not None
        for path in _linked(file):
            if not (path.startswith(f"{DOCS}/") or files.get_file_from_path(_source(path))):
                files.append(_built_in(path, config))
                if _source(path).endswith(".md"):
                    waiting.append(_source(path))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to where their targets are in the site."""

    def moved(link: re.Match[str]) -> str:
        path = _target(_place(page.file), link["target"])
        if path is None:
            return link[0]
        return quote(os.path.relpath(_source(path), Path(page.file.src_uri).parent)) + (link["anchor"] or "")

    return "".join(part if CODE.fullmatch(part) else LINK.sub(moved, part) for part in CODE.split(markdown))


def _linked(file: File) -> Iterator[str]:
    """The paths in the repository that a page links to."""
    for link in LINK.finditer(CODE.sub("", file.content_string)):
        path = _target(_place(file), link["target"])
        if path is not None:
            yield path


def _target(place: str, target: str) -> str | None:
    """The path in the repository of a link in a file there; None for an address, or where nothing is there."""
    if re.match(r"[a-z]+:", target):
        return None
    path = os.path.normpath(Path(place).parent / unquote(target))
    return path if not path.startswith("..") and (ROOT / path).exists() else None


def _place(file: File) -> str:
    """Where a page of the site is in the repository."""
    if file.generated_by is None:
        return f"{DOCS}/{file.src_uri}"
    return file.src_uri


def _source(path: str) -> str:
    """What the site takes for the source of a file or folder in the repository; a README stands for its folder."""
    if (ROOT / path).is_dir():
        path = f"{path}/{README}" if (ROOT / path / README).is_file() else f"{path}/index.md"
    return path.removeprefix(f"{DOCS}/")


def _built_in(path: str, config: MkDocsConfig) -> File:
    """A file or folder of the repository as a file of the site."""
    source = _source(path)
    if Path(source).name in (README, "index.md"):
        file = File.generated(config, source, content=_folder_page(ROOT / Path(source).parent))
    else:
        file = File.generated(config, source, abs_src_path=str(ROOT / path))
    file.inclusion = InclusionLevel.NOT_IN_NAV
    return file


def _folder_page(folder: Path) -> str:
    """A folder's README, if it has one, with links to the rest of the folder below."""
    names = sorted(f"{each.name}/" if each.is_dir() else each.name for each in folder.iterdir())
    names = [name for name in names if name not in MADE]
    links = [f"- [{name}]({quote(name)})" for name in names if not name.startswith((".", "__")) and name != README]
    if README not in names:
        return "\n".join([UNSEARCHED, f"# {folder.relative_to(ROOT)}", "", *links, ""])
    return "\n".join([(folder / README).read_text(encoding="utf-8"), "## Files", "", *links, ""])
