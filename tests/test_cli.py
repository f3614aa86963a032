"""The command line as a user meets it, bad input included: a clear message, no traceback, nothing lost."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from command_line import dree, invoke, warm_dree
from dree.cli import app
from dree.evaluation.metrics import metrics
from dree.experiments import DEMO, Run, RunFolder
from dree.settings import override
from small_runs import SMALL, as_options

TINY = as_options({**SMALL, "epochs": 5, "batches": 1})
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder in which a tiny CVRP run has been made, where `dree solve` looks for one."""
    folder = tmp_path_factory.mktemp("place")
    made = dree("run", "--preset", "demo", *TINY, "--out", "runs/demo/dree", cwd=folder)
    assert made.returncode == 0, made.stderr
    assert "AMFB" in made.stdout
    assert "epoch    4 gaps %  E " in made.stdout
    return folder


def test_the_version_is_said():
    assert invoke("--version") == f"dree {importlib.metadata.version('dree')}\n"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["demo"],
        ["run"],
        ["solve"],
        ["plot", "tasks"],
        ["report"],
        ["data", "build"],
        ["data", "list"],
        ["results", "add"],
    ],
)
def test_help_is_there_for_every_command(words):
    result = dree(*words, "--help")
    assert result.returncode == 0
    assert "Usage" in result.stdout


def test_a_run_writes_its_page(place):
    page = (place / "runs/demo/dree/report.html").read_text()
    assert "Learning curves" in page
    assert page.count("<img") >= 3
    assert "http" not in page.replace("http://www.w3.org", "").replace("http-equiv", "")
    assert warm_dree("report", "runs/demo/dree", cwd=place).returncode == 0
    several = warm_dree("report", "runs/demo", cwd=place)
    assert several.returncode == 2
    assert "it holds runs: dree. Name one of them." in several.stderr.replace("\n", " ")


def test_an_existing_run_is_not_overwritten_but_resumed(place):
    mixed = warm_dree("run", "--resume", "runs/demo/dree", "--without", "br", cwd=place)
    assert mixed.returncode == 2
    assert "keeps its settings" in mixed.stderr
    refused = warm_dree("run", "--preset", "demo", *TINY, "--out", "runs/demo/dree", cwd=place)
    assert refused.returncode == 2
    assert "runs/demo/dree exists already." in refused.stderr
    advice = "Continue it with dree run --resume runs/demo/dree, or choose another folder with --out."
    assert advice in refused.stderr
    resumed = warm_dree("run", "--resume", "runs/demo/dree", cwd=place)
    assert resumed.returncode == 0
    assert "is at epoch 5 of 5: it is finished" in resumed.stdout


def test_a_run_that_goes_on_with_other_code_says_so(tmp_path):
    Run.start(tmp_path / "run", override(DEMO, {**SMALL, "epochs": 5, "test_every": 5})).checkpoint()
    manifest = RunFolder(tmp_path / "run").manifest()
    now, manifest["versions"]["torch"] = manifest["versions"]["torch"], "1.0"
    manifest["commit"] = "0123abcd"
    (tmp_path / "run/manifest.json").write_text(json.dumps(manifest))
    said = invoke("run", "--resume", tmp_path / "run")
    assert "It was started with commit 0123abcd (now " in said
    assert f"torch 1.0 (now {now}): its numbers may differ from those of an uninterrupted run." in said
    assert "numpy" not in said
    assert "It was started with" not in invoke("run", "--resume", tmp_path / "run")  # nothing is left to learn


def test_the_demo_compares_two_methods_in_a_table_and_a_page(tmp_path):
    made = dree("demo", *TINY, "--set", "options.alpha=7", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    demo = tmp_path / "runs/demo"
    for method, title in {"fine-tuning": "fine-tuning", "dree": "dree, alpha 7.0"}.items():
        assert f"{title}    5 gaps %  E " in made.stdout
        epochs, matrix, _ = RunFolder.open(demo / method).gaps()
        assert epochs[-1] == 5
        row = next(line for line in made.stdout.splitlines() if line.startswith(f"│ {title} "))
        assert row.split("│")[1].strip() == title
        assert [float(cell) for cell in row.split("│")[2:-1]] == [
            round(value, 2) for value in metrics(matrix).as_dict().values()
        ]
    chosen = {name: RunFolder.open(demo / name).settings() for name in ("fine-tuning", "dree")}
    assert chosen["dree"] == replace(chosen["fine-tuning"], method="dree", options={"alpha": 7})
    page = (demo / "report.html").read_text()
    assert "DREE beside fine-tuning" in page
    assert page.count("<img") == 4
    assert "http" not in page.replace("http://www.w3.org", "").replace("http-equiv", "")
    (tmp_path / "stops.csv").write_text("x,y,demand\n0,0,0\n1,0,2\n0,1,2\n")
    solved = dree("solve", "stops.csv", "--capacity", "4", "--run", "runs/demo/dree", cwd=tmp_path)
    assert "Routes of 3.41421" in solved.stdout

    impossible = warm_dree("demo", "--set", "sizes.U=11", cwd=tmp_path)
    assert impossible.returncode == 2
    assert (demo / "report.html").exists()
    again = warm_dree("demo", *TINY, cwd=tmp_path)
    assert again.returncode == 0
    assert "Replacing the earlier demo" in again.stdout
    assert RunFolder.open(demo / "dree").settings().options == {}


@pytest.mark.parametrize(
    ("arguments", "folder", "options"),
    [
        (["--method", "dree", "--without", "pir"], "dree-without-pir-T5-seed0", {"without": "pir"}),
        (["--method", "dree", "--set", "options.alpha=50"], "dree-alpha-50.0-T5-seed0", {"alpha": 50}),
        (["--method", "llr-bc", "--set", "options.buffer_every=10"], "llr-bc-buffer_every-10-T5-seed0", None),
    ],
)
def test_an_ablation_or_an_option_has_a_folder_of_its_own(tmp_path, arguments, folder, options):
    (tmp_path / "tiny.json").write_text(json.dumps({"solver": {"width": 16, "layers": 1}, "batch_size": 4}))
    small = ["--epochs", "5", "--set", "batches=1", "--set", "test_instances=1", "--config", "tiny.json"]
    made = warm_dree("run", "--preset", "demo", *small, *arguments, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    (path,) = (tmp_path / "runs").iterdir()
    assert path.name.startswith(f"demo-cvrp-drift-1-{folder}-batch_size=4-batches=1-test_instances=1-solver.width=16")
    found = RunFolder.open(path).settings().options
    assert found == (options or {"buffer_every": 10})


def test_the_help_of_run_names_every_method_and_how_to_set_an_option():
    from dree.lifelong import METHODS

    words = " ".join(dree("run", "--help").stdout.replace("│", " ").split())
    assert f"{', '.join(METHODS)}, or a dotted path to your own class" in words
    assert "options.alpha=50" in words


def test_square_brackets_in_names_and_messages_are_not_markup(place):
    (place / "[bold]" / "[").mkdir(parents=True)
    (place / "[bold]/[/x].json").write_text('{"coordinates": 5}')
    result = warm_dree("solve", "[bold]/[/x].json", cwd=place)
    assert result.returncode == 2
    assert '[bold]/[/x].json: "coordinates" must be a list of [x, y] pairs.' in result.stderr


def test_ctrl_c_while_the_program_is_loaded_ends_it_quietly(tmp_path):
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")  # the first large package that it loads
    result = dree("--help", cwd=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


def test_an_interrupted_run_says_how_to_go_on(tmp_path):
    command = [sys.executable, "-m", "dree", "run", "--preset", "demo", "--out", "run"]
    interruptible = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # even where the tests themselves are not
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=tmp_path, text=True, preexec_fn=interruptible, **pipes)
    while not (tmp_path / "run/.lock").exists():
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    said = ""
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):  # Python drops one that comes while it frees an object
            said = process.communicate(timeout=30)[1]
    assert "Go on with: dree run --resume run" in said
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("dree.experiments.run.load_material", "Stopped before the run began."),
        ("dree.experiments.run.first_solver", "Stopped. Go on with: dree run --resume run"),
        ("dree.report.run_page.write_run_page", "Stopped. Go on with: dree run --resume run"),
    ],
)
def test_a_run_that_is_interrupted_before_or_after_it_learns_says_how_to_go_on(
    tmp_path, monkeypatch, capsys, place, message
):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(place, interrupt)
    with pytest.raises(SystemExit) as ended:
        app(["run", "--preset", "demo", *TINY, "--out", "run"])
    assert ended.value.code == 130
    assert message in capsys.readouterr().err
    assert (tmp_path / "run").exists() == ("Go on" in message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--method", "fine-tunning"], "Did you mean 'fine-tuning'"),
        (["run", "--without", "pir"], "Nothing can be left out of method 'fine-tuning'. Use --without with --method"),
        (["run", "--method", "llr-bc", "--set", "options.without=br"], "Nothing can be left out of method 'llr-bc'"),
        (["run", "--method", "dree", "--without", "bri"], "Did you mean 'br'"),
        (["run", "--method", "dree", "--set", "options.alhpa=1"], "Did you mean 'options.alpha'"),
        (["demo", "--set", "method=li"], "dree run --preset demo --method NAME"),
        (["demo", "--set", "options.buffer=0"], "buffer"),
        (["run", "--set", "epcohs=3"], "Did you mean 'epochs'"),
        (["run", "--config", "absent.json"], "There is no settings file"),
        (["run", "--resume", "nowhere"], "is not a run"),
        (["run", "--epochs", "5", "--set", "epochs=10"], "'epochs' is given twice"),
        (["run", "--method", "fine-tuning", "--set", "options.alpha=1"], "what was chosen there has no settings"),
        (
            ["run", "--preset", "demo", "--set", "sizes.U=11"],
            "first cvrp-U11-text. Build them with: dree data build --problem cvrp --task U11",
        ),
        (["report", "nowhere"], "is not a run"),
        (["plot", "tasks", "--problem", "vrp"], "Did you mean 'cvrp'"),
    ],
)
def test_bad_input_ends_in_a_message_without_traceback_and_writes_nothing(place, arguments, message):
    (place / "ok.csv").write_text("x,y,demand\n0,0,0\n1,0,2\n")
    before = {path for path in place.rglob("*") if path.suffix != ".pyc"}
    result = warm_dree(*arguments, cwd=place)
    assert result.returncode == 2
    assert message in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr
    assert {path for path in place.rglob("*") if path.suffix != ".pyc"} == before


def test_a_configuration_file_sets_groups_too(tmp_path):
    chosen = {"epochs": 5, "batches": 1, "batch_size": 4, "test_instances": 1, "solver": {"layers": 1, "width": 16}}
    (tmp_path / "settings.json").write_text(json.dumps(chosen))
    made = warm_dree("run", "--preset", "demo", "--config", "settings.json", "--out", "run", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    settings = json.loads((tmp_path / "run/manifest.json").read_text())["settings"]
    assert settings["solver"]["layers"] == 1
    assert settings["solver"]["heads"] == 4


def test_plot_tasks_draws_the_gallery(tmp_path):
    seed = "9" * 30  # any whole number will do
    assert warm_dree("plot", "tasks", "--out", "gallery.png", "--seed", seed, cwd=tmp_path).returncode == 0
    assert (tmp_path / "gallery.png").read_bytes().startswith(PNG)
