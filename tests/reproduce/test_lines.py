"""Tables of metrics: means over orders and seeds, the paper's beside them, and a paired test."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dree.data.published import published, published_metrics, published_region
from dree.evaluation.metrics import METRICS, metrics
from dree.experiments import RunSettings
from dree.experiments.engines.base import Job, Outcome
from dree.experiments.naming import keyed_name, method_title
from dree.reproduce import EXPERIMENTS, Choice, Found, experiment
from dree.reproduce.base import TITLES, laws_of
from dree.reproduce.lines import EXACT, Line, MetricsExperiment, compared, over, sign_flip
from dree.reproduce.plan import make_plan
from dree.reproduce.report import run_groups
from dree.reproduce.scales import scale
from run_folders import run_with_gaps

RUN = scale("smoke").settings(problem="tsp", method="dree")
RIVALS = (("dree", "text"), ("fine-tuning", "official"))
LAWS = ["E", "C", "G", "U", "R", "GM"]
OF_METRICS = [each for each in EXPERIMENTS.values() if isinstance(each, MetricsExperiment)]


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([1.0, 2.0, 3.0], 1 / 8),
        ([1.0, -1.0], 3 / 4),
        ([-1.0, -2.0], 1.0),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 1 / 32),
        ([0.0], 1.0),
    ],
)
def test_the_paired_test_counts_signs_that_would_do_as_well(differences, p):
    assert sign_flip(differences) == pytest.approx(p)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8))
def test_p_is_a_share_and_never_nought(differences):
    assert 1 / 2 ** len(differences) <= sign_flip(differences) <= 1


def test_many_pairs_are_tested_at_random_but_always_alike():
    differences = list(np.linspace(0.1, 1, EXACT + 5))
    assert sign_flip(differences) == sign_flip(differences) == pytest.approx(1 / 2**EXACT)


def test_one_run_has_a_value_and_several_have_mean_and_deviation():
    one, two = metrics(np.array([[4.0], [2.0]])), metrics(np.array([[4.0], [3.0]]))
    assert over([], "AP") is None
    assert over([one], "AP") == 2.0
    assert over([one, two], "AP") == (2.5, 0.5)
    assert over([one], "Gen") is None


def found_runs(tmp_path, choice, names, gap):
    """A finished run for every job, whose last gap is what `gap` says of its settings."""
    runs = {}
    for job in make_plan([experiment(name) for name in names], choice, regardless=True).jobs:
        run = job.settings
        values = {name: getattr(run, name) for name in ("problem", "method", "options", "order", "epochs", "seed")}
        path = run_with_gaps(
            tmp_path / job.name, [[50.0] * 6, [gap(run)] * 6], [0, 10], LAWS,
            **values, sizes=dict(run.sizes), solver=dict(run.solver), learner=dict(run.learner), batches=run.batches,
        )  # fmt: skip
        runs[job.name] = path
    return Found(runs, tmp_path)


def test_table_1_has_means_over_orders_and_mt_ref_its_one_run(tmp_path):
    choice = Choice(scale("smoke"), ("tsp",), (1, 2, 3))
    gap = {"mt-ref": 1.0, "fine-tuning": 8.0, "li": 6.0, "llr-bc": 4.0, "dree": 2.0}
    found = found_runs(tmp_path, choice, ["table1"], lambda run: gap[run.method] + run.order)
    (table,) = experiment("table1").tables(choice, found)
    rows = {row.keys[1]: row for row in table.rows}
    assert rows["MT-Ref"].cells[0].ours == pytest.approx(2.0)
    assert rows["MT-Ref"].reference
    assert [cell.ours for cell in rows["MT-Ref"].cells[1:]] == [None, None, None]
    assert rows["DREE"].cells[0].ours == pytest.approx((4.0, np.std([3, 4, 5])))
    assert rows["DREE"].cells[0].published == (1.19, 0.27)
    assert rows["DREE"].cells[0].difference == pytest.approx(4 - 1.19)
    assert len(rows["Li"].runs) == 3
    assert any(
        "DREE against LLR-BC: AP lower by 2.00 on average over 3 pairs, p = 0.125" in note for note in table.notes
    )
    assert any(note.startswith("Not at the paper's scale") for note in table.notes)
    assert "Ours over order 1, 2, 3, the paper's over five." in table.notes


def test_a_table_says_by_which_laws_and_takes_no_run_by_others(tmp_path):
    text, official = (Choice(scale("smoke"), ("tsp",), (1,), spec=spec) for spec in ("text", "official"))
    found = found_runs(tmp_path, text, ["mt-cumulative"], lambda _: 3.0)
    (ours,) = experiment("mt-cumulative").tables(text, found)
    assert [row.cells[0].ours for row in ours.rows] == [3.0, 3.0]
    assert "Instances by the laws of the paper's text (--spec text)." in ours.notes
    (theirs,) = experiment("mt-cumulative").tables(official, found)
    assert [row.cells[0].ours for row in theirs.rows] == [None, None]
    assert "Instances by the laws of the official code (--spec official)." in theirs.notes


def test_real_days_follow_no_law_to_speak_of():
    assert laws_of([scale("smoke").settings(scenario="lade", data="a.csv", region="sh-2")]) == []


def test_runs_by_other_laws_are_never_compared_with_each_other():
    text, official = (scale("smoke").settings(method=name, spec=spec) for name, spec in RIVALS)
    groups = run_groups([Outcome(Job(keyed_name(each), each), Path(each.spec)) for each in (text, official)], 0)
    assert groups == []  # each would be alone in its own


def test_the_paired_test_pairs_no_runs_by_different_laws(tmp_path):
    choices = [Choice(scale("smoke"), ("tsp",), seeds=(0, 1), spec=spec) for spec in ("text", "official")]
    runs = {}
    for choice in choices:
        runs |= found_runs(tmp_path, choice, ["mt-cumulative"], lambda run: 2.0 + (run.method != "dree")).runs
    found = Found(runs, tmp_path)
    (others, ours), (by_other_laws, _) = (experiment("mt-cumulative").lines(choice) for choice in choices)
    assert len(compared([ours, others], found, None)) == 1
    assert compared([ours, by_other_laws], found, None) == []


@pytest.mark.parametrize("name", ["epochs", "batch_size", "learner", "test_every"])
def test_runs_with_other_settings_are_paired_with_those_that_share_them(tmp_path, name):
    smoke, values = scale("smoke"), {"learner": [{"learning_rate": 1e-3}, {"learning_rate": 2e-3}]}.get(name, [5, 10])

    def gap(run):
        second = getattr(run, name) == values[1]
        return {"dree": 2.0, "fine-tuning": 4.0}[run.method] + 10 * second

    class Lengths(Own):
        def lines(self, choice):
            return [
                Line(
                    ("TSP", TITLES[method]),
                    tuple(smoke.settings(problem="tsp", method=method, **{name: value}) for value in values),
                    {},
                )
                for method in ("fine-tuning", "dree")
            ]

    runs = {}
    for run in Lengths().runs(Choice(smoke)):
        changed = {key: value for key, value in vars(run).items() if value != getattr(RunSettings(), key)}
        end = run.epochs
        path = run_with_gaps(tmp_path / keyed_name(run), [[50.0] * 6, [gap(run)] * 6], [0, end], LAWS, **changed)
        runs[keyed_name(run)] = path
    found = Found(runs, tmp_path)
    fine_tuning, ours = Lengths().lines(Choice(smoke))
    (note,) = compared([fine_tuning, ours], found, None)
    assert "AP lower by 2.00 on average over 2 pairs" in note
    for theirs in (
        (fine_tuning.runs[0],),  # ours has one more
        (fine_tuning.runs[0], replace(fine_tuning.runs[0], batches=2)),  # two with the same twin
        (fine_tuning.runs[0], replace(fine_tuning.runs[1], test_instances=2)),  # one without
    ):
        assert compared([replace(fine_tuning, runs=theirs), ours], found, None) == []


def test_the_gallery_of_tasks_is_by_the_laws_asked_for(monkeypatch, tmp_path):
    monkeypatch.setattr("dree.reproduce.pictures.gallery", lambda problem, spec, seed: (problem, spec, seed))
    choice = Choice(scale("smoke"), ("tsp",), seeds=(3,), spec="official")
    (drawn,) = experiment("tasks").figures(choice, Found({}, tmp_path))
    assert drawn.figure == ("tsp", "official", 3)
    assert "(--spec official)" in drawn.caption


def test_a_run_that_is_missing_leaves_a_dash(tmp_path):
    choice = Choice(scale("smoke"), ("cvrp",), (1,))
    (table,) = experiment("ablation").tables(choice, Found({}, tmp_path))
    assert [row.keys for row in table.rows] == [("CVRP", name) for name in ("w.o.PIR", "w.o.BR", "w.o.EE", "DREE")]
    assert all(cell.ours is None for row in table.rows for cell in row.cells)
    assert table.rows[0].cells[0].published == 4.07


def test_where_a_stream_is_too_short_to_remember_anything_it_is_said(tmp_path):
    for name, said in (("smoke", True), ("paper", False)):
        (table,) = experiment("llrbc-frequency").tables(Choice(scale(name)), Found({}, tmp_path))
        assert any("LLR-BC(100) never remembers" in note for note in table.notes) == said


def test_hyperparameters_have_each_problems_own_alphas():
    lines = experiment("hyperparameters").lines(Choice())
    alphas = [(line.keys, line.runs[0].options) for line in lines if line.keys[1].startswith("alpha")]
    assert alphas == [
        (("CVRP", "alpha(50)"), {"alpha": 50.0}),
        (("CVRP", "alpha(200)"), {"alpha": 200.0}),
        (("TSP", "alpha(5)"), {"alpha": 5.0}),
        (("TSP", "alpha(20)"), {"alpha": 20.0}),
    ]


def test_methods_are_compared_and_so_are_the_variants_of_one():
    smoke = scale("smoke")
    plan = make_plan([experiment("ablation"), experiment("curves")], Choice(smoke, ("tsp",), seeds=(0, 1)))
    groups = run_groups([Outcome(job, Path(job.name)) for job in plan.jobs], 0, smoke.options)
    assert {group.title: list(group.runs) for group in groups} == {
        "TSP, drift, order 1": ["dree", "fine-tuning", "li, refresh_every 1", "llr-bc"],
        "TSP, drift, order 1: variants of dree": ["dree without pir", "dree without br", "dree without ee", "dree"],
    }


def test_mt_ref_is_no_competitor_of_the_methods_beside_it():
    smoke = scale("smoke")
    plan = make_plan([experiment("table1")], Choice(smoke, ("tsp",), orders=(1,)))
    (group,) = run_groups([Outcome(job, Path(job.name)) for job in plan.jobs], 0, smoke.options)
    assert set(group.references) == {"mt-ref"} < set(group.runs)


@pytest.mark.parametrize("each", OF_METRICS, ids=lambda each: each.name)
def test_what_the_paper_prints_beside_a_row_is_of_that_rows_own_runs(each):
    for line in each.lines(Choice()):
        row, run = line.published, line.runs[0]
        columns = (*each.heads[:-1], "setting" if "setting" in row else "method")
        assert [key.casefold() for key in line.keys] == [str(row[column]).casefold() for column in columns]
        if run.scenario == "lade":
            assert {TITLES[one.method] for one in line.runs} == {row["method"]}
            assert "region" not in row or published_region(run.region, run.method) == row
        elif each.name == "table1" and run.method != "mt-ref":  # over all orders, which no single run has
            of_runs = {(one.problem, method_title(one)) for one in line.runs}
            assert of_runs == {(row["problem"], row["method"].casefold())}
        else:
            found = published_metrics(
                run.problem, method_title(run), run.scenario, run.order, run.base, run.tests == "finer"
            )
            assert {name: found[name] for name in METRICS} == {name: row[name] for name in METRICS}


def test_mt_ref_is_trained_on_the_first_order_whichever_are_chosen():
    lines = experiment("table1").lines(Choice(orders=(2, 3)))
    assert {run.order for line in lines if "MT-Ref" in line.keys for run in line.runs} == {1}


def test_the_finer_table_takes_what_runs_have_shown_on_the_finer_tests():
    assert experiment("finer").tests == "finer"
    assert {run.tests for run in experiment("finer").runs(Choice())} == {"finer"}


class Own(MetricsExperiment):
    """A user's own, with a line of these words and what the paper has for it."""

    name, title, source = "own", "Mine", "nowhere"

    def __init__(self, *words: str, asks: bool = False, **wrong: object) -> None:
        self.words, self.asks, self.wrong = words, asks, wrong

    def lines(self, choice):
        runs = (choice.settings(problem="tsp", method="dree", seed=0),)
        return [replace(Line(self.words, runs, self.row(method="DREE") if self.asks else {}), **self.wrong)]


def test_an_own_experiment_needs_no_published_table(tmp_path):
    (table,) = Own("TSP", "DREE").tables(Choice(scale("smoke")), Found({}, tmp_path))
    assert [cell.published for cell in table.rows[0].cells] == [None] * len(METRICS)


def test_ours_is_shown_whatever_the_paper_has_but_not_the_forgetting_of_a_reference(tmp_path):
    run = scale("smoke").settings(problem="tsp", method="mt-ref")
    found = Found(
        {keyed_name(run): run_with_gaps(tmp_path / "run", [[50.0] * 6, [3.0] * 6], [0, 1000], LAWS)}, tmp_path
    )
    for reference, shown in ((False, [3.0, 0.0, 0.0, 3.0]), (True, [3.0, None, None, None])):
        row = Own()._row(Line(("TSP", "Mine"), (run,), {"AP": 5.0}, reference=reference), found)
        assert [cell.ours for cell in row.cells] == shown
        assert [cell.published for cell in row.cells] == [5.0, None, None, None]
        assert row.reference == reference


@pytest.mark.parametrize("name", ["table1", "lade", "lade-regions"])
def test_mt_ref_is_the_reference_of_the_tables_that_have_it(name):
    lines = experiment(name).lines(Choice())
    assert [line.keys[-1] for line in lines] == [*TITLES.values()] * (len(lines) // len(TITLES))
    assert {line.keys[-1] for line in lines if line.reference} == {"MT-Ref"}


@pytest.mark.parametrize(
    ("name", "problem", "orders", "said"),
    [
        ("orders", "tsp", (2,), {"LLR-BC, order 2, TSP: AP 1.18 is 0.05 less than AFB + ABPl."}),
        ("orders", "tsp", (1, 3), set()),
        ("orders", "cvrp", (2,), set()),
        ("table1", "tsp", (1,), {"MT-Ref is trained once and is not lifelong: it has AP only."}),
    ],
)
def test_notes_of_the_paper_stand_below_the_rows_that_they_are_about(name, problem, orders, said, tmp_path):
    (table,) = experiment(name).tables(Choice(scale("smoke"), (problem,), orders), Found({}, tmp_path))
    assert {note.text for note in published(experiment(name).table).notes} & {*table.notes} == said


def test_an_own_experiment_has_no_notes_of_a_table_none_of_whose_rows_it_shows(tmp_path):
    own = Own("TSP", "Mine")
    own.table = "ablation"
    (table,) = own.tables(Choice(scale("smoke")), Found({}, tmp_path))
    assert not any("N = 3.56" in note for note in table.notes)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (
            Own("TSP", "DREE", asks=True),
            r"test_lines.Own asks for a published row .* Give the class a 'table', such as",
        ),
        (Own(keys="TSP"), r"has a line with the words 'TSP'\. Give it a tuple of texts"),
        (Own("TSP", 1), r"has a line with the words \('TSP', 1\)\. Give it a tuple of texts"),
        (Own("TSP", "Mine", runs=RUN), r"test_lines.Own: the line \('TSP', 'Mine'\) has runs that are no tuple"),
        (Own("TSP", "Mine", runs=(RUN, RUN)), r"has a run twice\. Give each its own seed"),
        (Own("TSP", "Mine", published=None), r"has None as its published row\. Where there is none, give it {}"),
        (Own("TSP", "Mine", published={"AFB": "3.1"}), r"has '3\.1' as its published AFB\. Give a number, a mean"),
        (Own("TSP", "Mine", published={"AP": [5.0, 0.3]}), r"has \[5\.0, 0\.3\] as its published AP"),
        (Own("DREE"), r"test_lines.Own has a line with 1 words, \('DREE',\), and its table has 2 columns for words"),
    ],
)
def test_an_own_experiment_that_cannot_be_made_says_so_before_anything_is_trained(own, words):
    plan = make_plan([own], Choice(scale("smoke")))
    assert plan.jobs == ()
    ((_, reason),) = plan.lacking
    assert re.search(words, reason)
