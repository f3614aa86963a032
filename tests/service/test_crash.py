"""Wherever learning dies or finds the disk full, the state is the one before the day, or the one after it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from small_days import learn, small_start, write_day


@pytest.mark.parametrize(("mode", "status"), [("die", 9), ("full", 2)])
def test_nothing_is_ever_half_done(tmp_path, mode, status):
    pytest.importorskip("hygese")
    start = small_start(tmp_path / "start")
    first, second = (write_day(tmp_path / "days", number) for number in (1, 2))
    learn(tmp_path / "before", first, start=start)
    learn(tmp_path / "after", first, second, start=start)
    driver = Path(__file__).with_name("crash_driver.py")
    done = subprocess.run([sys.executable, driver, tmp_path, mode], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    operations, met = json.loads(done.stdout)
    assert operations > 10
    assert [0, True] in met  # in the end it met no trouble
    assert [status, False] in met
