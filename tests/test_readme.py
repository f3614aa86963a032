"""The README's Python example runs as it is printed, and is short."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_quick_start_runs_and_prints_a_gap(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len([line for line in code.splitlines() if line]) <= 10
    exec(compile(code, str(README), "exec"), {})
    assert 0 < float(capsys.readouterr().out) < 300
