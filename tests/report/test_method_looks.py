"""The lines of methods: one colour for one method, in every figure and in whatever company."""

from __future__ import annotations

import base64
import re

import pytest

from dree.experiments import DEMO, Run
from dree.experiments.naming import IN_PRINT
from dree.lifelong import METHODS
from dree.report.comparison_page import write_comparison_page
from dree.report.method_looks import METHOD_COLOURS, OTHERS, method_looks
from dree.report.run_curves import mean_curves, run_curves
from dree.report.run_page import write_run_page
from dree.report.style import LINE_STYLES
from dree.report.suite_groups import RunGroup, view_of
from dree.settings import override
from run_folders import SMALL, run_with_gaps

LAWS = ["E", "C", "G", "U", "R", "GM"]
OWN = "dree.lifelong.FineTuning"


def of(*titles):
    return method_looks({title: title for title in titles})


def run(path, method, **settings):
    return run_with_gaps(path, [[9.0] * 6, [4.0] * 6], [0, 100], LAWS, epochs=100, method=method, **settings)


def drawn(axes):
    return {line.get_label(): line.get_color() for line in axes.get_lines() if line.get_label() != "_best"}


def test_every_method_and_every_ablation_has_a_colour_of_its_own():
    assert set(METHODS) | {f"dree without {part}" for part in ("br", "ee", "pir")} == set(METHOD_COLOURS)
    colours = [*METHOD_COLOURS.values(), *OTHERS]
    assert len(set(colours)) == len(colours)


def test_company_and_order_change_nothing():
    alone, beside = of("dree"), of("own.Method", "dree without pir", "fine-tuning", "dree")
    assert alone["dree"] == beside["dree"] == (METHOD_COLOURS["dree"], LINE_STYLES[0])
    assert beside["dree without pir"].colour == METHOD_COLOURS["dree without pir"]
    assert beside["own.Method"].colour == OTHERS[0]


def test_changed_options_have_the_methods_colour_unless_it_is_there_as_it_is():
    assert of("fine-tuning", "li, refresh_every 1")["li, refresh_every 1"].colour == METHOD_COLOURS["li"]
    looks = of("dree, alpha 1.0", "dree, alpha 2.0", "dree", "dree, alpha 3.0")
    assert [look.colour for look in looks.values()] == [OTHERS[0], OTHERS[1], METHOD_COLOURS["dree"], OTHERS[0]]
    assert looks["dree, alpha 3.0"].dashes == LINE_STYLES[1]
    assert len(set(looks.values())) == len(looks)


def test_seeds_of_one_method_share_its_colour_and_differ_in_their_dashes():
    first, second = method_looks({"dree-0": "dree", "dree-1": "dree"}).values()
    assert (first.colour, second.colour) == (METHOD_COLOURS["dree"], METHOD_COLOURS["dree"])
    assert (first.dashes, second.dashes) == LINE_STYLES[:2]


@pytest.mark.parametrize("names", [("dree", "fine-tuning", OWN), (OWN, "fine-tuning", "dree")])
def test_curves_of_runs_and_their_means_have_the_same_colours(tmp_path, names):
    paths = {name: run(tmp_path / name, name) for name in names}
    seeds = {f"{name}, on average": [path, run(tmp_path / f"{name}-1", name, seed=1)] for name, path in paths.items()}
    curves = drawn(run_curves(list(paths.values())).subfigs[0].axes[0])
    means = drawn(mean_curves(seeds).axes[0])
    wanted = {"dree": METHOD_COLOURS["dree"], "fine-tuning": METHOD_COLOURS["fine-tuning"], OWN: OTHERS[0]}
    assert curves == {IN_PRINT.get(name, name): colour for name, colour in wanted.items()}
    assert means == {f"{name}, on average": colour for name, colour in wanted.items()}


def test_runs_that_are_called_by_their_folders_have_their_methods_colours(tmp_path):
    names = {"a": "fine-tuning", "b": "dree", "c": "dree"}
    paths = [run(tmp_path / name, method, seed=seed) for seed, (name, method) in enumerate(names.items())]
    curves = drawn(run_curves(paths).subfigs[0].axes[0])
    assert curves == {name: METHOD_COLOURS[method] for name, method in names.items()}


def test_a_runs_page_has_the_colour_of_its_method(tmp_path):
    settings = override(
        DEMO, {"method": "llr-bc", "epochs": 5, "batches": 1, "batch_size": 2, "test_instances": 1, **SMALL}
    )
    Run.start(tmp_path / "run", settings).finish()
    for page in (write_run_page(tmp_path / "run"), write_comparison_page([tmp_path / "run"], tmp_path / "page.html")):
        curves = re.findall(r"data:image/svg\+xml;base64,([^\"]*)", page.read_text())[0]
        strokes = set(re.findall(r"stroke: (#[0-9a-f]{6})", base64.b64decode(curves).decode()))
        assert METHOD_COLOURS["llr-bc"].lower() in strokes
        assert not strokes & {*map(str.lower, {*METHOD_COLOURS.values(), *OTHERS} - {METHOD_COLOURS["llr-bc"]})}


def test_the_page_of_a_suite_has_them_too(tmp_path):
    looks = of("li", "dree")
    runs = {"dree": run(tmp_path / "dree", "dree"), "li": run(tmp_path / "li", "li")}
    methods = view_of(RunGroup("G", runs), looks).plain["methods"]
    assert [each["colour"] for each in methods] == [METHOD_COLOURS["dree"], METHOD_COLOURS["li"]]
    assert [each["dash"] for each in methods] == ["solid", "solid"]
