"""Wherever learning or going back dies or finds the disk full, the state is the one before it, or the one after it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dree.service.rollback import roll_back
from small_days import learn, small_start, write_day

pytestmark = pytest.mark.usefixtures("shared_references")


@pytest.mark.parametrize("job", ["learn", "1"])
@pytest.mark.parametrize(("mode", "status"), [("die", 9), ("full", 2)])
def test_nothing_is_ever_half_done(tmp_path, mode, status, job):
    pytest.importorskip("hygese")
    start = small_start(tmp_path / "start")
    first, second = (write_day(tmp_path / "days", number) for number in (1, 2))
    learn(tmp_path / "before", first, start=start)
    shutil.copytree(tmp_path / "before", tmp_path / "after")
    learn(tmp_path / "after", first, second)
    if job != "learn":
        shutil.copytree(tmp_path / "after", tmp_path / "before", dirs_exist_ok=True)
        roll_back(tmp_path / "after", int(job), lambda _: None)
    driver = Path(__file__).with_name("crash_driver.py")
    done = subprocess.run([sys.executable, driver, tmp_path, mode, job], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    operations, met = json.loads(done.stdout)
    assert operations > 5
    assert [0, True] in met  # in the end it met no trouble
    assert [status, False] in met
