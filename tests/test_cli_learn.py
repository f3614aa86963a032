"""`dree learn` and `dree history`, as an operator meets them."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console
from typer.testing import CliRunner

from command_line import cells, dree, invoke, warm_dree
from dree.cli import app
from dree.cli_learn import learn
from dree.errors import DreeError
from dree.service import learning
from dree.service.budget import MINUTES
from dree.service.gate import MARGIN
from dree.service.state import State
from small_days import small_start, write_day

pytest.importorskip("hygese")


@pytest.fixture
def start(tmp_path):
    return small_start(tmp_path / "start")


@pytest.fixture
def days(tmp_path):
    return [write_day(tmp_path / "days", number) for number in range(1, 4)]


def test_each_day_ends_with_a_report_that_says_what_is_in_use(tmp_path, start, days):
    path = tmp_path / "state"
    output = invoke("learn", path, *days[:2], "--batches", 2, "--start", start, "--margin", 100)
    state = State.open(path)
    _, first, second = state.versions
    assert f"2026-01-01: 12 stops, learned in {first.seconds:.0f} s (batches: 2)." in output
    assert f"{first.today.before:z.2f} % before and {first.today.after:z.2f} % now" in output
    assert (
        f"past days (a sample of 1), by {second.past.before:.2f} % before and {second.past.after:.2f} % now" in output
    )
    assert "Version 2 is in use now: on past days it is" in output
    mean = (second.today.after + second.past.after) / 2
    assert f"On 2 days that are kept to see forgetting, routes of version 2 are {mean:.2f} % longer" in output


def test_a_log_shows_what_is_going_on(tmp_path, start, days):
    """Where no bar can move, each part of a day is a line, before the day's report."""
    output = invoke("learn", tmp_path / "state", *days[:2], "--batches", 1, "--start", start)
    for day in ("2026-01-01 (1 of 2)", "2026-01-02 (2 of 2)"):
        assert f"{day}: reference tours ...\n{day}: testing ...\n{day}: learning ...\n{day}: testing ...\n" in output
    assert output.index("learning ...") < output.index("learned in")


def test_a_version_that_is_worse_is_told_to_stay_out_of_use(tmp_path, start, days):
    path = tmp_path / "state"
    invoke("learn", path, days[0], "--batches", 1, "--start", start)
    content = json.loads((path / "state.json").read_text())
    content["past"][0]["gaps"][-1][1] = -50.0  # so that nothing can be as good on the past
    (path / "state.json").write_text(json.dumps(content))
    output = invoke("learn", path, days[1], "--batches", 1)
    assert "stays in use, not the new version 2: it is " in output
    assert "points worse on past days, and the margin is 0.3." in output
    assert "not used" in invoke("history", path)


def test_a_day_that_comes_again_is_nothing_new(tmp_path, start, days):
    invoke("learn", tmp_path / "state", days[0], "--batches", 1, "--start", start, "--margin", 100)
    output = invoke("learn", tmp_path / "state", days[0])
    assert "2026-01-01 was learned before as version 1. Skipped." in output
    assert "There was nothing new to learn. Version 1 is in use." in output


def test_a_bad_file_is_named_at_the_end_and_the_good_day_is_learned(tmp_path, start, days):
    path, empty = tmp_path / "state", tmp_path / "empty.csv"
    empty.write_text("")
    done = dree("learn", str(path), str(empty), str(days[0]), "--batches", "1", "--start", str(start))
    assert done.returncode == 2
    assert done.stdout.index(f"Refused: {empty} is empty") < done.stdout.index("On 1 day that is kept")
    assert f"Error: Refused, while all else was learned:\n{empty} is empty" in done.stderr
    assert len(State.open(path).versions) == 2


def test_an_interrupt_names_the_last_day_that_is_learned(tmp_path, start, days, monkeypatch):
    real = learning._learned

    def interrupted(state, learner, day, *words):
        if day.day == "2026-01-02":
            raise KeyboardInterrupt
        return real(state, learner, day, *words)

    monkeypatch.setattr(learning, "_learned", interrupted)
    done = CliRunner().invoke(app, ["learn", *map(str, [tmp_path / "state", *days, "--batches", 1, "--start", start])])
    assert done.exit_code == 130
    assert "Stopped; 1 day is learned, the last of them 2026-01-01. Nothing is lost" in done.stderr
    assert len(State.open(tmp_path / "state").versions) == 2


def test_the_budget_in_minutes_bounds_learning(tmp_path, start, days):
    invoke("learn", tmp_path / "state", days[0], "--minutes", 0.05, "--start", start)
    invoke("learn", tmp_path / "state", days[1], "--minutes", 0.1)
    _, short, long = State.open(tmp_path / "state").versions
    assert 1 <= short.batches < long.batches


def test_the_defaults_are_those_of_the_daily_loop():
    defaults = {name: each.default for name, each in inspect.signature(learn).parameters.items()}
    assert (defaults["minutes"], defaults["margin"]) == (MINUTES, MARGIN)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--minutes", "0"], "--minutes must be a number above 0"),
        (["--batches", "0"], "--batches must be at least 1"),
        (["--margin", "-1"], "The margin must be a number"),
        (["--device", "tpu"], "Unknown device 'tpu'"),
        (["--method", "dre"], "Unknown method 'dre'"),
        (["--start", "nowhere"], "nowhere is not a run"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(tmp_path, start, days, options, message):
    begin = [] if "--start" in options else ["--start", start]
    with pytest.raises(DreeError, match=message):
        invoke("learn", tmp_path / "state", days[0], *begin, *options)
    assert not (tmp_path / "state").exists()


def test_history_lists_versions_and_goes_back(tmp_path, start, days):
    path = tmp_path / "state"
    invoke("learn", path, *days, "--batches", 1, "--start", start, "--margin", 100)
    output = invoke("history", path, "--rollback", 1, "--json", tmp_path / "history.json")
    assert "Version 1 is in use again" in output
    state = State.open(path)
    assert state.in_use == 1
    rows = [row for row in cells(output) if row and row[0] in "0123"]
    assert [row[1] for row in rows] == ["start", "2026-01-01", "2026-01-02", "2026-01-03"]
    today, past = state.versions[2].today, state.versions[2].past
    shown = [f"{today.before:.2f}", "→", f"{today.after:.2f}", f"{past.before:.2f}", "→", f"{past.after:.2f}"]
    assert rows[2][2:9] == ["12", *shown]
    assert rows[1][6:8] == ["in", "use"]
    assert rows[2][9] == rows[3][9] == "undone"
    assert "Not learned any more: 2026-01-02, 2026-01-03." in output
    assert "back from version 3 to version 1." in output
    written = json.loads((tmp_path / "history.json").read_text())
    assert (written["in_use"], len(written["versions"])) == (1, 4)
    assert written["versions"][3]["past"] == {"before": past_of(state, 3).before, "after": past_of(state, 3).after}
    assert written["rollbacks"][0]["to"] == 1
    assert [each["undone"] for each in written["versions"]] == [False, False, True, True]
    gap = state.versions[1].today.after
    assert written["forgetting"]["AP"] == pytest.approx(gap)
    assert f"On 1 day that is kept to see forgetting, routes of version 1 are {gap:.2f} % longer" in output


def past_of(state, number):
    return state.versions[number].past


def test_a_narrow_terminal_shows_days_and_gaps_whole(tmp_path, start, days, monkeypatch):
    monkeypatch.setattr("dree.cli_learn.console", Console(width=80))
    path = tmp_path / "state"
    output = invoke("learn", path, days[0], "--batches", 1, "--start", start, "--margin", 100)
    assert "On 1 day that is kept to see forgetting" in output
    content = json.loads((path / "state.json").read_text())
    content["versions"][1] |= {"today": [12.34, 12.34], "past": [-0.001, 56.78], "promoted": False}
    (path / "state.json").write_text(json.dumps(content))
    row = next(line for line in invoke("history", path).splitlines() if "2026-01-01" in line)
    assert row.split()[:10] == ["1", "2026-01-01", "12", "12.34", "→", "12.34", "0.00", "→", "56.78", "not"]
    assert len(row) <= 80


def test_history_says_what_is_damaged(tmp_path, start, days):
    path = tmp_path / "state"
    invoke("learn", path, days[0], "--batches", 1, "--start", start, "--margin", 100)
    (path / "files" / State.open(path).versions[1].solver.name).write_bytes(b"")
    with pytest.raises(DreeError, match=r"solver-.*is damaged.*\nRestore these from a backup"):
        invoke("history", path)


def test_a_lost_solver_that_only_going_back_needs_is_said_and_no_error(tmp_path, start, days):
    path = tmp_path / "state"
    invoke("learn", path, *days[:2], "--batches", 1, "--start", start, "--margin", 100)
    lost = path / "files" / State.open(path).versions[1].solver.name
    lost.unlink()
    output = invoke("history", path)
    assert f"{lost} is missing. Nobody can go back to version 1 without it; all else goes on." in output
    assert len([row for row in cells(output) if row and row[0] in ("0", "1", "2")]) == 3


@pytest.mark.parametrize("name", ["state.json", "lock", "files/mine.json", ".state.json.12"])
def test_no_output_takes_the_place_of_the_states_own_files(tmp_path, start, days, name, monkeypatch):
    path = tmp_path / "state"
    invoke("learn", path, days[0], "--batches", 1, "--start", start)
    before = State.open(path)
    (tmp_path / "link").symlink_to(path)
    monkeypatch.chdir(path)
    for out in (path / name, tmp_path / "link" / name, name):
        for words in (
            ["history", path, "--rollback", 0, "--json", out],
            ["watch", path, "--out", out],
            ["solve", days[1], "--state", path, "--csv", out],
        ):
            with pytest.raises(DreeError, match=rf"{name} belongs to the state in .* Write to another place"):
                invoke(*words)
    assert State.open(path) == before
    assert before.damaged() == {}
    invoke("watch", ".")
    invoke("history", ".", "--json", "history.json")
    assert {each.name for each in path.iterdir()} == {"state.json", "lock", "files", "watch.html", "history.json"}


def test_names_of_days_are_shown_as_they_are(tmp_path, start, days):
    tour = tmp_path / "tour [west].csv"
    tour.write_text(days[0].read_text().replace("2026-01-01,", ",").replace("date,", "day,"))
    output = invoke("learn", tmp_path / "state", tour, "--batches", 1, "--start", start)
    assert "tour [west]: 12 stops" in output
    assert "tour [west]" in invoke("history", tmp_path / "state")


def test_two_at_once_are_refused_and_an_interrupt_says_where_it_stands(tmp_path, start, days):
    path = tmp_path / "state"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = ["learn", str(path), *map(str, days), "--start", str(start), "--minutes", "10"]
    first = subprocess.Popen(
        [sys.executable, "-m", "dree", *words],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        while not State.exists(path):
            assert first.poll() is None
            time.sleep(0.05)
        before = State.open(path)
        second = warm_dree("learn", str(path), str(days[0]), "--batches", "1")
        assert second.returncode == 2
        assert f"is in use by dree learn (process {first.pid} on " in second.stderr
        assert "Traceback" not in second.stderr
        first.send_signal(signal.SIGINT)
        _, errors = first.communicate(timeout=60)
    finally:
        first.kill()
    assert first.returncode == 130
    assert "Stopped before a day was learned. Nothing is lost: go on with the same command." in errors
    assert "Traceback" not in errors
    assert State.open(path) == before
    third = warm_dree("learn", str(path), str(days[0]), "--batches", "1")
    assert third.returncode == 0, third.stderr
    assert len(State.open(path).versions) == 2
