"""The page: complete in one file, well formed, escaped, and readable without its pictures."""

from html.parser import HTMLParser

import pytest

from dree.errors import DreeError
from dree.evaluation.metrics import METRICS
from dree.report import (
    Heading,
    Picture,
    Row,
    Table,
    Text,
    gaps_section,
    learning_curves,
    metrics_section,
    write_page,
)

VOID = {"meta", "img", "br", "link", "input", "hr"}
EVIL = "<script>alert('&')</script>"


class Page(HTMLParser):
    """Reads a page and refuses tags that are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style" and data.strip():
            self.words.append(data.strip())

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture(scope="module")
def picture():
    figure = learning_curves([0, 1, 2], {"U": [3.0, 2.0, 1.0]}, {"U": [(1, 2)]})
    return Picture.of(figure, f"curves {EVIL}", f'a "falling" line {EVIL}')


@pytest.fixture(scope="module")
def html(picture, tmp_path_factory):
    metrics = {"DREE": {"AP": (1.0, 0.1), "AFB": 0.5, "AMFB": 0.75, "ABPl": 0.5}, EVIL: {"AP": 2.0}}
    sections = [
        Heading(f"Results {EVIL}"),
        Text(f"First {EVIL}\n\n\n\nSecond"),
        metrics_section(metrics),
        gaps_section({"DREE": {"U": 1.0, "sh-2": None}, "Li": {"U": 1.004, "sh-2": 3.0}}),
        Heading("Curves"),
        picture,
        Heading("More"),
        Table(EVIL, EVIL, (EVIL,), (Row(EVIL, (EVIL,), EVIL),), EVIL),
    ]
    facts = {"problem": "CVRP", f"seed {EVIL}": f"12 {EVIL}"}
    path = tmp_path_factory.mktemp("page") / "deep" / "report.html"
    assert write_page(path, f"A run {EVIL}", f"below {EVIL}", sections, facts, f"dree run {EVIL}") == path
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    return path.read_text(encoding="utf-8")


def test_the_page_is_well_formed_and_escaped(html):
    page = Page(html)
    assert page.all("script") == []
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert f"A run {EVIL}" in page.words


def test_nothing_is_fetched_from_elsewhere(html):
    page = Page(html)
    assert "http://" not in html
    assert "https://" not in html
    assert "url(" not in html
    assert "@import" not in html
    for tag, attrs in page.tags:
        assert tag not in {"link", "iframe", "object", "embed"}
        assert all(attrs[name].startswith(("data:image/", "#")) for name in ("src", "href") if name in attrs)
    assert any("default-src 'none'" in (meta.get("content") or "") for meta in page.all("meta"))


def test_every_picture_has_words(html, picture):
    (image,) = Page(html).all("img")
    assert image == {"src": picture.uri, "alt": picture.alt}


def test_the_header_has_the_facts_and_the_command(html):
    words = Page(html).words
    for fact in ("problem", "CVRP", f"seed {EVIL}", f"12 {EVIL}", f"dree run {EVIL}", f"below {EVIL}"):
        assert fact in words


def test_the_contents_lead_to_the_headings(html):
    page = Page(html)
    targets = [link["href"].removeprefix("#") for link in page.all("a")]
    assert targets == [heading["id"] for heading in page.all("h2")]
    assert len(targets) == 3


def test_every_metric_is_explained_and_the_smallest_value_is_marked(html):
    words = Page(html).words
    assert set(METRICS) | set(METRICS.values()) <= set(words)
    assert "smaller is better" in html
    table = metrics_section({"A": {"AP": (1.0, 0.1), "AFB": 3.0}, "B": {"AP": 2.0, "AFB": 2.0}})
    assert table.columns == ("A", "B")
    assert table.rows[0] == Row("AP", ("1.00 ± 0.10", "2.00"), METRICS["AP"], (0,))
    assert table.rows[1].best == (1,)
    assert table.rows[2] == Row("AMFB", ("–", "–"), METRICS["AMFB"])


def test_gaps_that_read_the_same_are_equally_good():
    table = gaps_section({"DREE": {"U": 1.0, "sh-2": None}, "Li": {"U": 1.004, "sh-2": 3.0}}, {"sh-2": "Shanghai"})
    assert table.rows == (Row("Uniform", ("1.00", "1.00"), best=(0, 1)), Row("Shanghai", ("–", "3.00")))


def test_light_dark_phone_and_paper_are_provided_for(html):
    for rule in ("prefers-color-scheme: dark", "@media print", "@media (max-width", "width=device-width"):
        assert rule in html


def test_a_small_page_has_no_contents_and_no_command(tmp_path):
    html = write_page(tmp_path / "a.html", "title", "", [Text("words")], {}).read_text()
    page = Page(html)
    assert page.all("nav") == page.all("dl") == page.all("pre") == []
    assert page.words == ["title", "title", "words"]


def test_what_would_spoil_the_page_is_refused():
    with pytest.raises(DreeError, match="inline"):
        Picture("https://example.org/a.png", "caption", "alt")
    with pytest.raises(DreeError, match="alt"):
        Picture("data:image/png;base64,", "caption", "  ")
    with pytest.raises(DreeError, match="row 'r': 1 cells for 2 columns"):
        Table("t", "", ("a", "b"), (Row("r", ("1",)),))
    with pytest.raises(DreeError, match="Unknown metric 'APP'"):
        metrics_section({"DREE": {"APP": 1.0}})
    with pytest.raises(DreeError, match="no metrics"):
        metrics_section({})
    with pytest.raises(DreeError, match="no gaps"):
        gaps_section({"DREE": {}})
