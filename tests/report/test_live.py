"""The live view: what it says of jobs as their news come, and how little where there is no screen."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from dree.errors import DreeError
from dree.experiments import RunSettings
from dree.experiments.engines.base import Job, News
from dree.report.live import Plan, live_view, tell_all
from dree.report.tables import write_seconds
from dree.report.tensorboard import tensorboard_logs


class Clock:
    """A time that passes when told to."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def jobs(*names, **settings):
    return [Job(name, RunSettings(device="cpu", **{"epochs": 100, **settings})) for name in names]


def printed(shown, width=100):
    console = Console(width=width, file=io.StringIO())
    console.print(shown)
    return console.file.getvalue()


def rows(plan, height=40):
    lines = printed(plan.table(height)).splitlines()
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if line[:1] == "│"]


def test_a_table_says_how_far_each_job_is_and_how_long_it_takes():
    clock = Clock()
    plan = Plan(jobs("a", "b", "c", "d"), clock)
    plan.hear(News("a", 0, 100, 90.0))
    plan.hear(News("b", 100, 100, 4.0))  # was finished before
    plan.hear(News("d", 0, 100, 90.0))
    clock.now += 20
    plan.hear(News("a", 10, 100, 8.125))
    plan.hear(News("d", 5, 100, 8.0, error="no room"))
    assert rows(plan) == [
        ["b", "done", "100 of 100", "4.00", "–"],
        ["d", "failed", "0 of 100", "90.00", "–"],
        ["a", "running", "10 of 100", "8.12", "3 min"],  # 90 epochs of 2 s
        ["c", "waiting", "0 of 100", "–", "3 min"],  # 100 of them
    ]
    assert plan.summary() == "1 of 4 done, 1 running, 1 waiting, 1 failed, about 6 min left"
    assert printed(plan.table(40)).splitlines()[-1] == plan.summary()


def test_jobs_side_by_side_share_what_is_left():
    clock = Clock()
    plan = Plan(jobs("a", "b", "c", "d"), clock)
    for name in ("a", "b"):
        plan.hear(News(name, 0, 100, None))
    clock.now += 60
    for name in ("a", "b"):
        plan.hear(News(name, 10, 100, None))
    assert plan.summary() == "0 of 4 done, 2 running, 2 waiting, about 19 min left"  # 2 x 540 s and 2 x 600 s by two
    clock.now += 60
    assert plan.summary().endswith("about 18 min left")


def test_the_plan_takes_no_less_than_its_slowest_job():
    clock = Clock()
    plan = Plan(jobs("slow", "fast"), clock)
    for name in ("slow", "fast"):
        plan.hear(News(name, 0, 100, None))
    clock.now += 10
    plan.hear(News("slow", 1, 100, None))
    plan.hear(News("fast", 99, 100, None))
    assert plan.summary().endswith("about 16 min left")


def test_a_job_that_goes_on_from_an_earlier_checkpoint_has_a_new_pace():
    clock = Clock()
    plan = Plan(jobs("a"), clock)
    plan.hear(News("a", 0, 100, None))
    clock.now += 100
    plan.hear(News("a", 50, 100, None))
    clock.now += 1000  # its process died, and it waited
    plan.hear(News("a", 40, 100, None))
    clock.now += 10
    progress = plan.hear(News("a", 45, 100, None))
    assert progress.pace == 2.0
    assert plan.summary() == "0 of 1 done, 1 running, about 2 min left"


def test_a_job_that_failed_and_is_tried_again_runs():
    plan = Plan(jobs("a"), Clock())
    assert plan.hear(News("a", 0, 0, None, error="lost")).state == "failed"
    assert plan.hear(News("a", 3, 100, None)).state == "running"


def test_what_does_not_fit_the_screen_is_counted():
    clock = Clock()
    plan = Plan(jobs(*(f"job{i:03d}" for i in range(119))), clock)
    for i in range(50):
        clock.now += 1
        plan.hear(News(f"job{i:03d}", 100, 100, 1.0))
    plan.hear(News("job050", 1, 100, 1.0))
    shown = rows(plan, height=20)
    assert len(shown) == 12
    assert next(row[:2] for row in shown if row[1] == "running") == ["job050", "running"]
    assert {"done", "running", "waiting"} == {row[1] for row in shown}
    assert shown[-1][0] < "job061"
    assert "and 107 more" in printed(plan.table(20))
    assert len(printed(plan.table(20)).splitlines()) <= 20


def test_the_length_of_real_days_is_not_known_before_they_are_read():
    lade = Job("days", RunSettings(scenario="lade", problem="tsp", data="x.csv", region="sh-1", test_every=10))
    plan = Plan([lade, *jobs("paper", epochs=None)], Clock())
    assert [row[2] for row in rows(plan)] == ["–", "0 of 1000"]
    plan.hear(News("days", 0, 142, 5.0))
    assert [row[2] for row in rows(plan)] == ["0 of 142", "0 of 1000"]


def test_into_a_pipe_go_lines_now_and_then():
    clock, file = Clock(), io.StringIO()
    with live_view(jobs("a", "b", "c"), Console(file=file, width=80), clock) as tell:
        tell(News("c", 100, 100, 3.0))
        for epoch in range(101):
            clock.now += 3
            tell(News("a", epoch, 100, 50.0 - epoch / 4))
        tell(News("b", 0, 100, None, error="[red] no room"))
    lines = file.getvalue().splitlines()
    assert lines[0] == "started  a at epoch 0 of 100"
    assert lines[1] == "1 of 3 done, 1 running, 1 waiting, about 9 min left; a 20 of 100"
    assert [line.split(";")[-1] for line in lines[1:5]] == [f" a {epoch} of 100" for epoch in (20, 40, 60, 80)]
    assert lines[5] == "done     a, gap 25.00 %; 2 of 3 done, 1 waiting, about 5 min left"
    assert lines[6:] == ["failed   b: [red] no room", "2 of 3 done, 1 failed"]


def test_on_a_terminal_a_table_is_drawn(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80, height=30)
    with live_view(jobs("a", "b"), console) as tell:
        tell(News("a", 100, 100, 3.0))
        tell(News("b", 0, 100, None, error="no room"))
    text = file.getvalue()
    assert "1 of 2 done, 1 failed" in text
    assert "b has failed: no room" in text


def test_a_dumb_terminal_gets_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    file = io.StringIO()
    with live_view(jobs("a"), Console(file=file, force_terminal=True)) as tell:
        tell(News("a", 0, 100, 3.0))
    assert file.getvalue().splitlines() == ["started  a at epoch 0 of 100", "0 of 1 done, 1 running"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.4, "0 s"), (59, "59 s"), (100, "2 min"), (3900, "1 h 05 min"), (200000, "2 d 7 h")],
)
def test_times_are_for_people(seconds, text):
    assert write_seconds(seconds) == text


def test_tensorboard_has_a_log_for_each_run(tmp_path):
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard")
    heard = []
    with tensorboard_logs(tmp_path) as logs:
        tell = tell_all(logs, heard.append)
        for epoch, gap in ((0, 90.0), (1, 90.0), (2, 5.0)):
            tell(News("a", epoch, 2, gap))
        tell(News("b", 0, 2, None))
        tell(News("b", 0, 2, None, error="no room"))
    assert len(heard) == 5
    events = reading.EventAccumulator(str(tmp_path / "a")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("mean gap (%)")] == [(0, 90.0), (2, 5.0)]
    assert [event.step for event in events.Scalars("epoch")] == [0, 1, 2]
    assert (tmp_path / "b").is_dir()


def test_epochs_that_are_learned_again_replace_those_before(tmp_path):
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard")
    for epochs in ((0, 1, 2, 3), (2, 3)):
        with tensorboard_logs(tmp_path) as tell:
            for epoch in epochs:
                tell(News("a", epoch, 5, None))
    events = reading.EventAccumulator(str(tmp_path / "a")).Reload()
    assert [event.step for event in events.Scalars("epoch")] == [0, 1, 2, 3]


def test_without_tensorboard_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(DreeError, match=r"pip install 'dree\[tensorboard\]'"), tensorboard_logs(tmp_path):
        pass
