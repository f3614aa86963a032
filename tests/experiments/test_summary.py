"""Metrics of runs: which tests, which mean, and which of the paper's numbers stand beside them."""

from __future__ import annotations

import pytest

from dree.errors import DreeError
from dree.experiments.summary import departures, each_once, means, run_metrics
from dree.report.run_curves import read_run
from dree.report.run_metrics import metrics_rows
from dree.tasks import make_stream
from run_folders import run_with_gaps

LAWS = ["E", "C", "G", "U", "R", "GM"]
END = [0, 1000]


def constant(first, last, tasks=6):
    return [[first] * tasks, [last] * tasks]


def test_a_run_of_the_papers_setting_has_the_papers_numbers_beside_it(tmp_path):
    (found,) = run_metrics(run_with_gaps(tmp_path / "run", constant(9.0, 2.0), END, LAWS, problem="tsp"))
    assert found.values.as_dict() == {"AP": 2.0, "AFB": 0.0, "AMFB": 0.0, "ABPl": 2.0}
    assert found.kind == ("tsp", "drift", 1000, "fine-tuning", "pomo", "principal", ())
    assert found.published["AP"] == 1.86
    assert found.finished
    assert departures(found.settings) == {}


@pytest.mark.parametrize(
    "settings",
    [{"epochs": 500}, {"sizes": {"U": 15}}, {"order": ["E", "U"]}, {"method": "dree.lifelong.FineTuning"}],
)
def test_a_run_of_another_setting_has_none(tmp_path, settings):
    tasks = settings.get("order", LAWS)
    (found,) = run_metrics(run_with_gaps(tmp_path / "run", constant(9.0, 2.0, len(tasks)), END, tasks, **settings))
    assert found.published is None


def test_settings_that_are_not_the_papers_are_told(tmp_path):
    chosen = {"spec": "official", "batches": 10, "learner.weight_decay": 0.0, "seed": 5, "order": 3}
    (found,) = run_metrics(run_with_gaps(tmp_path / "run", constant(9.0, 2.0), END, LAWS, **chosen))
    assert departures(found.settings) == {"spec": "official", "batches": 10, "learner.weight_decay": 0.0}
    assert found.published["AP"] == 14.17


def test_an_ablation_has_the_papers_numbers_and_differs_in_nothing(tmp_path):
    chosen = {"method": "dree", "options": {"without": "br"}}
    (found,) = run_metrics(run_with_gaps(tmp_path / "run", constant(9.0, 2.0), END, LAWS, **chosen))
    assert found.published["AP"] == 3.87
    assert departures(found.settings) == {}


def test_finer_tests_give_a_second_line_and_the_principal_ones_are_found_among_them(tmp_path):
    tasks = list(make_stream("drift", "cvrp", 1, 1000).finer())
    principal = {"E50", "C100", "G50", "U20", "R20", "GM100"}
    assert (len(tasks), len(principal & set(tasks))) == (41, 6)
    last = [1.0 if task in principal else 42.0 for task in tasks]
    six, every = run_metrics(run_with_gaps(tmp_path / "run", [last, last], END, tasks))
    assert (six.kind.tests, every.kind.tests) == ("principal", "finer")
    assert six.values.AP == 1.0
    assert pytest.approx((6 * 1 + 35 * 42) / 41) == every.values.AP
    assert six.published["AP"] == 14.05
    assert every.published["AP"] == 21.97


def test_the_mean_over_the_five_orders_stands_beside_the_papers(tmp_path):
    runs = []
    for order in (1, 2, 3, 4, 5):
        laws = list(make_stream("drift", "cvrp", order, 1000).order)
        matrix = constant(float(order), float(2 * order))
        runs += run_metrics(run_with_gaps(tmp_path / str(order), matrix, END, laws, order=order))
    (mean,) = means(runs)
    assert mean.runs == 5
    assert mean.values["AP"] == pytest.approx((6.0, 8**0.5))  # of 2, 4, 6, 8, 10: a population
    assert mean.values["ABPl"] == pytest.approx((3.0, 2**0.5))
    assert mean.published["AP"] == (8.75, 4.40)
    (less,) = means(runs[:3])
    assert less.published is None
    rows = metrics_rows(runs, [mean])
    assert [row["runs"] for row in rows] == [1, 1, 1, 1, 1, 5]
    assert rows[1]["published_AP"] == 5.4
    assert (rows[-1]["AP"], rows[-1]["published_AP"], rows[-1]["published_AP_std"]) == (6.0, 8.75, 4.4)


def test_runs_of_several_seeds_have_the_row_of_their_order(tmp_path):
    runs = [
        each
        for seed in (1, 2)
        for each in run_metrics(run_with_gaps(tmp_path / str(seed), constant(9.0, seed), END, LAWS, seed=seed))
    ]
    (mean,) = means(runs)
    assert mean.values["AP"] == (1.5, 0.5)
    assert mean.published["AP"] == 14.05


def test_unfinished_runs_and_runs_of_another_kind_are_not_averaged(tmp_path):
    done = run_metrics(run_with_gaps(tmp_path / "done", constant(9.0, 2.0), END, LAWS))
    half = run_metrics(run_with_gaps(tmp_path / "half", constant(9.0, 2.0), [0, 500], LAWS))
    short = run_metrics(run_with_gaps(tmp_path / "short", constant(9.0, 2.0), [0, 100], LAWS, epochs=100))
    other = run_metrics(run_with_gaps(tmp_path / "tsp", constant(9.0, 2.0), END, LAWS, problem="tsp"))
    fewer = run_metrics(run_with_gaps(tmp_path / "fewer", constant(9.0, 2.0), END, LAWS, batches=32, sizes={"C": 30}))
    assert not half[0].finished
    assert means([*done, *half, *short, *other, *fewer]) == []
    assert fewer[0].kind.changes == ("sizes.C = 30", "batches = 32")
    assert metrics_rows(fewer, [])[0]["changes"] == "sizes.C = 30; batches = 32"


def test_the_solver_that_runs_start_from_goes_by_its_name_wherever_it_lies(tmp_path):
    runs = [
        run_metrics(
            run_with_gaps(tmp_path / folder, constant(9.0, 2.0), END, LAWS, start=f"{folder}/first", seed=seed)
        )[0]
        for seed, folder in enumerate(("here", "there"))
    ]
    assert means(runs)[0].kind.changes == ("start = first",)


def test_runs_that_were_computed_otherwise_but_learned_the_same_are_averaged(tmp_path):
    runs = [
        each
        for seed, precision in enumerate(("fp32", "bf16"))
        for each in run_metrics(
            run_with_gaps(
                tmp_path / precision, constant(9.0, 2.0), END, LAWS, seed=seed, learner={"precision": precision}
            )
        )
    ]
    (mean,) = means(runs)
    assert mean.runs == 2


def test_copies_of_a_run_count_once_and_a_finished_one_before_others(tmp_path):
    def run(name, last, seed, end=1000, **settings):
        matrix = constant(9.0, last)
        return run_metrics(run_with_gaps(tmp_path / name, matrix, [0, end], LAWS, seed=seed, **settings))[0]

    half, whole, copy = run("half", 8.0, 1, end=500), run("whole", 2.0, 1), run("copy", 2.0, 1)
    again = run("again", 7.0, 1, learner={"precision": "bf16"})
    other = run("other", 4.0, 2)
    (mean,) = means([half, whole, copy, other, again])
    assert (mean.runs, mean.values["AP"]) == (2, (3.0, 1.0))
    assert means([half, whole, copy, again]) == []
    assert each_once([half, whole, copy, other, again]) == {whole.identity: whole, other.identity: other}
    assert each_once([half]) == {half.identity: half}


def test_a_run_that_was_never_tested_is_refused(tmp_path):
    path = run_with_gaps(tmp_path / "run", constant(9.0, 2.0), END, LAWS)
    (path / "gaps.csv").unlink()
    with pytest.raises(DreeError, match="has not been tested yet"):
        run_metrics(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no such thing",
        "epoch,E,C,G,U,R,GM\n",
        "epoch,E,C,G,U,R,GM\n0,1,2,3,4,5,nan\n",
        "epoch,E,C,G,U,R,GM\n0,1,2\n",
        "epoch\n\n",
        "epoch,E\n0,1\n\0",
        "epoch,E,C,G,U,R,GM\n0,1,2,3,4,5,x\n",
        "epoch,E,C,G,U,R,GM\n20,1,2,3,4,5,6\n0,1,2,3,4,5,6\n",
        "epoch,somewhere\n0,1\n",
        "epoch,E,C,G,U,R,GM\n0,1,2,3,4,5,6\n40,1,2,3,4,5,6\n",
        "epoch,E,C,G,U,R,GM\n20,1,2,3,4,5,6\n",
    ],
)
@pytest.mark.parametrize("reading", [run_metrics, read_run])
def test_a_damaged_gap_matrix_is_named_whoever_reads_it(tmp_path, reading, text):
    run = run_with_gaps(tmp_path / "run", constant(9.0, 2.0), END, LAWS)
    (run / "gaps.csv").write_text(text)
    with pytest.raises(DreeError) as caught:
        reading(run)
    assert str(caught.value).startswith(f"{run / 'gaps.csv'} is damaged: ")
    assert str(caught.value).endswith("Restore it from where it was kept.")  # it has no checkpoint


def test_the_epoch_whose_row_is_missing_is_named(tmp_path):
    run = run_with_gaps(tmp_path / "run", constant(9.0, 2.0), END, LAWS)
    lines = (run / "gaps.csv").read_text().splitlines(keepends=True)
    (run / "gaps.csv").write_text("".join(line for line in lines if not line.startswith("540,")))
    with pytest.raises(DreeError, match=r"it lacks a row for epoch 540, after which the run was tested\. Restore it"):
        run_metrics(run)


def test_a_gap_matrix_without_a_column_of_the_stream_is_damaged(tmp_path):
    run = run_with_gaps(tmp_path / "run", constant(9.0, 2.0, 5), END, LAWS[:-1])
    with pytest.raises(DreeError, match=r"gaps.csv is damaged: it has no column for GM\."):
        run_metrics(run)
