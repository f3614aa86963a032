"""Results of kept runs: what makes one line, and every number in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dree.experiments import RunFolder
from dree.experiments.results import Result, Times, result_tables
from dree.report.results_page import results_text
from dree.tasks import make_stream
from run_folders import run_with_gaps, write_evaluation

LAWS = ["E", "C", "G", "U", "R", "GM"]


def kept(
    path: Path,
    last: float = 2.0,
    device: str = "A GPU",
    precision: str = "bf16",
    tested: tuple[int, ...] = (0, 100),
    at_once: int = 1,
    **settings: object,
) -> RunFolder:
    """A kept run of 100 epochs with gaps of 9 at first and `last` in the end, by default on a GPU."""
    order = settings.get("order", 1)
    laws = list(make_stream("drift", "cvrp", order, 100).order) if isinstance(order, int) else LAWS
    run_with_gaps(path, [[9.0] * 6, [last] * 6], list(tested), laws, **{"epochs": 100, **settings})
    folder = RunFolder(path)
    manifest = folder.manifest()
    manifest["hardware"] |= {"device": device, "precision": precision, "at_once": at_once}
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
    assert line.times.epoch == pytest.approx(2.5)
    assert line.peak_bytes == 400
    assert (line.device, line.precision) == ("A GPU", "bf16")
    assert (line.published, line.replays) == (None, None)


def test_a_copy_of_a_run_is_left_out_and_that_is_said(tmp_path):
    for name, last, seed in (("run", 1.0, 0), ("other", 3.0, 1), ("the-copy", 1.0, 0)):
        kept(tmp_path / f"group/{name}", last, seed=seed)
    kept(tmp_path / "group/elsewhere", 1.0, device="Another GPU")
    (table,) = result_tables(tmp_path)
    assert [[run.run.name for run in line.runs] for line in table.results] == [["elsewhere"], ["run", "other"]]
    assert table.results[1].values["AP"] == (2.0, 1.0)
    assert table.copies == (tmp_path / "group/the-copy",)
    said = "Left out, for runs with the same settings and seeds are there: [the-copy](group/the-copy)."
    assert said in results_text([table], tmp_path, tmp_path)


def test_a_single_run_has_plain_numbers_and_may_lack_times(tmp_path):
    kept(tmp_path / "group/run", 2.0)
    (line,) = lines(tmp_path)
    assert line.values == {"AP": 2.0, "AFB": 0.0, "AMFB": 0.0, "ABPl": 2.0}
    assert (line.times, line.peak_bytes) == (Times(None, None, None), None)


def test_times_of_older_runs_and_of_cpus_have_no_peak(tmp_path):
    folder = kept(tmp_path / "group/run")
    folder.append("timings.jsonl", {"epoch": 1, "seconds": 1.0})
    folder.append("timings.jsonl", {"epoch": 2, "seconds": 2.0, "peak_bytes": None})
    (line,) = lines(tmp_path)
    assert (line.times, line.peak_bytes) == (Times(1.5, None, None), None)


def test_a_whole_run_takes_the_sum_of_its_epochs_and_its_tests_and_seeds_their_mean(tmp_path):
    for seed in (0, 1):
        folder = kept(tmp_path / f"group/run{seed}", seed=seed)
        for epoch in range(1, 101):
            row = {"epoch": epoch, "seconds": 1.0 + seed, "test_seconds": 30.0 if epoch == 1 else 0.5 * seed}
            folder.append("timings.jsonl", row)
    (line,) = lines(tmp_path)
    assert line.times == Times(1.5, 150.0, pytest.approx((30 + 30 + 99 * 0.5) / 2))


def test_a_run_on_its_way_has_the_times_up_to_its_last_test(tmp_path):
    folder = kept(tmp_path / "group/run", tested=(0, 40))
    for epoch in range(1, 50):
        folder.append("timings.jsonl", {"epoch": epoch, "seconds": 2.0, "test_seconds": 1.0})
    (line,) = lines(tmp_path)
    assert line.times == Times(2.0, 80.0, 40.0)


def test_the_time_of_a_run_is_unknown_where_an_epoch_is_missing_and_that_of_tests_where_they_were_not_timed(tmp_path):
    old, torn = kept(tmp_path / "old/run"), kept(tmp_path / "torn/run")
    for epoch in range(1, 101):
        old.append("timings.jsonl", {"epoch": epoch, "seconds": 2.0})
        if epoch != 50:
            torn.append("timings.jsonl", {"epoch": epoch, "seconds": 2.0, "test_seconds": 1.0})
    first, second = (table.results[0].times for table in result_tables(tmp_path))
    assert first == Times(2.0, 200.0, None)
    assert second == Times(2.0, None, None)


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({"method": "dree"}, 151.26),
        ({"method": "llr-bc"}, 170.53),
        ({"method": "dree", "problem": "tsp"}, None),
        ({}, 88.81),
        ({"order": 3, "problem": "tsp"}, 58.27),
        ({"batches": 7}, None),
    ],
)
def test_the_papers_seconds_stand_beside_runs_with_its_settings(tmp_path, settings, seconds):
    kept(tmp_path / "group/run", tested=(0, 1000), **{"epochs": 1000, **settings})
    (line,) = lines(tmp_path)
    assert line.published_seconds == seconds


def test_what_is_known_of_library_instances_goes_with_its_run(tmp_path):
    kept(tmp_path / "group/a", problem="tsp")
    folder = kept(tmp_path / "group/b", problem="tsp", seed=1)
    write_evaluation(folder, {"a280": 10.0, "pr226": 20.0})
    (line,) = lines(tmp_path)
    assert [[gaps.library for gaps in known] for known in line.libraries] == [[], ["tsplib"]]
    assert line.libraries[1][0].mean == pytest.approx(15)


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


def test_times_of_runs_that_took_turns_are_not_averaged_with_those_of_one_alone(tmp_path):
    row = {"epoch": 1, "seconds": 2.0, "peak_bytes": 100}
    for seed, at_once in enumerate((3, 3)):
        kept(tmp_path / f"group/{seed}", seed=seed, at_once=at_once).append("timings.jsonl", row)
    (line,) = lines(tmp_path)
    assert (line.device, line.times.epoch, line.peak_bytes) == ("A GPU (3 runs at once)", 2.0, 100)
    kept(tmp_path / "group/alone", seed=2).append("timings.jsonl", row)
    (line,) = lines(tmp_path)
    assert [run.settings.seed for run in line.runs] == [0, 1, 2]
    assert (line.device, line.times, line.peak_bytes) == ("A GPU", Times(None, None, None), None)


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
