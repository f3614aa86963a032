"""Plans: every training of the paper once, however many tables need it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dree.data.published import published
from dree.errors import DreeError
from dree.experiments import RunSettings
from dree.experiments.naming import keyed_name
from dree.lifelong import METHODS, make_method
from dree.reproduce import EXPERIMENTS, Choice, Experiment, experiment
from dree.reproduce.estimate import in_words, run_seconds
from dree.reproduce.lines import MetricsExperiment
from dree.reproduce.plan import make_plan, obstacles
from dree.reproduce.scales import SCALES, scale
from dree.settings import override

EVERY = list(EXPERIMENTS.values())
PAGE = Path(__file__).parents[2] / "docs/reproduce.md"
PAPER = {  # trainings, as the paper's appendix and tables have them
    "table1": 42, "orders": 40, "table2": 10, "curves": 8, "table3": 12, "table4": 12, "ablation": 8, "lade": 25,
    "lade-regions": 25, "hyperparameters": 18, "finer": 8, "llrbc-frequency": 6, "mt-cumulative": 4, "overhead": 2,
}  # fmt: skip


def test_the_paper_takes_119_trainings():
    plan = make_plan(EVERY, Choice(), regardless=True)
    assert len(plan.jobs) == 119
    assert {name: len(jobs) for name, jobs in plan.needs.items() if jobs} == PAPER
    assert len({job.name for job in plan.jobs}) == 119


def test_a_run_wanted_with_and_without_finer_tests_is_made_once_with_them():
    table, tests = experiment("table1"), experiment("finer")
    plan = make_plan([table, tests], Choice(scale("smoke"), problems=("tsp",), orders=(1, 2)))
    assert len(plan.jobs) == 1 + 2 * 4
    kinds = {(job.settings.method, job.settings.order): job.settings.tests for job in plan.jobs}
    assert kinds["dree", 1] == "finer"
    assert kinds["dree", 2] == kinds["mt-ref", 1] == "principal"
    assert plan.needs["finer"] < plan.needs["table1"]


def test_what_cannot_be_made_is_left_out_and_says_what_it_needs():
    plan = make_plan(EVERY, Choice())
    lacking = {each.name: reason for each, reason in plan.lacking}
    assert set(lacking) == {"table2", "table3", "lade", "lade-regions", "regions", "drift", "finer"}
    assert "--libraries" in lacking["table2"]
    assert "--lade" in lacking["lade"]
    assert "--omni" in lacking["table3"]
    assert "dree data build --finer" in lacking["finer"]
    assert not {each.name for each in plan.experiments} & set(lacking)
    assert all(job.settings.scenario != "lade" for job in plan.jobs)


def test_small_scales_lack_nothing_but_third_party_data():
    plan = make_plan(EVERY, Choice(scale("smoke")))
    assert {each.name for each, _ in plan.lacking} == {"table2", "lade", "lade-regions", "regions", "drift"}
    assert len(plan.jobs) == 119 - 25


def test_runs_by_other_laws_are_other_runs_and_real_days_follow_none():
    plans = [make_plan(EVERY, Choice(scale("smoke"), spec=spec), regardless=True) for spec in ("text", "official")]
    text, official = ({job.name: job.settings for job in plan.jobs} for plan in plans)
    shared = set(text) & set(official)
    assert {text[name].scenario for name in shared} == {"lade"}
    assert len(shared) == 25
    assert {run.spec for name, run in official.items() if name not in shared} == {"official"}
    assert len(official) == len(text) == 119


def test_test_sets_that_nobody_has_built_are_named_before_anything_runs(monkeypatch, tmp_path):
    monkeypatch.setenv("DREE_CACHE", str(tmp_path))
    choice = Choice(scale("smoke"), spec="official")
    reasons = obstacles([experiment("ablation"), experiment("tasks"), experiment("finer")], choice)
    tasks = "--task E20 --task C30 --task G20 --task U10 --task R10 --task GM30"
    build = (
        "needs 12 test sets. Build them with: "
        f"dree data build --problem cvrp --spec official {tasks} && "
        f"dree data build --problem tsp --spec official {tasks}."
    )
    assert reasons == {"ablation": build, "finer": build}
    paper = obstacles([experiment("finer")], Choice(spec="official", problems=("tsp",)))
    command = "dree data build --finer --order 1 --problem tsp --spec official"
    assert paper == {"finer": f"needs 41 test sets. Build them with: {command}."}


def test_seeds_orders_and_problems_are_those_chosen():
    plan = make_plan([experiment("orders")], Choice(scale("smoke"), ("tsp",), (2, 4), (7, 8)))
    assert {(job.settings.problem, job.settings.order, job.settings.seed) for job in plan.jobs} == {
        ("tsp", order, seed) for order in (2, 4) for seed in (7, 8)
    }
    assert len(plan.jobs) == 4 * 2 * 2


@pytest.mark.parametrize("name", ["table2", "overhead"])
def test_what_is_about_single_solvers_is_of_the_first_seed_alone(name, tmp_path):
    choice = Choice(scale("smoke"), ("tsp",), seeds=(7, 8), libraries=tmp_path)
    assert {run.seed for run in experiment(name).runs(choice)} == {7}
    assert choice.with_first_seed().seeds == (7,)


@pytest.mark.parametrize("each", [e for e in EVERY if isinstance(e, MetricsExperiment)], ids=lambda e: e.name)
def test_every_published_row_has_its_line_and_every_line_its_published_row(each):
    lines = each.lines(Choice())
    assert all(line.published for line in lines)
    rows = [line.published for line in lines]
    left = [row for row in published(each.table).rows if row not in rows]
    assert left == []


def test_runs_with_other_settings_have_other_names_and_the_device_is_none_of_them():
    settings = scale("smoke").settings(method="dree")
    names = [
        keyed_name(override(settings, change))
        for change in ({}, {"seed": 1}, {"options.alpha": 3.0}, {"spec": "official"})
    ]
    assert len(set(names)) == 4
    assert keyed_name(override(settings, {"device": "cpu", "checkpoint_seconds": 1.0})) == names[0]
    assert names[0].startswith("cvrp-drift-1-dree-T10-seed0-")


def test_names_stay_the_same_when_settings_are_added():
    """Or else everything that anybody has run would be run again."""
    assert keyed_name(RunSettings(method="dree", order=2, seed=3)) == "cvrp-drift-2-dree-T1000-seed3-ab81c8adea"
    assert (
        keyed_name(scale("smoke").settings(base="omni", start="a/b/tsp"))
        == "cvrp-drift-1-fine-tuning-omni-T10-seed0-95c38c5bc4"
    )


def test_where_data_lie_is_no_part_of_a_name():
    here, there = (scale("small").settings(scenario="lade", data=data, region="sh-2") for data in ("a.csv", "b/a.csv"))
    assert keyed_name(here) == keyed_name(there)


def test_an_unknown_experiment_suggests():
    with pytest.raises(DreeError, match="Did you mean 'table1'"):
        experiment("tabel1")


def test_the_paper_scale_is_the_papers_settings():
    assert SCALES["paper"].settings(method="dree", order=3) == RunSettings(method="dree", order=3)


@pytest.mark.parametrize("name", ["small", "smoke"])
def test_small_scales_have_the_epochs_that_are_documented(name):
    epochs = SCALES[name].epochs
    words = f"| `{name}` | {epochs['drift']} epochs, periodic {epochs['periodic']}, sudden {epochs['sudden']} |"
    assert words in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["small", "smoke"])
def test_methods_have_batches_in_the_papers_ratio(name):
    chosen = scale(name)
    one = chosen.settings(method="fine-tuning").batches
    assert one == chosen.batches
    assert chosen.settings(method="dree").batches == max(1, round(one * 128 / METHODS["fine-tuning"].batches_per_epoch))
    assert chosen.settings(base="omni", method="dree").batches == max(1, round(one * 128 / 164 / 8))


@pytest.mark.parametrize("name", ["small", "smoke"])
@pytest.mark.parametrize("scenario", ["drift", "periodic", "sudden"])
def test_li_is_held_to_an_exemplar_for_most_of_a_stream(name, scenario):
    settings = scale(name).settings(method="li", scenario=scenario)
    assert make_method("li", settings.options).options.refresh_every * 10 <= settings.epochs


def test_a_longer_run_is_estimated_to_take_longer():
    short, long = (run_seconds(scale("smoke").settings(device="cpu", epochs=epochs)) for epochs in (10, 1000))
    assert 1 < short < long
    assert run_seconds(scale("smoke").settings(device="cpu", method="dree", epochs=1000, batches=1)) > long


def test_what_is_replayed_without_copies_weighs_less_where_batches_have_copies():
    def beside(method, augmentation):
        of = [
            scale("paper").settings(device="cpu", method=name, learner={"augmentation": augmentation})
            for name in (method, "fine-tuning")
        ]
        ours, fine_tuning = map(run_seconds, of)
        return ours / fine_tuning

    assert beside("llr-bc", 1) > 3 * beside("llr-bc", 8) > 3
    assert beside("dree", 1) > beside("dree", 8) > 1
    assert beside("li", 1) == pytest.approx(beside("li", 8), rel=0.05)


@pytest.mark.parametrize(
    ("seconds", "words"), [(5, "5 s"), (600, "10 min"), (7200, "2.0 h"), (5 * 86400, "5 days"), (1e9, "32 years")]
)
def test_durations_are_written_for_people(seconds, words):
    assert in_words(seconds) == words


def test_paths_to_third_party_data_lead_to_their_experiments():
    slice_ = Path(__file__).parents[2] / "../shared/data"
    libraries = slice_.resolve()
    if not libraries.is_dir():
        pytest.skip("third-party data are not here")
    choice = Choice(scale("smoke"), libraries=libraries, lade=libraries / "lade/delivery_sh_sample.csv")
    plan = make_plan(EVERY, choice)
    assert plan.lacking == ()
    assert {job.settings.region for job in plan.jobs if job.settings.scenario == "lade"} == {"sh-1"}


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"title": "Mine", "source": "nowhere"}, "the class needs a text 'name'"),
        ({"name": "mine", "title": "Mine"}, "the class needs a text 'source'"),
        ({"name": "table1", "title": "Mine", "source": "nowhere"}, "is called 'table1'.* that none of dree's own has"),
        ({"name": "../mine", "title": "Mine", "source": "nowhere"}, r"is called '\.\./mine'.* of letters, digits"),
    ],
)
def test_an_own_experiment_whose_files_could_not_be_told_from_others_is_refused(monkeypatch, own, words):
    monkeypatch.setattr("dree.reproduce.base.Mine", type("Mine", (Experiment,), own), raising=False)
    with pytest.raises(DreeError, match=words):
        experiment("dree.reproduce.base.Mine")
