"""Code of the user's own that is edited between two parts of a run, or between two reproductions."""

from __future__ import annotations

import importlib
import json
import sys
from hashlib import sha256
from pathlib import Path

import pytest
import torch

from command_line import invoke
from dree.data import SetKey, TestSet, user_folder, write_test
from dree.evaluation.building import generator_seed
from dree.experiments import DEMO, Run, RunFolder
from dree.experiments.engines.base import Job
from dree.experiments.engines.work import carry_out_one
from dree.experiments.own_code import code_record
from dree.lifelong import method_class
from dree.settings import override
from dree.tasks import task_named
from dree.tasks.laws import _own_law
from small_runs import SMALL

CODE = """
from dree.lifelong import Method
from dree.solvers import POMO
from dree.tasks import DriftStream
from dree.tasks.laws import Uniform

class Mine(Method): pass
class Net(POMO): pass
class Way(DriftStream): pass
class Even(Uniform):
    pass
"""
SETTINGS = {**SMALL, "epochs": 5, "method": "my_code.Mine"}


@pytest.fixture
def module(tmp_path, monkeypatch) -> Path:
    """The file of a module of the user's own."""
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "my_code.py"
    path.write_text(CODE)
    yield path
    forget()


def edit(module: Path) -> None:
    """Another content, for whoever imports it next, as another process would."""
    module.write_text(module.read_text() + "# edited\n")
    forget()


def forget() -> None:
    sys.modules.pop("my_code", None)
    _own_law.cache_clear()
    importlib.invalidate_caches()


def stopped(path: Path) -> Run:
    run = Run.start(path, override(DEMO, SETTINGS))
    run.learn_epoch()
    return run


def resumed(path: Path) -> list[str]:
    """What is said when a run goes on."""
    said: list[str] = []
    Run.resume(path, said.append).finish()
    return said


def test_a_run_whose_own_code_was_edited_goes_on_with_a_warning(tmp_path, module):
    run = stopped(tmp_path / "run")
    assert run.folder.manifest()["code"] == {"my_code": sha256(module.read_bytes()).hexdigest()}
    edit(module)
    (said,) = resumed(run.folder.path)
    assert said.startswith(f"Warning: my_code has changed since {run.folder.path} was started, and what is left would")
    assert said.endswith("restore the old code, or start a new run.")
    assert resumed(run.folder.path) == []  # finished: nothing is learned any more


@pytest.mark.parametrize("recorded", [True, False])
def test_nothing_is_said_where_it_is_the_same_or_the_manifest_has_no_digest(tmp_path, module, recorded):
    folder = stopped(tmp_path / "run").folder
    if not recorded:
        manifest = folder.manifest()
        del manifest["code"]
        (folder.path / "manifest.json").write_text(json.dumps(manifest))
        edit(module)
    assert resumed(folder.path) == []


def test_a_reproduction_does_not_take_a_run_of_the_old_code_for_one_of_the_new(tmp_path, module):
    job = Job("job", override(DEMO, SETTINGS))
    assert carry_out_one(job, tmp_path, lambda _: None).error is None
    assert carry_out_one(job, tmp_path, lambda _: None).error is None
    edit(module)
    before = (tmp_path / "runs/job/gaps.csv").stat()
    outcome = carry_out_one(job, tmp_path, lambda _: None)
    assert outcome.run is None
    assert outcome.error == (
        f"{tmp_path / 'runs/job'} holds a run with modules of your own (my_code) that have changed since. "
        "Move it away or delete it, then start again; nothing in it was touched."
    )
    assert (tmp_path / "runs/job/gaps.csv").stat() == before
    RunFolder(tmp_path / "runs/job").path.rename(tmp_path / "old")
    assert carry_out_one(job, tmp_path, lambda _: None).error is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("method", "my_code.Mine"),
        ("base", "my_code.Net"),
        ("scenario", "my_code.Way"),
        ("order", ["U", "my_code.Even"]),
    ],
)
@pytest.mark.usefixtures("module")
def test_it_may_be_a_method_a_solver_a_scenario_or_a_law(name, value):
    assert list(code_record(override(DEMO, {"sizes": {}, name: value}))["code"]) == ["my_code"]


def test_an_evaluation_says_that_a_law_was_edited_since_its_run_and_its_test_set_were_made(tmp_path, module):
    laws = {"order": ["U", "my_code.Even"], "sizes": {**DEMO.sizes, "my_code.Even": 10}, "problem": "tsp"}
    key = SetKey("tsp", "my_code.Even10")
    instances = task_named(key.task, "tsp").sample(3, torch.Generator().manual_seed(generator_seed(1, key)))
    test = TestSet(key.name, key.task, instances, torch.ones(3, dtype=torch.float64))
    write_test(key, test, {"seed": 1}, user_folder())
    path = tmp_path / "run"
    Run.start(path, override(DEMO, {**SETTINGS, "method": "fine-tuning", "epochs": 1, **laws})).finish()

    def said() -> str:
        return " ".join(invoke("evaluate", path, "--limit", 1, "--device", "cpu").split())

    edited = f"Warning: my_code has changed since {path} was started, whose solver has learned from what the old code"
    built = "Warning: The test set tsp-my_code.Even10-text was made before my_code.Even was edited: other instances"
    assert "Warning" not in said()
    edit(module)  # what is drawn stays the same
    assert (edited in (shown := said()), built in shown) == (True, False)
    module.write_text(CODE + "    def draw(self, *given): return super().draw(*given)[0] / 2, None\n")
    edit(module)
    assert (edited in (shown := said()), built in shown) == (True, True)
    assert "The gaps shown here are those on the set as it is." in shown


def test_what_comes_with_dree_has_no_digest_nor_has_what_is_in_no_file(monkeypatch, module):
    assert code_record(override(DEMO, {"method": "dree.lifelong.DREE"})) == {}
    settings = override(DEMO, {"method": "my_code.Mine"})
    monkeypatch.delattr(sys.modules["my_code"], "__file__")
    assert code_record(settings) == {}


def test_it_is_the_code_that_was_imported_even_if_its_file_has_changed_since(module):
    """As in a notebook, until the module is reloaded."""
    settings = override(DEMO, {"method": "my_code.Mine"})
    before, imported = code_record(settings), method_class("my_code.Mine")
    module.write_text(module.read_text() + "# edited\n")
    assert code_record(settings) == before
    assert importlib.reload(sys.modules["my_code"]).Mine is not imported
    assert code_record(settings) != before
