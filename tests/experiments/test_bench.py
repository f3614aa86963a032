"""`dree bench` with tiny networks: what it promises is in its tables and files, and `--check` finds what is broken."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path

import pytest
import torch

from command_line import invoke
from conftest import random_instances, small_solver
from dree import compiled
from dree.errors import DreeError
from dree.experiments import bench, bench_check, bench_parts
from dree.experiments.bench import RunTime, interpolate, run_time
from dree.experiments.bench_check import Finding, captured_difference, captured_pull_difference
from dree.lifelong import DREE
from dree.problems import Tours
from dree.solvers import POMO, INViT, Score, make_solver
from dree.tasks import make_stream

README = Path(__file__).parents[2] / "README.md"
TINY = ("--device", "cpu", "--sizes", "12,10", "--batch", "2", "--repeats", "1", "--solve-sizes", "5")
STEP_FIELDS = {
    "problem", "n", "batch", "precision", "step_ms", "dree_ms", "phases", "twin_ms", "twin_fits", "ratio", "peak_bytes"
}  # fmt: skip
dree_bench = partial(invoke, "bench")


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    def small(problem, base="pomo", seed=0):
        return make_solver(problem, base, {"width": 16, "heads": 2, "layers": 1, "feed_forward": 32}, seed)

    for module in (bench, bench_check, bench_parts):
        monkeypatch.setattr(module, "make_solver", small)
    monkeypatch.setattr(bench, "SOLVED_STATES", {"cpu": 100})


def test_the_tables_and_the_file_have_all_that_was_promised(tmp_path):
    shown = dree_bench(*TINY, "--precision", "bf16", "--json", tmp_path / "x.json")
    result = json.loads((tmp_path / "x.json").read_text())
    assert [(each["problem"], each["n"]) for each in result["steps"]] == [
        ("tsp", 10), ("tsp", 12), ("cvrp", 10), ("cvrp", 12)
    ]  # fmt: skip
    for each in result["steps"]:
        assert set(each) == STEP_FIELDS
        assert set(each["phases"]) == set(bench.PHASES)
        assert min(each["step_ms"], each["dree_ms"], *each["phases"].values()) > 0
        assert each["ratio"] == pytest.approx(each["twin_ms"] / each["step_ms"])
        assert (each["batch"], each["precision"], each["peak_bytes"]) == (2, "bf16", None)
    assert [(each["problem"], each["order"]) for each in result["runs"]] == [
        (problem, order) for problem in ("tsp", "cvrp") for order in range(1, 6)
    ]
    for each in result["runs"]:
        assert each["hours"] == pytest.approx(each["seconds_per_epoch"] * 1000 / 3600)
    assert [(each["problem"], each["n"], each["instances"]) for each in result["solving"]] == [
        ("tsp", 5, 3), ("cvrp", 5, 3)
    ]  # fmt: skip
    for each in result["solving"]:
        assert each["instances_per_second"] == pytest.approx(3 / each["seconds"])
    for words in (
        *(
            "TSP 10",
            "TSP 12",
            "CVRP 10",
            "CVRP 12",
            "DREE step",
            "twin / step",
            "peak memory",
            "batch 2 x 8 copies, bf16",
        ),
        *("generate", "encode", "solve", "score and backward", "behaviour replay", "optimiser"),
        *("seconds per epoch", "hours per run", "instances/s", "longer together than the step"),
    ):
        assert words in shown


def test_what_is_not_asked_for_is_not_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "twin_step", None)
    options = ("--problem", "cvrp", "--sizes", 5, "--no-twin", "--no-solve", "--json", tmp_path / "x.json")
    shown = dree_bench(*TINY, *options)
    result = json.loads((tmp_path / "x.json").read_text())
    (step,) = result["steps"]
    assert (step["problem"], step["twin_ms"], step["ratio"]) == ("cvrp", None, None)
    assert (result["runs"], result["solving"]) == ([], [])
    assert "Two sizes or more" in shown
    assert "out of memory" not in shown


def test_a_twin_that_does_not_fit_is_said_to_be_out_of_memory(tmp_path, monkeypatch):
    def too_large(*_, **__):
        raise torch.OutOfMemoryError

    for module in (bench_parts, bench_check):
        monkeypatch.setattr(module, "twin_of", lambda _: too_large)
    shown = dree_bench(*TINY, "--problem", "tsp", "--no-solve", "--json", tmp_path / "x.json")
    steps = json.loads((tmp_path / "x.json").read_text())["steps"]
    assert [(each["twin_ms"], each["twin_fits"], each["ratio"]) for each in steps] == [(None, False, None)] * 2
    assert shown.count("out of memory") == 2
    with pytest.raises(DreeError, match="Use a smaller --batch"):
        dree_bench(*TINY, "--check")


def test_a_twin_that_a_cpu_has_no_memory_for_is_out_of_memory_and_nothing_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_parts, "twin_of", lambda _: lambda *_, **__: torch.empty(2**50))
    shown = dree_bench(*TINY, "--problem", "tsp", "--no-solve")
    assert shown.count("out of memory") == 2


def test_a_size_whose_tours_alone_do_not_fit_is_refused_before_anything_is_measured(monkeypatch):
    monkeypatch.setattr(bench, "measure", None)
    words = (
        r"memory for n = 1000000: the 16000000 tours of a batch alone take 1\.19e\+05 GiB\. Use smaller --sizes or a"
    )
    for check in ((), ("--check",)):
        with pytest.raises(DreeError, match=words if not check else "tours of a batch alone"):
            dree_bench(*TINY, "--sizes", "12,1000000", *check)


def test_what_does_not_fit_later_is_said_in_a_sentence_too(monkeypatch):
    monkeypatch.setattr(bench, "measure", lambda *_, **__: torch.empty(2**50))
    with pytest.raises(DreeError, match=r"The memory is too small for this\. Use a smaller --batch or smaller --sizes"):
        dree_bench(*TINY)


def test_a_cpu_gets_little_to_do_unless_told_otherwise(monkeypatch):
    asked = []
    monkeypatch.setattr(bench_check, "check", lambda *arguments: asked.append(arguments[:5]) or [])
    shown = dree_bench("--device", "cpu", "--check", "--precision", "fp32")
    assert asked == [("pomo", "tsp", 20, 8, "fp32"), ("pomo", "cvrp", 20, 8, "fp32")]
    assert "On a CPU n = 20 and batch 8 unless --sizes and --batch say otherwise." in shown
    assert ", with kernels" in shown


def test_it_is_said_where_numba_is_missing(monkeypatch):
    monkeypatch.setattr(compiled, "able", lambda: False)
    assert "without kernels: Numba is not installed" in dree_bench("--check", *TINY[:2], "--sizes", "5", "--batch", "2")


@pytest.mark.parametrize("base", ["omni", "invit"])
def test_other_solvers_are_timed_and_checked_against_their_own_twins(tmp_path, base):
    small = ("--solver", base, "--sizes", 6, "--solve-sizes", 5, "--precision", "fp32", "--json", tmp_path / "x.json")
    dree_bench(*TINY, *small)
    result = json.loads((tmp_path / "x.json").read_text())
    assert result["solver"] == base
    assert all(each["ratio"] > 0 for each in result["steps"])
    dree_bench(*TINY, *small, "--check")
    findings = json.loads((tmp_path / "x.json").read_text())["check"]
    assert all(each["ok"] for each in findings)
    assert ("tours in turns" in {each["what"] for each in findings}) == (base == "invit")


def test_two_solvers_that_disturb_each_other_fail_the_check(tmp_path, monkeypatch):
    right, under_way = INViT.solving, []

    def solving(solver, instances, *given, **named):
        under_way.append(solver)
        tours = yield from right(solver, instances, *given, **named)
        if len({id(each) for each in under_way}) > 1:
            tours = Tours(tours.actions, tours.costs + 1)
        under_way.remove(solver)
        return tours

    monkeypatch.setattr(INViT, "solving", solving)
    small = (
        "--solver",
        "invit",
        "--sizes",
        6,
        "--precision",
        "fp32",
        "--problem",
        "tsp",
        "--json",
        tmp_path / "x.json",
    )
    dree_bench(*TINY, *small, "--check", code=1)
    findings = json.loads((tmp_path / "x.json").read_text())["check"]
    assert [each["what"] for each in findings if not each["ok"]] == ["tours in turns"]


def test_a_sound_solver_passes_the_check(tmp_path):
    shown = dree_bench(*TINY, "--check", "--json", tmp_path / "x.json")
    findings = json.loads((tmp_path / "x.json").read_text())["check"]
    assert all(each["ok"] for each in findings)
    assert {each["precision"] for each in findings} == {"fp32", "bf16"}
    exact = [each for each in findings if (each["problem"], each["n"], each["precision"]) == ("cvrp", 12, "fp32")]
    assert {each["what"]: each["at_most"] for each in exact} == {
        "illegal tours": 0,
        "costs (referee)": 1e-5,
        "log-probability": 1e-5,
        "gradient": 1e-4,
        "greedy costs": 1e-3,
        "same greedy tours": None,
        "padded decisions": 1e-5,
        "padded gradient": 1e-4,
        "imitation": 1e-3,
    }
    padded = [each["value"] for each in findings if each["what"].startswith("padded") and each["precision"] == "fp32"]
    assert len(padded) == 2 * len({(each["problem"], each["n"]) for each in findings})
    assert max(padded) < 1e-12  # in double precision on a CPU, where no rounding can take it over the bar
    assert "The fast path computes what the twin does." in shown
    assert "What each line compares: README.md, 'On your machine'." in shown.replace("\n", " ")
    explained = README.read_text(encoding="utf-8").partition("### On your machine")[2]
    for what in {each["what"].removesuffix(", cosine") for each in findings} | {
        "tours in turns",
        "captured gradient",
        "captured pull",
    }:
        assert f"\n| {what} | " in explained


@pytest.mark.parametrize(
    ("broken", "caught"),
    [
        (lambda score: Score(score.per_tour * (1 + 1e-4), score.weighted), {"log-probability"}),
        (lambda score: Score(score.per_tour, -score.weighted), {"gradient", "gradient, cosine"}),
        (
            lambda score: Score(score.per_tour * math.nan, score.weighted * math.nan),
            {"log-probability", "gradient", "gradient, cosine"},
        ),
    ],
)
def test_a_broken_score_fails_the_check(tmp_path, monkeypatch, broken, caught):
    right = POMO.score
    monkeypatch.setattr(POMO, "score", lambda *arguments, **named: broken(right(*arguments, **named)))
    shown = dree_bench(*TINY, "--check", "--problem", "tsp", "--json", tmp_path / "x.json", code=1)
    findings = json.loads((tmp_path / "x.json").read_text())["check"]
    assert {each["what"] for each in findings if not each["ok"]} == caught
    assert "comparisons failed" in shown


def test_padded_nodes_that_are_looked_at_fail_the_check(tmp_path, monkeypatch):
    monkeypatch.setattr(POMO, "encode_padded", lambda solver, instances, _: solver.encode(instances))
    dree_bench(*TINY, "--check", "--json", tmp_path / "x.json", code=1)
    findings = json.loads((tmp_path / "x.json").read_text())["check"]
    failed = {each["what"] for each in findings if not each["ok"]}
    assert {"padded decisions", "padded gradient"} <= failed
    assert all(what.startswith("padded") for what in failed)


@pytest.mark.parametrize(
    "broken",
    [
        lambda weighted: weighted * 1.05,
        lambda weighted: 2 * weighted.detach() - weighted,  # the right value, and the wrong gradient
        lambda weighted: weighted * math.nan,
    ],
)
def test_broken_imitation_fails_the_check(tmp_path, monkeypatch, broken):
    right = POMO.imitate

    def imitate(*arguments, **named):
        score = right(*arguments, **named)
        return Score(score.per_tour, broken(score.weighted))

    monkeypatch.setattr(POMO, "imitate", imitate)
    dree_bench(*TINY, "--check", "--problem", "tsp", "--json", tmp_path / "x.json", code=1)
    findings = json.loads((tmp_path / "x.json").read_text())["check"]
    assert {each["what"] for each in findings if not each["ok"]} == {"imitation"}


def test_the_referee_counts_illegal_tours_and_weighs_the_others_costs(problem):
    instances, solver = random_instances(problem, 5, 6, seed=0), small_solver(problem)
    tours = solver.solve(instances)
    assert bench_check._refereed(instances, tours) == (0, pytest.approx(0, abs=1e-5))
    assert bench_check._refereed(instances, Tours(tours.actions, tours.costs * 1.5)) == (
        0,
        pytest.approx(0.5, abs=1e-5),
    )
    actions = tours.actions.clone()
    actions[1, 2] = actions[1, 2, 0]
    assert bench_check._refereed(instances, Tours(actions, tours.costs))[0] == 1


@pytest.mark.parametrize("difference", [captured_difference, captured_pull_difference])
def test_without_a_device_that_captures_a_step_equals_itself(problem, difference):
    assert difference("pomo", problem, random_instances(problem, 2, 5, seed=0), "fp32") == 0


def test_what_is_not_a_number_is_not_ok():
    assert not Finding("tsp", 5, "fp32", "x", math.nan, at_most=1).ok
    assert not Finding("tsp", 5, "fp32", "x", 0.9, at_least=0.99).ok
    assert Finding("tsp", 5, "fp32", "x", 0.5).ok


def test_between_and_beyond_measured_sizes_time_is_a_power_of_the_size():
    known = {40: 32.0, 10: 1.0, 20: 4.0}  # n squared, then n cubed
    assert [interpolate(known, n) for n in (10, 20, 40)] == pytest.approx([1, 4, 32])
    assert [interpolate(known, n) for n in (5, 15, 30, 80)] == pytest.approx([0.25, 2.25, 13.5, 256])


def test_a_run_takes_its_epochs_batches_at_the_sizes_of_its_tasks(problem):
    even = 1000 / DREE.batches_per_epoch  # a second an epoch, whatever the size
    assert run_time(problem, 3, {20: even, 100: even}) == RunTime(
        problem, 3, pytest.approx(1), pytest.approx(1000 / 3600)
    )
    stream = make_stream("drift", problem, 3, 1000)
    mean = sum(stream.task(epoch).size for epoch in range(1, 1001)) / 1000
    proportional = run_time(problem, 3, {20: 20.0, 50: 50.0, 100: 100.0})
    assert proportional.seconds_per_epoch == pytest.approx(mean * DREE.batches_per_epoch / 1000)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--problem", "vrp"], "Did you mean 'cvrp'"),
        (["--sizes", "20;50"], "--sizes must be numbers of customers, at least 2, such as 20,50; not '20;50'"),
        (["--sizes", "20,1"], "at least 2"),
        (["--solve-sizes", ""], "--solve-sizes must be"),
        (["--batch", "0"], "--batch must be at least 1, not 0"),
        (["--repeats", "0"], "--repeats must be at least 1, not 0"),
        (["--precision", "fp16"], "Unknown precision 'fp16'"),
        (["--device", "gpu"], "Unknown device 'gpu'"),
    ],
)
def test_bad_input_is_refused_in_words(arguments, message):
    with pytest.raises(DreeError, match=message):
        dree_bench(*arguments)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_without_a_gpu_one_is_told_to_use_the_cpu():
    with pytest.raises(DreeError, match="Use --device cpu"):
        dree_bench("--device", "cuda")
