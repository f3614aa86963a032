"""The README's Python example runs as it is printed, and is short; the pages of settings name them all."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from dree.lifelong import METHODS

README = Path(__file__).parents[1] / "README.md"


def test_the_quick_start_runs_and_prints_metrics_and_a_page(capsys, tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len([line for line in code.splitlines() if line]) <= 10
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(README), "exec"), {})
    metrics, page = capsys.readouterr().out.splitlines()
    assert metrics.startswith("Metrics(AP=")
    assert Path(page).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_every_method_is_in_the_readme_and_every_option_in_the_list_of_settings():
    readme, settings = README.read_text(encoding="utf-8"), (README.parent / "docs/formats.md").read_text("utf-8")
    for name, method in METHODS.items():
        assert f"(docs/methods/{name}.md) | `dree run --method {name}` |" in readme
        section = settings.partition("What is in `options`")[2]
        for option in fields(method.options_class):
            assert f"`{option.name}`" in section
