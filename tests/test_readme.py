"""The README's Python example runs as it is printed, and is short."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_quick_start_runs_and_prints_metrics_and_a_page(capsys, tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len([line for line in code.splitlines() if line]) <= 10
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(README), "exec"), {})
    metrics, page = capsys.readouterr().out.splitlines()
    assert metrics.startswith("Metrics(AP=")
    assert Path(page).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
