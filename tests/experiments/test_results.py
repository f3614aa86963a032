"""Results of kept runs: what makes one line, and every number in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dree.experiments import RunFolder
from dree.experiments.results import Result, result_tables
from dree.tasks import make_stream
from run_folders import run_with_gaps

LAWS = ["E", "C", "G", "U", "R", "GM"]


def kept(
    path: Path,
    last: float = 2.0,
    device: str = "A GPU",
    precision: str = "bf16",
    tested: tuple[int, ...] = (0, 100),
    **settings: object,
) -> RunFolder:
    """A kept run of 100 epochs with gaps of 9 at first and `last` in the end, by default on a GPU."""
    order = settings.get("order", 1)
    laws = list(make_stream("drift", "cvrp", order, 100).order) if isinstance(order, int) else LAWS
    run_with_gaps(path, [[9.0] * 6, [last] * 6], list(tested), laws, **{"epochs": 100, **settings})
    folder = RunFolder(path)
    manifest = folder.manifest()
    manifest["hardware"] |= {"device": device, "precision": precision}
    (path / "manifest.json").write_text(json.dumps(manifest))
    return folder


def lines(root: Path) -> list[Result]:
    (table,) = result_tables(root)
    return list(table.results)


def test_seeds_make_one_line_with_mean_and_deviation_of_a_population(tmp_path):
    for seed, last in enumerate((1.0, 2.0, 6.0)):
        folder = kept(tmp_path / f"group/run{seed}", last, method="dree", seed=seed)
        for epoch in (1, 2):
            row = {"epoch": epoch, "seconds": float(seed + epoch), "peak_bytes": 100 * (seed + epoch)}
            folder.append("timings.jsonl", row)
    (line,) = lines(tmp_path)
    assert line.label == "dree"
    assert [run.settings.seed for run in line.runs] == [0, 1, 2]
    assert line.values["AP"] == pytest.approx((3.0, (14 / 3) ** 0.5))
    assert line.values["AFB"] == (0.0, 0.0)
    assert line.seconds == pytest.approx(2.5)
    assert line.peak_bytes == 400
    assert (line.device, line.precision) == ("A GPU", "bf16")
    assert (line.published, line.replays) == (None, None)


def test_a_single_run_has_plain_numbers_and_may_lack_times(tmp_path):
    kept(tmp_path / "group/run", 2.0)
    (line,) = lines(tmp_path)
    assert line.values == {"AP": 2.0, "AFB": 0.0, "AMFB": 0.0, "ABPl": 2.0}
    assert (line.seconds, line.peak_bytes) == (None, None)


def test_times_of_older_runs_and_of_cpus_have_no_peak(tmp_path):
    folder = kept(tmp_path / "group/run")
    folder.append("timings.jsonl", {"epoch": 1, "seconds": 1.0})
    folder.append("timings.jsonl", {"epoch": 2, "seconds": 2.0, "peak_bytes": None})
    (line,) = lines(tmp_path)
    assert (line.seconds, line.peak_bytes) == (1.5, None)


def test_options_settings_hardware_and_precision_make_lines_of_their_own(tmp_path):
    kept(tmp_path / "group/a", method="dree")
    kept(tmp_path / "group/b", method="dree", options={"alpha": 1, "divergence": "literal"})
    kept(tmp_path / "group/c", method="dree", batches=7)
    kept(tmp_path / "group/d", method="dree", device="A CPU", precision="fp32")
    kept(tmp_path / "group/e", method="dree", seed=1, **{"learner.precision": "bf16"})  # as a
    kept(tmp_path / "group/f", method="dree.lifelong.FineTuning")
    kept(tmp_path / "group/g")
    found = {line.label: [run.run.name for run in line.runs] for line in lines(tmp_path)}
    assert found == {
        "fine-tuning": ["g"],
        "dree, bf16": ["a", "e"],
        "dree, fp32": ["d"],
        "dree, batches 7": ["c"],
        "dree, alpha 1.0, divergence literal": ["b"],
        "dree.lifelong.FineTuning": ["f"],
    }
    assert next(iter(found)) == "fine-tuning"
    assert list(found)[-1] == "dree.lifelong.FineTuning"


def test_what_all_runs_of_a_table_have_set_is_said_once(tmp_path):
    kept(tmp_path / "group/a", batches=7, test_every=100, **{"solver.chunk_bytes": 5})
    kept(tmp_path / "group/b", batches=8, test_every=100, seed=1)
    (table,) = result_tables(tmp_path)
    assert table.shared == {"test_every": 100}
    assert [line.label for line in table.results] == ["fine-tuning, batches 7", "fine-tuning, batches 8"]


def test_a_run_that_is_not_finished_is_no_part_of_a_mean(tmp_path):
    kept(tmp_path / "group/a", 1.0)
    kept(tmp_path / "group/b", 3.0, seed=1, tested=(0, 40))
    whole, half = lines(tmp_path)
    assert (whole.label, whole.values["AP"]) == ("fine-tuning", 1.0)
    assert (half.label, half.values["AP"]) == ("fine-tuning, seed 1 up to epoch 40", 3.0)


def test_streams_of_a_group_and_groups_have_tables_of_their_own(tmp_path):
    kept(tmp_path / "one/a")
    kept(tmp_path / "one/b", order=3)
    kept(tmp_path / "one/c", problem="tsp")
    kept(tmp_path / "two/a")
    found = [(table.folder.name, table.results[0].settings.order) for table in result_tables(tmp_path)]
    assert found == [("one", 1), ("one", 3), ("one", 1), ("two", 1)]


@pytest.mark.parametrize(
    ("settings", "printed"),
    [
        ({}, 14.05),
        ({"method": "dree", "problem": "tsp"}, 1.12),
        ({"method": "dree", "options": {"without": "ee"}}, 3.47),
        ({"order": 4, "learner.precision": "bf16", "solver.chunk_bytes": 10**6}, 5.78),
        ({"epochs": 100}, None),
        ({"test_every": 50}, None),
        ({"batches": 128}, None),
        ({"spec": "official"}, None),
        ({"method": "dree", "options": {"divergence": "literal"}}, None),
        ({"method": "dree", "options": {"without": "ee"}, "order": 2}, None),
    ],
)
def test_the_papers_numbers_stand_beside_ours_only_where_all_settings_are_the_papers(tmp_path, settings, printed):
    chosen = {"epochs": None, **settings}
    kept(tmp_path / "group/run", tested=(0, settings.get("epochs", 1000)), **chosen)
    (line,) = lines(tmp_path)
    assert (line.published and line.published["AP"]) == printed


def test_a_run_on_its_way_has_none_of_the_papers_numbers(tmp_path):
    kept(tmp_path / "group/run", tested=(0, 980), epochs=1000)
    (line,) = lines(tmp_path)
    assert line.published is None


def test_finer_tests_are_a_second_line_of_the_same_runs(tmp_path):
    tasks = list(make_stream("drift", "cvrp", 1, 100).finer())
    run_with_gaps(tmp_path / "group/run", [[9.0] * 41, [3.0] * 41], [0, 100], tasks, epochs=100, tests="finer")
    assert [line.label for line in lines(tmp_path)] == ["fine-tuning", "fine-tuning, finer tests"]


def test_replays_are_counted_and_their_success_is_weighed_by_their_number(tmp_path):
    folder = kept(tmp_path / "group/run", method="dree")
    for epoch in range(1, 101):
        replays = {1: 10, 25: 30, 76: 0}.get(epoch, 40 if epoch <= 75 else 0)
        share = {1: 0.9, 25: 0.5}.get(epoch, 0.25)
        row = {"epoch": epoch, "replays": replays} | ({"improved": share} if replays else {})
        folder.append("metrics.jsonl", row)
    (line,) = lines(tmp_path)
    count = 10 + 30 + 23 * 40 + 50 * 40
    assert line.replays.an_epoch == pytest.approx(count / 100)
    assert line.replays.interval == pytest.approx(12800 / count)
    first = (10 * 0.9 + 30 * 0.5 + 920 * 0.25) / 960
    assert line.replays.improved[0] == pytest.approx(first)
    assert line.replays.improved[1:] == (pytest.approx(0.25), pytest.approx(0.25), None)
