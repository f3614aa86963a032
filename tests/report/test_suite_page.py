"""The page of a suite: what is in it, before any browser runs its script."""

from __future__ import annotations

import json
import re
import sys
from itertools import pairwise

import pytest
from suite_examples import EVIL, LAWS, example_suite

from dree.errors import DreeError
from dree.experiments import RunFolder
from dree.report.method_looks import method_looks
from dree.report.suite_groups import RunGroup, view_of
from dree.report.suite_page import Suite, write_suite_page
from run_folders import run_with_gaps

TITLES = ["Explosion", "Compression", "Grid", "Uniform", "Ring", "Gaussian mixture"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("suite")


@pytest.fixture(scope="module")
def suite(folder):
    return example_suite(folder)


@pytest.fixture(scope="module")
def html(suite, folder):
    text = write_suite_page(folder / "page.html", suite).read_text(encoding="utf-8")
    return re.sub(r"<script>/\*\*\n\* plotly.*?</script>", "<script></script>", text, flags=re.DOTALL)


@pytest.fixture(scope="module")
def data(html):
    return json.loads(re.search(r'<script type="application/json" id="suite-data">(.*?)</script>', html)[1])


def words(html):
    return re.sub(r"\s+", " ", re.sub("<.*?>", " ", html))


def test_everything_is_escaped(html):
    assert EVIL not in html
    assert html.count("<script") == 3  # plotly, the data, the page's own
    for text in ("Paper", "All of it", "smoke", "Table 1: Main", "DREE", "With weights", "Table 3: no data"):
        assert f"{text} &lt;script&gt;" in html


def test_headings_are_in_order_and_links_lead_somewhere(html):
    headings = re.findall(r"<h(\d)", html)
    assert headings[0] == "1"
    assert all(int(after) <= int(before) + 1 for before, after in pairwise(headings))
    targets = set(re.findall(r'href="#([^"]*)"', html))
    assert {"tables", "table-0", "table-1", "runs", "group-0", "group-1", "figures", "figure-0", "missing"} == targets
    assert targets <= set(re.findall(r'id="([^"]*)"', html))


def test_a_cell_has_ours_the_published_number_and_the_difference(html):
    text = words(html)
    assert "8.50 (0.31) published 8.75 (4.40) difference -0.25 5.00 published 5.47 difference -0.47" in text
    assert "2.50 published 3.04 difference -0.54 – " in text
    assert '<td class="best" data-order="3.0"><span>3.00 (0.10)</span>' in html
    assert "One seed." in text
    assert "fine-tuning 2 runs" in text


def test_a_long_table_is_folded(html):
    assert html.count("<details>") == 1
    assert "All 50 rows" in html


def test_measures_are_explained(html):
    text = words(html)
    assert "AP Average performance" in text
    assert "Gen Generalisation" not in text


def test_the_curves_have_a_line_for_each_method_and_task_with_grey_where_it_is_learned(suite, data):
    curves = data[0]["curves"]
    folders = [RunFolder.open(path) for path in suite.groups[0].runs.values()]
    assert [panel["title"].partition(",")[0] for panel in curves["panels"]] == TITLES
    for law, panel in zip(LAWS, curves["panels"], strict=True):
        assert panel["bands"] == [[first - 1, last] for first, last in folders[0].stream().active(law)]
        assert [line["method"] for line in panel["lines"]] == [0, 1]
        for line, folder in zip(panel["lines"], folders, strict=True):
            epochs, matrix, tasks = folder.gaps()
            assert line["x"] == epochs == [0, 1, 2, 3, 4, 5]
            assert line["y"] == pytest.approx(matrix[:, tasks.index(law)].tolist(), rel=1e-4)
    assert curves["learned"] == {str(t): folders[0].stream().task(t).name for t in range(1, 6)}
    assert [method["name"] for method in data[0]["methods"]] == ["fine-tuning", "dree"]
    assert data[0]["methods"] == data[1]["methods"]  # one colour on the whole page


def test_what_a_method_remembers_is_drawn_for_it_alone(data):
    panels = data[0]["numbers"]["panels"]
    assert [panel["title"] for panel in panels][:2] == ["remembered experiences", "memory for them (MiB)"]
    assert {line["method"] for panel in panels for line in panel["lines"]} == {1}
    assert panels[0]["lines"][0]["x"] == [1, 2, 3, 4, 5]


def test_costs_have_bars(html, suite):
    folder = RunFolder.open(suite.groups[0].runs["dree"])
    times = [row["seconds"] for row in folder.log("timings.jsonl")]
    mean = sum(times) / len(times)
    assert f"<span>{mean:.{2 if mean >= 0.1 else 4}f} s</span>" in html
    assert '<rect width="100.0"' in html


def test_routes_are_there_where_weights_are_kept(data, html):
    assert data[1]["routes"] is None
    assert "fine-tuning: its weights are not kept. dree: its weights are not kept." in words(html)
    routes = data[0]["routes"]
    assert [solver["name"] for solver in routes["solvers"]] == ["reference", "fine-tuning", "dree"]
    assert len(routes["tests"]) == 6
    for number, test in enumerate(routes["tests"]):
        for solver in routes["solvers"]:
            answer = solver["answers"][number]
            stops = sorted(stop for route in answer["routes"] for stop in route)
            assert stops == list(range(1, len(test["points"])))
            reference = routes["solvers"][0]["answers"][number]["length"]
            assert answer["gap"] == pytest.approx(100 * (answer["length"] / reference - 1), abs=0.1)
        assert min(min(point) for point in test["points"]) >= 0
        assert max(max(point) for point in test["points"]) <= 1000


def test_what_is_missing_is_said_with_the_reason(html):
    text = words(html[html.index('<h2 id="missing"') :])
    assert "Table 3: no data" in text
    assert "Without weights, lost: " in text
    assert "Nothing left, lost: " in text
    assert "is not a run" in text


def test_runs_of_another_stream_and_unfinished_runs(tmp_path):
    row = [5.0] * 6
    first = run_with_gaps(tmp_path / "a", [row, row], [0, 100], LAWS, epochs=100)
    half = run_with_gaps(tmp_path / "b", [row], [0], LAWS, epochs=100, method="dree")
    other = run_with_gaps(tmp_path / "c", [row], [0], LAWS, epochs=50)
    view = view_of(
        RunGroup("G", {"whole": first, "half": half, "other": other}),
        method_looks({name: name for name in ("whole", "half", "other")}),
    )
    assert [row.note for row in view.tables[0].rows] == ["", "up to epoch 0 of 100"]
    assert len(view.missing) == 1
    assert "another stream" in view.missing[0]
    assert [row.total for row in view.times] == ["–", "–"]


def test_a_reference_has_its_gaps_at_the_end_alone_and_is_never_marked_as_best(tmp_path):
    last = {"mt-ref": 1.0, "fine-tuning": 3.0, "dree": 2.0}
    runs = {
        method: run_with_gaps(tmp_path / method, [[0.5] * 6, [gap] * 6], [0, 1000], LAWS, method=method)
        for method, gap in last.items()
    }
    view = view_of(RunGroup("G", runs, {"mt-ref"}), method_looks({name: name for name in runs}))
    metrics, gaps = ({row.name: row for row in table.rows} for table in view.tables)
    assert metrics["mt-ref"].cells == ("1.00", "–", "–", "–")
    assert metrics["dree"].cells == ("2.00", "1.50", "1.50", "0.50")
    assert gaps["mt-ref"].cells == ("1.00",) * 6
    assert [row.best for row in metrics.values()] == [(), (3,), (0, 1, 2, 3)]
    assert [row.best for row in gaps.values()] == [(), (), tuple(range(6))]


def test_a_long_log_is_thinned_out(tmp_path):
    path = run_with_gaps(tmp_path / "a", [[5.0] * 6], [0], LAWS)
    for epoch in range(1, 1001):
        RunFolder(path).append("metrics.jsonl", {"epoch": epoch, "replays": float("nan") if epoch == 1 else epoch})
    line = view_of(RunGroup("G", {"a": path}), method_looks({"a": "a"})).plain["numbers"]["panels"][0]["lines"][0]
    assert (line["x"][0], line["x"][-1], len(line["x"])) == (1, 1000, 250)
    assert line["y"][0] is None  # JSON has no NaN


def test_an_empty_suite_has_a_page(tmp_path):
    html = write_suite_page(tmp_path / "a.html", Suite("Empty")).read_text()
    assert "Nothing: everything that was asked for" in html


def test_without_plotly_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(DreeError, match=r"pip install 'dree\[report\]'"):
        write_suite_page(tmp_path / "a.html", Suite("Empty"))
    assert list(tmp_path.glob("*.html")) == []
