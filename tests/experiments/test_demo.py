"""The demo: two runs that differ in nothing but the method, and a folder from which only demos are removed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dree.errors import DreeError
from dree.experiments import DEMO, Run, RunFolder
from dree.experiments.demo import clear_demo, demo_settings
from dree.settings import override
from small_runs import SMALL

TINY = {**SMALL, "epochs": 5}


def test_both_methods_have_the_same_settings_and_batches_in_the_papers_ratio():
    chosen = demo_settings({"batches": 164, "options.alpha": 7})
    plain, dree = chosen["fine-tuning"], chosen["dree"]
    assert (plain.batches, dree.batches) == (164, 128)
    assert (plain.options, dree.options) == ({}, {"alpha": 7})
    assert replace(dree, method="fine-tuning", options={}, batches=164) == plain == replace(DEMO, batches=164)


def test_the_demos_own_numbers_of_batches_are_near_the_papers_ratio():
    chosen = demo_settings({})
    assert chosen["dree"].batches / chosen["fine-tuning"].batches == pytest.approx(128 / 164, rel=0.01)
    assert [each.batches_per_epoch for each in demo_settings({"batches": None}).values()] == [164, 128]


def test_another_method_is_refused():
    with pytest.raises(DreeError, match="about two methods"):
        demo_settings({"method": "li"})


def make_demo(path):
    for method, settings in demo_settings(TINY).items():
        RunFolder.create(path / method, settings, {}, "demo")
    (path / "report.html").write_text("page")


def test_an_earlier_demo_is_removed_and_what_a_user_put_beside_it_is_kept(tmp_path):
    demo = tmp_path / "demo"
    make_demo(demo)
    assert clear_demo(demo)
    assert not list(demo.iterdir())
    make_demo(demo)
    (demo / "routes.json").write_text("mine")
    assert clear_demo(demo)
    assert [file.name for file in demo.iterdir()] == ["routes.json"]


def test_a_demo_of_the_older_layout_is_removed(tmp_path):
    demo = tmp_path / "demo"
    run = Run.start(demo, override(DEMO, TINY), kind="demo")
    run.finish()
    (demo / "report.html").write_text("page")
    assert clear_demo(demo)
    assert not demo.exists()


def test_a_file_of_the_user_in_a_run_of_the_demo_keeps_all_of_it(tmp_path):
    make_demo(tmp_path / "demo")
    (tmp_path / "demo/dree/notes.txt").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DreeError, match=r"dree/notes\.txt is not a demo's"):
        clear_demo(tmp_path / "demo")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("method", ["fine-tuning", "dree"])
def test_a_demo_that_is_under_way_is_left_alone(tmp_path, method):
    make_demo(tmp_path / "demo")
    before = {file for file in tmp_path.rglob("*") if file.name != ".lock"}
    with RunFolder(tmp_path / "demo" / method).locked(), pytest.raises(DreeError, match="Another process"):
        clear_demo(tmp_path / "demo")
    assert {file for file in tmp_path.rglob("*") if file.name != ".lock"} == before


def test_what_a_killed_demo_left_over_is_removed(tmp_path):
    demo = tmp_path / "demo"
    make_demo(demo)
    (demo / "dree/.gaps.csv.123").write_text("half")
    (demo / "dree/checkpoint").mkdir()
    (demo / "dree/checkpoint/.000000002.safetensors.123").write_text("half")
    assert clear_demo(demo)
    assert not list(demo.iterdir())


def test_where_there_is_nothing_there_is_no_demo(tmp_path):
    assert not clear_demo(tmp_path / "none")
    assert not clear_demo(tmp_path)


@pytest.mark.parametrize("place", ["", "dree", "fine-tuning"])
def test_a_run_that_is_not_a_demo_is_left_alone(tmp_path, place):
    RunFolder.create(tmp_path / "demo/dree", override(DEMO, TINY), {}, "demo" if place != "dree" else "run")
    if place != "dree":
        run = tmp_path / "demo" / place
        other = RunFolder.create(tmp_path / "other", override(DEMO, TINY), {})
        run.mkdir(exist_ok=True)
        (other.path / "manifest.json").rename(run / "manifest.json")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DreeError, match="not a demo's, so it is left alone"):
        clear_demo(tmp_path / "demo")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["letter.txt", "dree/letter.txt"])
def test_a_folder_of_something_else_is_left_alone(tmp_path, name):
    file = tmp_path / "demo" / name
    file.parent.mkdir(parents=True)
    file.write_text("dear")
    with pytest.raises(DreeError, match="not a demo's, so it is left alone"):
        clear_demo(tmp_path / "demo")
    assert file.read_text() == "dear"
