"""The Python examples of the README and of its page run as they are printed; the pages of settings name them all."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from dree.evaluation.evaluate import average_gap
from dree.lifelong import METHODS
from dree.problems.check import check_cvrp

README = Path(__file__).parents[1] / "README.md"


def test_the_quick_start_runs_and_prints_metrics_and_a_page(capsys, tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len([line for line in code.splitlines() if line]) <= 10
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(README), "exec"), {})
    metrics, page = capsys.readouterr().out.splitlines()
    assert metrics.startswith("Metrics(AP=")
    assert Path(page).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_page_about_python_runs_from_top_to_bottom(tmp_path, monkeypatch):
    page = README.parent / "docs/in-python.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    answers = names["answers"]
    assert answers.costs[0] == pytest.approx(
        check_cvrp(names["places"], names["demands"], 15, answers.tours[0].tolist())
    )
    assert answers[0].loads == [3 * len(route) for route in answers[0].routes]
    assert (tmp_path / "routes.png").read_bytes().startswith(b"\x89PNG")
    assert (names["epochs"], names["tasks"]) == ([0, 2, 4, 5], ["E", "C", "G", "U", "R", "GM"])
    assert names["gaps"].tolist() == names["run"].matrix
    assert average_gap(names["solver"], names["test"]) < names["before"]


def test_every_method_is_in_the_readme_and_every_option_in_the_list_of_settings():
    readme, settings = README.read_text(encoding="utf-8"), (README.parent / "docs/formats.md").read_text("utf-8")
    for name, method in METHODS.items():
        assert f"(docs/methods/{name}.md) | `dree run --method {name}` |" in readme
        section = settings.partition("What is in `options`")[2]
        for option in fields(method.options_class):
            assert f"`{option.name}`" in section
