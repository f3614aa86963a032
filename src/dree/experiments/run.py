"""One lifelong training run, from its settings to its gap matrix; interrupted anywhere, it goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dree.bars import Bars, Say, no_bar
from dree.data import TestSet
from dree.errors import DreeError
from dree.evaluation.evaluate import average_gap
from dree.experiments.companions import companions
from dree.experiments.configuration import RunSettings
from dree.experiments.folder import CONVERTED, PRETRAINED, Onlooker, RunFolder, check_new
from dree.experiments.material import Material, load_material
from dree.experiments.own_code import code_record
from dree.experiments.pause import Pause
from dree.experiments.trained import check_network, first_solver, start_record
from dree.experiments.unchanged import check_settings, lasting_settings, warnings
from dree.lifelong import Learner, make_method
from dree.lifelong.checkpoint import load_latest, save_checkpoint
from dree.lifelong.epoch import learn_epoch
from dree.lifelong.methods import in_hook, own_method, suspicion
from dree.lifelong.parallel import Together
from dree.turns import at_once, others_turn


@dataclass(frozen=True)
class Tested:
    """What watchers of a run are told after each epoch."""

    epoch: int
    task: str
    cost: float
    gaps: dict[str, float] | None  # by test task, where the epoch was tested


LOGGED = ("epoch", "task", "loss", "cost")  # of every epoch, whatever the method
Watcher = Callable[[Tested], object]


class Run:
    """A learner on its way through a stream."""

    def __init__(self, folder: RunFolder, material: Material, say: Say = print) -> None:
        self.folder = folder
        self.settings = settings = folder.settings()
        self._lasting = lasting_settings(folder)
        self.stream, self.tests, self.held_out = material.stream, material.tests, material.held_out
        self.device = settings.torch_device()
        self.batches = settings.batches_per_epoch
        self._say = say
        self._pause = Pause(settings.checkpoint_seconds)
        self._begin()

    def _begin(self) -> None:
        """Be at the start, where nothing is learned."""
        settings = self.settings
        method = make_method(settings.method, settings.options)
        lost = settings.start is not None and not Path(settings.start).exists()
        solver = settings.make_solver() if lost else first_solver(settings)
        self.learner = Learner(solver.to(self.device), method, settings.learning, settings.seed)
        if lost:
            self.learner.lost_start = (
                f"{self.folder.path} started from {settings.start}, which is not there, and its weights are needed. "
                f"Put it back, or write its new place into settings, start, of {self.folder.path / 'manifest.json'}."
            )
        self.epoch = self.saved = 0  # complete, and in the newest checkpoint
        self.tested: list[int] = []
        self.matrix: list[list[float]] = []
        self._under_way = False  # whether an epoch is, or was when something stopped it
        self._testing = 0.0  # seconds of tests since the last line of timings

    @staticmethod
    def start(path: str | Path, settings: RunSettings, say: Say = print, kind: str = "run", bars: Bars = no_bar) -> Run:
        """A new run in a new folder."""
        path = Path(path)
        check_new(path)
        material = load_material(settings, say, bars, new=True)
        record = material.record() | start_record(settings) | code_record(settings)
        return Run(RunFolder.create(path, settings, record, kind), material, say)

    @staticmethod
    def resume(path: str | Path, say: Say = print, bars: Bars = no_bar) -> Run:
        """A run as its newest good checkpoint has it."""
        folder = RunFolder.open(path)
        manifest = folder.manifest()
        if manifest["kind"] == CONVERTED:
            raise DreeError(f"{path} is a solver that was converted, not a run. There is nothing to go on with.")
        if manifest["kind"] == PRETRAINED:
            raise DreeError(f"{path} is a pretraining, not a run. Go on with: dree pretrain --resume {path}")
        material = load_material(folder.settings(), say, bars, manifest)
        if manifest["data"] != material.record()["data"]:
            raise DreeError(
                f"The test sets have changed since {path} was started, so its gaps could not be compared any more. "
                "Restore them (reinstall dree), or start a new run."
            )
        run = Run(folder, material, say)
        if not run.learner.lost_start and manifest.get("start") != start_record(run.settings).get("start"):
            raise DreeError(f"The solver in {run.settings.start} is not the one with which {path} was started.")
        run.catch_up()
        if not run.tested and folder.log("metrics.jsonl"):
            raise DreeError(
                f"{path} has no checkpoint any more, so it cannot go on, and beginning again would lose its results. "
                "Start a new run in another folder, or delete its metrics.jsonl to begin it again."
            )
        for words in warnings(folder, run.epoch, run.stream.epochs):
            say(words)
        return run

    @staticmethod
    def accompany(path: Path, together: Together) -> None:
        """Learn a share of a run that the first of several processes is finishing; which writes and tests alone."""
        epoch = together.agreed(0)  # by now the first one has its folder
        folder = Onlooker(path)
        material = load_material(folder.settings(), lambda _: None, no_bar, folder.manifest())
        run = Run(folder, replace(material, tests={}, held_out={}), lambda _: None)
        run.learner.together = together
        run.catch_up()
        if run.epoch != epoch:
            raise RuntimeError(f"a process of {path} found epoch {run.epoch} there, and the first one {epoch}")
        run._go_on(lambda _: None)

    def catch_up(self) -> None:
        """Take over the newest good checkpoint, if there is one further on than this."""
        state = load_latest(self.folder.checkpoints, self._say)
        if state is None and self.learner.lost_start:
            raise DreeError(self.learner.lost_start)
        if state is None or state["epoch"] < self.epoch:
            return
        if "optimiser" not in state["learner"]:
            raise DreeError(
                f"{self.folder.path} is a solver that was taken out of a run. Go on with that run, or begin a new one "
                f"from it: dree run --start {self.folder.path}"
            )
        self.load_state_dict(state)

    def finish(self, watch: Watcher = lambda _: None) -> None:
        """Learn every epoch that is left; if one was stopped on its way, from the newest checkpoint on."""
        with self.folder.locked(), companions(self.folder.path, self.settings) as together:
            if self._under_way:
                self._begin()
            self.learner.together = together
            self.catch_up()
            together.agreed(self.epoch)
            self._go_on(watch)

    def _go_on(self, watch: Watcher) -> None:
        """The same for each process of a run."""
        self._cut_logs()
        if self.device.type == "cuda" and at_once() == 1:
            torch.cuda.reset_peak_memory_stats(self.device)
        while self.epoch < self.stream.epochs:
            watch(self.learn_epoch())
        self.learner.together.agreed(0)  # the others stay until the first has written all

    def _cut_logs(self) -> None:
        """Drop what was logged after the epoch that is complete here."""
        self.folder.go_back_to(self.epoch)
        if self.tested:
            self.folder.write_gaps(self.tested, self.matrix, list(self.tests))

    def learn_epoch(self) -> Tested:
        """Learn the next epoch; test and checkpoint where they are due, a new run also before its first epoch."""
        settings = self.settings
        if self.learner.together.size != settings.processes:
            raise DreeError(f"{self.folder.path} is learned by {settings.processes} processes, so only as a whole.")
        if self._under_way:
            self._begin()
            self.catch_up()
            self._cut_logs()
        if not self.tested:
            self.test()
            self.checkpoint()
        self._under_way = True
        epoch, learner = self.epoch + 1, self.learner
        began = time.perf_counter()
        learned = learn_epoch(learner, self.stream, epoch, settings.batch_size, lambda batch: batch < self.batches)
        if learned.broken is not None:
            raise DreeError(
                f"The loss is not finite from batch {learned.broken} of epoch {epoch} on, so learning stopped. "
                f"The newest checkpoint in {self.folder.checkpoints} is from before that epoch. "
                + self._what_to_mend(learned.by_replay)
            )
        report = self._report()
        self.epoch = epoch
        name = self.stream.task(epoch).name
        seconds = time.perf_counter() - began
        due = epoch % settings.test_every == 0 or epoch == self.stream.epochs
        gaps = self.test() if due else None
        if self.held_out and epoch == self.stream.epochs:
            report = report | self.generalise()
        logged = dict(zip(LOGGED, (epoch, name, learned.loss, learned.cost), strict=True))
        self.folder.append("metrics.jsonl", logged | report)
        times = {"seconds": seconds, "test_seconds": self._testing}
        self.folder.append("timings.jsonl", {"epoch": epoch, **times, "peak_bytes": self.peak_bytes()})
        self._testing = 0.0
        if epoch == self.stream.epochs or learner.together.agreed(self._pause.is_over()):
            self.checkpoint()
        self._under_way = False
        return Tested(epoch, name, learned.cost, gaps)

    def _report(self) -> dict[str, Any]:
        """The method's own numbers for the log."""
        method = self.learner.method
        with in_hook(method, "report"):
            report: dict[str, Any] = method.report()
            name = own_method(method) or type(method).__name__
            wanted = f"'report' of {name} must return plain, finite numbers and texts by name"
            if not isinstance(report, dict):
                raise DreeError(f"{wanted}, not {report!r}.")
            if taken := sorted(set(LOGGED) & set(report)):
                raise DreeError(f"'report' of {name} returns {', '.join(taken)}, which the run logs itself. Rename it.")
            try:
                json.dumps(report, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise DreeError(f"{wanted} ({error}).") from None
        return report

    def _what_to_mend(self, by_replay: bool) -> str:
        """What to do about a loss that is not finite."""
        own = own_method(self.learner.method)
        if own is not None and by_replay:
            return (
                f"The solver's own loss was finite there, so mend what 'replay' of {own} returns; "
                "dree.testing.check_method finds such faults within seconds."
            )
        return "Try a smaller learner.learning_rate, or precision fp32." + suspicion(self.learner.method)

    def peak_bytes(self) -> int | None:
        """The most GPU memory in use at once since this process took the run up, tests included; None on a CPU.

        Of runs that take turns: of all, since it took up the first. A captured step that is replayed asks for no
        memory; it counts with what it asked for when it was captured.
        """
        return torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else None

    def test(self) -> dict[str, float]:
        """Test on every test task and add a row to the gap matrix."""
        gaps = self._gaps(self.tests)
        self.tested.append(self.epoch)
        self.matrix.append(list(gaps.values()))
        self.folder.write_gaps(self.tested, self.matrix, list(self.tests))
        return gaps

    def generalise(self) -> dict[str, Any]:
        """Gen, the mean gap on all instances of days that are never learned, and the mean of each of these days."""
        gaps = self._gaps(self.held_out)
        weights = [len(test.instances) for test in self.held_out.values()]
        return {"Gen": float(np.average(list(gaps.values()), weights=weights)), "held_out": gaps}

    def _gaps(self, tests: Mapping[str, TestSet]) -> dict[str, float]:
        began = time.perf_counter()
        gaps = {name: average_gap(self.learner.proven, test) for name, test in tests.items()}
        self._testing += time.perf_counter() - began
        return gaps

    def checkpoint(self) -> None:
        """Write what is needed to go on from here."""
        state = self.state_dict()
        if self.learner.together.rank == 0:
            with others_turn(), self._pause.writing():
                save_checkpoint(self.folder.checkpoints, self.epoch, state)
        self.saved = self.epoch

    def state_dict(self) -> dict[str, Any]:
        """The learner, and where the run is; with several processes, also what the others' methods remember."""
        learner = self.learner.state_dict()
        others = self.learner.together.states(learner["method"])
        return {
            "epoch": self.epoch,
            "tested": self.tested,
            "matrix": self.matrix,
            "settings": self._lasting,
            "learner": learner,
            **({"others": others} if others else {}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where an earlier `state_dict` was taken."""
        others, rank = state.get("others", []), self.learner.together.rank
        if len(others) + 1 != self.settings.processes:
            raise DreeError(
                f"The checkpoint in {self.folder.path} is of {len(others) + 1} processes, and the run is to have "
                f"{self.settings.processes}. What each of them remembers cannot be dealt out anew: set processes to "
                f"{len(others) + 1} again."
            )
        check_settings(self.folder.path, self._lasting, state.get("settings"))
        check_network(self.folder.path, self.learner.solver, state)
        self.epoch = self.saved = state["epoch"]
        self.tested, self.matrix = state["tested"], state["matrix"]
        self.learner.load_state_dict(state["learner"] | ({"method": others[rank - 1]} if rank else {}))
