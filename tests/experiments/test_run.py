"""Runs: their folder, their logs, their gap matrix, and what happens to folders that are not as they should be."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from conftest import without_numba
from dree.data import SetKey, TestSet, find_set, load_test, user_folder, write_test
from dree.errors import DreeError
from dree.evaluation.evaluate import average_gap
from dree.experiments import DEMO, Run, RunFolder, RunSettings, load_solver, pause
from dree.experiments import run as run_module
from dree.experiments.folder import FORMAT
from dree.experiments.material import load_tests
from dree.lifelong import FineTuning, Method
from dree.lifelong.checkpoint import load_latest, save_checkpoint
from dree.problems import Instances
from dree.settings import override
from dree.tasks import Law
from small_runs import SMALL, interrupted_once

TINY = override(DEMO, {**SMALL, "epochs": 5})


@pytest.fixture
def finished(tmp_path):
    run = Run.start(tmp_path / "run", TINY)
    run.finish()
    return run


def test_a_run_logs_every_epoch_and_tests_when_due(finished):
    folder = finished.folder
    assert [row["epoch"] for row in folder.log("metrics.jsonl")] == [1, 2, 3, 4, 5]
    assert [row["task"] for row in folder.log("metrics.jsonl")] == [finished.stream.task(t).name for t in range(1, 6)]
    assert [row["epoch"] for row in folder.log("timings.jsonl")] == [1, 2, 3, 4, 5]
    assert {row["peak_bytes"] for row in folder.log("timings.jsonl")} == {None}  # there is no GPU
    tested = [row["epoch"] for row in folder.log("timings.jsonl") if row["test_seconds"] > 0]
    assert tested == [1, 2, 4, 5]  # the test before the first epoch is in the first line
    epochs, matrix, tasks = folder.gaps()
    assert epochs == [0, 2, 4, 5]
    assert tasks == ["E", "C", "G", "U", "R", "GM"]
    assert matrix.shape == (4, 6)


@pytest.mark.parametrize(("scenario", "epochs", "renewed"), [("periodic", 12, [3, 5, 7, 9, 11]), ("drift", 5, [])])
def test_a_task_that_comes_to_stay_gets_a_new_optimiser(tmp_path, scenario, epochs, renewed):
    run = Run.start(tmp_path / "run", override(TINY, {"scenario": scenario, "epochs": epochs, "batches": 1}))
    optimisers = [run.learner.optimiser]
    run.finish(lambda _: optimisers.append(run.learner.optimiser))
    changes = [epoch for epoch in range(1, epochs + 1) if optimisers[epoch] is not optimisers[epoch - 1]]
    assert changes == renewed


def test_the_last_row_of_the_matrix_is_what_the_saved_solver_achieves(finished):
    solver = load_solver(finished.folder.path)
    _, matrix, tasks = finished.folder.gaps()
    for law, gap in zip(tasks, matrix[-1], strict=True):
        test = load_test("cvrp", law, dict(TINY.sizes)[law])
        three = type(test)(test.name, test.task, test.instances[:3], test.references[:3])
        assert average_gap(solver, three) == pytest.approx(gap, abs=1e-9)


def test_the_manifest_says_what_ran_and_on_which_data(finished):
    manifest = finished.folder.manifest()
    assert manifest["settings"]["epochs"] == 5
    assert manifest["versions"]["torch"] == torch.__version__
    assert manifest["hardware"]["precision"] == "fp32"
    assert all(len(digest) == 64 for digest in manifest["data"].values())
    assert len(manifest["data"]) == 6
    assert finished.folder.settings() == TINY


def test_the_peak_of_gpu_memory_is_the_devices(finished, monkeypatch):
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", {torch.device("cuda"): 4711}.get)
    assert finished.peak_bytes() is None
    monkeypatch.setattr(finished, "device", torch.device("cuda"))
    assert finished.peak_bytes() == 4711


def test_a_run_keeps_the_options_it_was_started_with_when_defaults_change(tmp_path):
    settings = override(TINY, {"method": "dree", "options.beta": 0.5})
    folder = RunFolder.create(tmp_path / "run", settings, {})
    assert folder.settings() == settings
    manifest = folder.manifest()
    options = manifest["settings"]["options"]
    assert options == {
        "alpha": None, "beta": 0.5, "buffer": 256, "buffer_bytes": None, "lower": 1.0, "upper": 4.0,
        "divergence": "softened", "without": None,
    }  # fmt: skip
    options["divergence"] = "literal"  # as if that had been the default
    (folder.path / "manifest.json").write_text(json.dumps(manifest))
    assert folder.settings().options == {"beta": 0.5, "divergence": "literal"}


def test_watchers_hear_of_every_epoch(tmp_path):
    heard = []
    Run.start(tmp_path / "run", TINY).finish(heard.append)
    assert [tested.epoch for tested in heard] == [1, 2, 3, 4, 5]
    assert [tested.gaps is not None for tested in heard] == [False, True, False, True, True]


def test_the_same_settings_give_the_same_files(tmp_path, finished):
    again = Run.start(tmp_path / "again", TINY)
    again.finish()
    for name in ("metrics.jsonl", "gaps.csv", "checkpoint/000000005.safetensors"):
        assert (again.folder.path / name).read_bytes() == (finished.folder.path / name).read_bytes()


def test_a_run_learns_the_batches_it_is_set_to_from_its_seed(tmp_path, monkeypatch):
    changes = {"seed": 6, "batches": 3, "batch_size": 2, "method": "dree", "options.alpha": 5.0}
    run, sizes = Run.start(tmp_path / "run", override(TINY, changes)), []
    learn = run.learner.learn
    monkeypatch.setattr(run.learner, "learn", lambda new: sizes.append(len(new)) or learn(new))
    run.learn_epoch()
    assert sizes == [2, 2, 2]
    assert run.learner.seed == 6
    assert run.learner.method.options.alpha == 5.0


def test_a_run_learned_epoch_by_epoch_is_the_same_as_a_finished_one(tmp_path, finished):
    run = Run.start(tmp_path / "steps", TINY)
    while run.epoch < 5:
        run.learn_epoch()
    for name in ("metrics.jsonl", "gaps.csv", "checkpoint/000000005.safetensors"):
        assert (run.folder.path / name).read_bytes() == (finished.folder.path / name).read_bytes()


def test_tests_and_gen_are_of_what_the_learner_has_proven(tmp_path, monkeypatch):
    """And Gen is the mean over instances, of which days may have different numbers."""
    run, tested = Run.start(tmp_path / "run", TINY), []
    monkeypatch.setattr(
        run_module, "average_gap", lambda solver, test: tested.append(solver) or float(len(test.instances))
    )
    run.learner.baseline = SimpleNamespace(solver=object())
    run.held_out = {day: SimpleNamespace(instances=[None] * count) for day, count in (("a", 1), ("b", 3))}
    run.test()
    assert run.generalise() == {"Gen": (1 * 1 + 3 * 3) / 4, "held_out": {"a": 1.0, "b": 3.0}}
    assert len(tested) == len(run.tests) + 2
    assert set(tested) == {run.learner.proven}
    assert run.learner.proven is not run.learner.solver


def test_another_seed_gives_other_numbers(tmp_path, finished):
    other = Run.start(tmp_path / "other", override(TINY, {"seed": 1}))
    other.finish()
    assert not np.array_equal(other.folder.gaps()[1], finished.folder.gaps()[1])


def test_an_existing_folder_is_never_overwritten(finished):
    before = sorted((path, path.read_bytes()) for path in finished.folder.path.rglob("*") if path.is_file())
    with pytest.raises(
        DreeError, match=r"exists already\. Continue it with Run\.resume\(path\), or choose another folder\.$"
    ):
        Run.start(finished.folder.path, TINY)
    assert before == sorted((path, path.read_bytes()) for path in finished.folder.path.rglob("*") if path.is_file())


def test_a_run_that_crashed_before_its_first_checkpoint_begins_again_and_says_so(tmp_path, finished, monkeypatch):
    run = Run.start(tmp_path / "crashed", TINY)
    monkeypatch.setattr(run, "checkpoint", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run.finish()
    with pytest.raises(
        DreeError, match=r"has no checkpoint yet, so Run\.resume\(path\) begins it again from the start; or"
    ):
        Run.start(run.folder.path, TINY)
    Run.resume(run.folder.path).finish()
    for name in ("metrics.jsonl", "gaps.csv"):
        assert (run.folder.path / name).read_bytes() == (finished.folder.path / name).read_bytes()


@pytest.mark.parametrize(
    ("seconds", "what", "when"),
    [
        (0, "learn", 5),  # the sixth batch: in the middle of epoch 3
        (1e9, "learn", 5),  # the only checkpoint is that of epoch 0
        (1e9, "test", 1),  # of epoch 2, which is learned by then, but not logged
    ],
)
def test_a_run_stopped_in_the_middle_of_an_epoch_ends_the_same_when_the_same_object_finishes_it(
    tmp_path, finished, monkeypatch, seconds, what, when
):
    run = Run.start(tmp_path / "stopped", override(TINY, {"checkpoint_seconds": seconds}))
    interrupted_once(monkeypatch, run.learner if what == "learn" else run, what, when)
    with pytest.raises(KeyboardInterrupt):
        run.finish()
    run.finish()
    for name in ("metrics.jsonl", "gaps.csv", "checkpoint/000000005.safetensors"):
        assert (run.folder.path / name).read_bytes() == (finished.folder.path / name).read_bytes()


def test_a_run_stopped_before_its_first_checkpoint_begins_again_with_its_next_epoch(tmp_path, finished, monkeypatch):
    run = Run.start(tmp_path / "stopped", override(TINY, {"checkpoint_seconds": 1e9}))
    run.test()
    run.learn_epoch()
    monkeypatch.setattr(run.learner, "end", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run.learn_epoch()
    assert run.learn_epoch().epoch == 1
    assert [row["epoch"] for row in run.folder.log("metrics.jsonl")] == [1]
    assert run.learner.batches == 2


def test_resuming_a_finished_run_changes_nothing(finished):
    before = (finished.folder.path / "gaps.csv").read_bytes()
    Run.resume(finished.folder.path).finish()
    assert (finished.folder.path / "gaps.csv").read_bytes() == before


def test_a_truncated_checkpoint_is_said_and_the_one_before_it_used(finished):
    newest = finished.folder.checkpoints / "000000005.safetensors"
    gaps = (finished.folder.path / "gaps.csv").read_bytes()
    whole = newest.read_bytes()
    newest.write_bytes(whole[: len(whole) // 2])
    said = []
    run = Run.resume(finished.folder.path, said.append)
    assert run.epoch == 4
    assert "Using the one before it" in said[0]
    run.finish()
    assert (finished.folder.path / "gaps.csv").read_bytes() == gaps
    assert newest.read_bytes() == whole


def test_a_run_whose_checkpoints_are_gone_is_not_begun_again(finished):
    for path in finished.folder.checkpoints.iterdir():
        path.unlink()
    before = (finished.folder.path / "metrics.jsonl").read_bytes()
    with pytest.raises(DreeError, match="no checkpoint any more"):
        Run.resume(finished.folder.path)
    with pytest.raises(DreeError, match=r"exists already\. Choose another folder\.$"):
        Run.start(finished.folder.path, TINY)
    assert (finished.folder.path / "metrics.jsonl").read_bytes() == before


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(DreeError, match=r"is not a run: it has no manifest.json"):
        Run.resume(tmp_path)
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(DreeError, match="has run format None"):
        Run.resume(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({"format": FORMAT}))
    with pytest.raises(DreeError, match="it lacks"):
        Run.resume(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(DreeError, match="cannot be read"):
        Run.resume(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({"format": FORMAT + 1}))
    with pytest.raises(DreeError, match="Use the version of dree that wrote it"):
        Run.resume(tmp_path)


def test_two_processes_do_not_work_on_one_run(tmp_path):
    run = Run.start(tmp_path / "run", TINY)
    with run.folder.locked(), pytest.raises(DreeError, match="Another process is working"):
        Run.resume(tmp_path / "run").finish()


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_good_checkpoint(tmp_path, monkeypatch):
    run = Run.start(tmp_path / "run", TINY)
    learn = run.learner.learn

    def poisoned(batch):
        progress = learn(batch)
        return replace(progress, loss=progress.loss * (float("nan") if run.learner.batches == 4 else 1))

    monkeypatch.setattr(run.learner, "learn", poisoned)
    with pytest.raises(DreeError, match="not finite from batch 2 of epoch 2 on"):
        run.finish()
    assert Run.resume(tmp_path / "run").epoch == 1


@pytest.mark.parametrize(
    ("wanted", "takes", "saved"),
    [
        (60, 0, [0, 2, 4, 5]),
        (60, 3, [0, 2, 4, 5]),  # twenty times 3 is no more than 60
        (60, 4, [0, 3, 5]),
        (90, 0, [0, 3, 5]),
        (10, 0, [0, 1, 2, 3, 4, 5]),
        (1e9, 0, [0, 5]),
        (0, 100, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_checkpoints_wait_for_the_time_set_and_for_twenty_times_what_they_take(
    tmp_path, monkeypatch, wanted, takes, saved
):
    """By a clock of their own: an epoch of two batches takes 30 seconds."""
    now, written = [1000.0], []

    def slow_learn(batch):
        now[0] += 15
        return learn(batch)

    def slow_save(folder, number, state):
        now[0] += takes
        written.append(number)

    monkeypatch.setattr(pause, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(run_module, "save_checkpoint", slow_save)
    run = Run.start(tmp_path / "run", override(TINY, {"checkpoint_seconds": wanted}))
    learn = run.learner.learn
    monkeypatch.setattr(run.learner, "learn", slow_learn)
    run.finish()
    assert written == saved


def test_when_checkpoints_are_written_makes_no_difference(tmp_path, finished):
    seldom = Run.start(tmp_path / "seldom", override(TINY, {"checkpoint_seconds": 1e9}))
    seldom.finish()
    for name in ("metrics.jsonl", "gaps.csv", "checkpoint/000000005.safetensors"):
        assert (seldom.folder.path / name).read_bytes() == (finished.folder.path / name).read_bytes()


def test_a_run_knows_which_epoch_its_newest_checkpoint_has(tmp_path):
    run = Run.start(tmp_path / "run", override(TINY, {"checkpoint_seconds": 1e9}))
    saved = []
    run.finish(lambda _: saved.append(run.saved))
    assert saved == [0, 0, 0, 0, 5]
    assert Run.resume(run.folder.path).saved == 5


def test_an_error_in_the_middle_of_an_epoch_names_its_batch(tmp_path, monkeypatch):
    """Weights that are not numbers make tours that never end, by PyTorch's operations; by kernels, they just end."""
    without_numba(monkeypatch)
    run = Run.start(tmp_path / "run", override(TINY, {"learner.learning_rate": 1e30}))
    with pytest.raises(DreeError, match=r"Epoch 1, batch 2: A tour does not end"):
        run.finish()
    assert Run.resume(tmp_path / "run").epoch == 0


def test_weights_that_are_no_numbers_stop_a_run_whose_checkpoint_is_good(tmp_path):
    run = Run.start(tmp_path / "run", override(TINY, {"learner.learning_rate": 1e30}))
    with pytest.raises(DreeError, match="The loss is not finite from batch 2 of epoch 1 on, so learning stopped"):
        run.finish()
    assert Run.resume(tmp_path / "run").epoch == 0


@pytest.mark.parametrize(("rate", "largest"), [(1e30, r"1e\+30"), (1e-3, "1")])
@pytest.mark.parametrize("earlier", [0, 1])
def test_where_a_solvers_own_code_fails_later_on_its_largest_weight_is_told(
    tmp_path, monkeypatch, rate, largest, earlier
):
    run = Run.start(tmp_path / "run", override(TINY, {"learner.learning_rate": rate}))
    learn = run.learner.learn

    def learn_at_first(batch):
        if run.learner.batches == earlier:
            raise RuntimeError("probability tensor contains nan")
        return learn(batch)

    monkeypatch.setattr(run.learner, "learn", learn_at_first)
    with pytest.raises(RuntimeError, match="probability tensor contains nan") as found:
        run.finish()
    notes = "".join(getattr(found.value, "__notes__", ()))
    told = f"in batch 2 of epoch 1; earlier .* largest weight is {largest} by now.* smaller learner.learning_rate"
    assert bool(re.search(told, notes)) == bool(earlier)


@pytest.mark.parametrize("kernels", [True, False])
def test_a_loss_of_a_users_replay_that_is_not_finite_is_blamed_on_it(tmp_path, monkeypatch, kernels):
    """By PyTorch's operations the next tours never end, which is not the cause."""
    if not kernels:
        without_numba(monkeypatch)
    run = Run.start(tmp_path / "run", TINY)
    mine = type("Mine", (Method,), {"replay": lambda self, learner, lesson: learner.loss(lesson) * float("nan")})()
    monkeypatch.setattr(run.learner, "method", mine)
    with pytest.raises(
        DreeError, match=r"not finite from batch 1 of epoch 1 .* what 'replay' of test_run\.Mine returns"
    ):
        run.finish()


def nan_gradient(weights):
    """A finite loss whose gradient is not: a root at zero."""
    return (weights.sum() * 0).sqrt()


@pytest.mark.parametrize(
    ("hook", "kernels", "where"),
    [
        ("pull", True, "batch 1 of epoch 1 on, .* learner.learning_rate"),
        ("replay", True, "batch 2 of epoch 1 on, .* learner.learning_rate"),
        ("replay", False, "Epoch 1, batch 2: A tour does not end"),
    ],
)
def test_what_a_users_method_may_have_broken_is_not_blamed_on_the_rate_alone(
    tmp_path, monkeypatch, hook, kernels, where
):
    if not kernels:
        without_numba(monkeypatch)
    run = Run.start(tmp_path / "run", TINY)
    weights = next(run.learner.solver.parameters())
    gives = {"pull": lambda *_: lambda lesson: weights.sum() * float("nan"), "replay": lambda *_: nan_gradient(weights)}
    monkeypatch.setattr(run.learner, "method", type("Mine", (Method,), {hook: gives[hook]})())
    with pytest.raises(DreeError, match=rf"{where}.* A loss of test_run\.Mine, from 'pull' or 'replay', or"):
        run.finish()


def test_an_error_in_the_report_of_a_users_method_says_so(tmp_path, monkeypatch):
    run = Run.start(tmp_path / "run", TINY)
    mine = type("Mine", (Method,), {"report": lambda self: 1 / 0})()
    monkeypatch.setattr(run.learner, "method", mine)
    with pytest.raises(ZeroDivisionError) as caught:
        run.finish()
    (note,) = caught.value.__notes__
    assert note.startswith("This was in the hook 'report' of your method test_run.Mine.")


def test_a_half_written_log_line_is_dropped(finished):
    folder = RunFolder.open(finished.folder.path)
    rows = folder.log("metrics.jsonl")
    with (folder.path / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 6, "lo')
    assert folder.log("metrics.jsonl") == rows


def test_a_run_whose_log_lacks_a_line_says_so_and_goes_on(tmp_path):
    run = Run.start(tmp_path / "run", TINY)
    while run.epoch < 4:
        run.learn_epoch()
    log = run.folder.path / "metrics.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:1] + lines[3:]))
    said = []
    Run.resume(run.folder.path, said.append).finish()
    assert [words.partition(", which")[0] for words in said] == [f"Warning: {log} has no line for epoch 2, 3"]
    assert [row["epoch"] for row in run.folder.log("metrics.jsonl")] == [1, 4, 5]


def test_a_run_without_a_checkpoint_has_no_solver(tmp_path):
    RunFolder.create(tmp_path / "run", TINY, {})
    with pytest.raises(DreeError, match="no checkpoint yet"):
        load_solver(tmp_path / "run")


def test_a_damaged_gap_matrix_is_written_again(finished):
    path = finished.folder.path / "gaps.csv"
    good = path.read_bytes()
    path.write_text("")
    with pytest.raises(DreeError, match="a resumed run writes it again"):
        finished.folder.gaps()
    Run.resume(finished.folder.path).finish()
    assert path.read_bytes() == good


def test_a_run_is_not_resumed_on_other_test_sets(finished):
    path = finished.folder.path / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["data"] = dict.fromkeys(manifest["data"], "0" * 64)
    path.write_text(json.dumps(manifest))
    with pytest.raises(DreeError, match="test sets have changed"):
        Run.resume(finished.folder.path)


def edit_settings(folder: RunFolder, changes: dict[str, object]) -> None:
    """Another manifest, as by hand."""
    manifest = folder.manifest()
    for name, value in changes.items():
        *group, last = name.split(".")
        (manifest["settings"][group[0]] if group else manifest["settings"])[last] = value
    (folder.path / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"epochs": 10}, "epochs was 5 and is 10"),
        (
            {"seed": 3, "learner.learning_rate": 1e-4},
            "learner.learning_rate was 0.001 and is 0.0001; seed was 0 and is 3",
        ),
        ({"method": "dree"}, "method was fine-tuning and is dree"),
        ({"solver.layers": 2}, "solver.layers was 1 and is 2"),
    ],
)
def test_a_run_whose_settings_were_edited_does_not_go_on(finished, changes, named):
    edit_settings(finished.folder, changes)
    with pytest.raises(
        DreeError, match=rf"have changed since its checkpoint was written: {named}\. .* Restore them, or"
    ):
        Run.resume(finished.folder.path)


def test_settings_that_make_no_difference_may_be_edited(finished):
    before = finished.folder.checkpoints / "000000005.safetensors"
    content = before.read_bytes()
    edit_settings(finished.folder, {"checkpoint_seconds": 60.0, "device": "auto"})
    before.unlink()
    Run.resume(finished.folder.path).finish()
    assert before.read_bytes() == content


@pytest.fixture
def earlier(finished):
    """A finished run whose checkpoint is of a version of dree that kept no settings in it."""
    newest = load_latest(finished.folder.checkpoints)
    del newest["settings"]
    save_checkpoint(finished.folder.checkpoints, 5, newest)
    return finished.folder


def test_a_checkpoint_of_an_earlier_version_has_no_settings_and_goes_on(earlier):
    assert Run.resume(earlier.path).epoch == 5


@pytest.mark.parametrize("changes", [{"solver.layers": 2}, {"solver.width": 32}])
@pytest.mark.parametrize("take", [Run.resume, load_solver])
def test_a_manifest_of_another_network_than_the_checkpoints_is_refused(earlier, take, changes):
    edit_settings(earlier, changes)
    with pytest.raises(
        DreeError, match=r"The checkpoint's network is not the manifest's in .*run\. Restore the settings"
    ):
        take(earlier.path)


def test_more_test_instances_than_there_are_is_an_error(tmp_path):
    with pytest.raises(DreeError, match=r"test_instances is 1001, but cvrp-E20-text has \d+\. Ask for fewer\.$"):
        Run.start(tmp_path / "run", override(TINY, {"test_instances": 1001}))
    assert not (tmp_path / "run").exists()


def build_finer(settings, count=2):
    """Test sets of the run's finer test, with costs that are no tours' but will do."""
    for task in settings.test_tasks(settings.stream()).values():
        key = SetKey(task.problem, task.name)
        if find_set(key) is None:
            instances = task.sample(count, torch.Generator().manual_seed(1))
            references = torch.full((count,), 2.0, dtype=torch.float64)
            write_test(key, TestSet(key.name, key.task, instances, references), {}, user_folder())


class Wild(Law):
    """Sound at 10 nodes, of which its test sets are; outside of the unit square with fewer of them, in mixtures."""

    title, size = "Wild", 10

    def draw(self, batch, n, generator, depot_B2=None, spec="text"):
        return torch.rand(batch, n, 2, generator=generator) * (1 if n == self.size else 3), None


def test_a_law_that_leaves_the_unit_square_in_what_is_learned_is_refused_before_anything_is_written(tmp_path):
    key = SetKey("tsp", "test_run.Wild10")
    instances = Instances(torch.rand(3, 10, 2))
    write_test(key, TestSet(key.name, key.task, instances, torch.ones(3, dtype=torch.float64)), {}, user_folder())
    settings = override(TINY, {"problem": "tsp", "order": ["U", "test_run.Wild"], "sizes": {"U": 10}})
    with pytest.raises(
        DreeError, match=r"Law 'test_run\.Wild' gives coordinates from 0\.\S+ to 2\.\S+; they must lie in"
    ):
        Run.start(tmp_path / "run", settings)
    assert not (tmp_path / "run").exists()


def test_a_finer_run_has_a_column_for_each_task_and_goes_on_after_an_interruption(tmp_path):
    settings = override(TINY, {"tests": "finer", "test_instances": 2, "test_every": 5})
    build_finer(settings)
    run = Run.start(tmp_path / "run", settings)
    run.finish()
    epochs, matrix, tasks = run.folder.gaps()
    assert tasks == list(settings.stream().finer())
    assert (epochs, matrix.shape) == ([0, 5], (2, 41))
    assert (tasks[0], tasks[8], tasks[-1]) == ("E20", "C30", "GM30")
    assert len(run.folder.manifest()["data"]) == 41
    before = (run.folder.path / "gaps.csv").read_bytes()
    Run.resume(run.folder.path).finish()
    assert (run.folder.path / "gaps.csv").read_bytes() == before


def test_a_finer_test_of_the_principal_tasks_is_the_usual_one(tmp_path):
    settings = override(TINY, {"tests": "finer", "test_instances": 2})
    build_finer(settings)
    finer, usual = load_tests(settings), load_tests(override(settings, {"tests": "principal"}))
    names = list(finer)[::8]
    assert [finer[name].references.tolist() for name in names] == [test.references.tolist() for test in usual.values()]


def test_more_instances_than_a_set_of_ones_own_has_names_the_command_for_more(tmp_path):
    settings = override(TINY, {"tests": "finer", "test_instances": 3})
    build_finer(settings)
    with pytest.raises(DreeError, match=r"dree data build --problem cvrp --task E18\+C3 --count 3 --force$"):
        load_tests(settings)


@pytest.mark.parametrize(
    ("changes", "command"),
    [
        ({"tests": "finer", "order": 2}, r"dree data build --finer --order 2 --problem cvrp$"),
        ({"tests": "finer", "problem": "tsp", "spec": "official"}, "--finer --order 1 --problem tsp --spec official$"),
        ({"sizes": {"U": 11, "R": 12}}, r"2 of the 6 .*first cvrp-U11-text\. .*--problem cvrp --task U11 --task R12$"),
        ({"tests": "finer", "order": ["U", "R"]}, r"19 of the 21 .*--problem cvrp --task U19\+R1 --task"),
    ],
)
def test_missing_test_sets_are_an_error_with_the_command_that_builds_them(tmp_path, changes, command):
    with pytest.raises(DreeError, match=command):
        Run.start(tmp_path / "run", override(RunSettings(), changes))
    assert not (tmp_path / "run").exists()


def test_what_a_killed_process_left_behind_is_cleared_away(finished):
    stale = finished.folder.checkpoints / ".000000005.safetensors.4711"
    stale.write_bytes(b"half a checkpoint")
    Run.resume(finished.folder.path).finish()
    assert not stale.exists()


def weights_of(run: Run) -> list[torch.Tensor]:
    return list(run.learner.solver.state_dict().values())


def test_a_run_can_start_from_the_solver_of_another(tmp_path, finished):
    started = Run.start(tmp_path / "next", override(TINY, {"start": str(finished.folder.path), "seed": 5}))
    assert all(map(torch.equal, weights_of(started), weights_of(finished)))
    assert started.folder.manifest()["start"]["epoch"] == 5
    started.finish()
    assert started.tested[-1] == 5
    assert not all(map(torch.equal, weights_of(started), weights_of(finished)))
    assert Run.resume(started.folder.path).epoch == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"problem": "tsp"}, "has problem cvrp, the run has tsp"),
        ({"solver.width": 32}, r"another network than the run: its width is \d+, the run's 32\.$"),
        ({"start": "nowhere"}, "not a run"),
    ],
)
def test_a_start_that_does_not_fit_is_refused_before_anything_is_written(tmp_path, finished, changes, message):
    with pytest.raises(DreeError, match=message):
        Run.start(tmp_path / "next", override(TINY, {"start": str(finished.folder.path)} | changes))
    assert not (tmp_path / "next").exists()


def test_a_run_goes_on_only_with_the_solver_it_started_from(tmp_path, finished):
    begin = tmp_path / "begin"
    shutil.copytree(finished.folder.path, begin)
    started = Run.start(tmp_path / "next", override(TINY, {"start": str(begin)}))
    (begin / "checkpoint/000000005.safetensors").unlink()
    with pytest.raises(DreeError, match="is not the one with which"):
        Run.resume(started.folder.path)


@pytest.mark.parametrize("method", ["fine-tuning", "mt-cumulative"])
def test_a_run_goes_on_without_the_solver_it_started_from_until_that_is_needed(tmp_path, finished, method):
    begin = shutil.copytree(finished.folder.path, tmp_path / "begin")
    settings = override(TINY, {"start": str(begin), "method": method})
    if method == "mt-cumulative":
        settings = override(settings, {"options.segments": 5})  # a new one with every epoch
    whole, started = Run.start(tmp_path / "whole", settings), Run.start(tmp_path / "started", settings)
    whole.finish()
    started.learn_epoch()
    (tmp_path / "away").mkdir()
    begin.rename(tmp_path / "away/begin")
    resumed = Run.resume(started.folder.path)
    assert resumed.epoch == 1
    if method == "mt-cumulative":
        with pytest.raises(
            DreeError, match=r"started started from .*begin, which is not there, and its weights are needed"
        ):
            resumed.finish()
        edit_settings(started.folder, {"start": str(tmp_path / "away/begin")})
        resumed = Run.resume(started.folder.path)
    resumed.finish()
    for name in ("metrics.jsonl", "gaps.csv"):
        assert (started.folder.path / name).read_bytes() == (whole.folder.path / name).read_bytes()


def test_a_run_without_a_checkpoint_needs_the_solver_it_starts_from(tmp_path, finished):
    begin = shutil.copytree(finished.folder.path, tmp_path / "begin")
    Run.start(tmp_path / "next", override(TINY, {"start": str(begin)}))
    shutil.rmtree(begin)
    with pytest.raises(DreeError, match=r"next started from .*begin, which is not there, .* Put it back, or write"):
        Run.resume(tmp_path / "next")


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ({"epoch": 1, "cost": 2.0}, "'report' of .*Talkative returns cost, epoch, which the run logs itself"),
        ({"share": torch.tensor(1.0)}, "'report' of .*Talkative must return plain, finite numbers"),
        ({"share": float("nan")}, "'report' of .*Talkative must return plain, finite numbers"),
        ([1.0], r"must return plain, finite numbers and texts by name, not \[1.0\]"),
    ],
)
def test_numbers_of_a_method_that_cannot_be_logged_are_refused_by_name(tmp_path, monkeypatch, report, words):
    class Talkative(FineTuning):
        def report(self):
            return report

    run = Run.start(tmp_path / "run", TINY)
    run.learner.method = Talkative()
    with pytest.raises(DreeError, match=words):
        run.finish()
    assert run.folder.log("metrics.jsonl") == []
