"""One pretraining, from its settings to a solver that runs can start from; interrupted anywhere, it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dree.bars import Say
from dree.errors import DreeError
from dree.evaluation.classical import HGS
from dree.evaluation.evaluate import average_gap
from dree.experiments.folder import PRETRAINED, RunFolder, check_new
from dree.experiments.material import load_material
from dree.experiments.pause import Pause
from dree.experiments.pretrain_settings import PretrainSettings
from dree.experiments.probe import Probe
from dree.files import write_csv
from dree.lifelong.checkpoint import load_latest, save_checkpoint
from dree.lifelong.meta import MetaLearner, Schedule
from dree.randomness import named_generator
from dree.settings import build
from dree.solvers import Omni

TESTS = "tests.csv"


@dataclass(frozen=True)
class Passed:
    """What watchers of a pretraining are told after each iteration."""

    iteration: int
    size: int
    gaps: list[float] | None  # of the distributions in this size, in per cent, where it was looked at


Watcher = Callable[[Passed], object]


class Pretraining:
    """A meta-learner on its way through sizes and distributions."""

    def __init__(self, folder: RunFolder, say: Say = print) -> None:
        self.folder = folder
        self.settings = settings = build(PretrainSettings, folder.manifest()[PRETRAINED])
        run = settings.as_run()
        self.tests = {test.task: test for test in load_material(run).tests.values()}
        self.device = run.torch_device()
        self._say = say
        self._pause = Pause(settings.checkpoint_seconds)
        self._begin()

    def _begin(self) -> None:
        """Be at the start, where nothing is learned."""
        solver = self.settings.as_run().make_solver()
        assert isinstance(solver, Omni)
        self.learner = MetaLearner(solver.to(self.device), self.settings, self.settings.seed)
        self.schedule = Schedule(self.settings.problem, self.settings)
        self.probe = Probe(self.settings, self._say)
        self.tested: dict[str, dict[str, float]] = {}  # gaps by test task, before and after
        self.saved = 0
        self._under_way = False  # whether a round is, or was when something stopped it

    @staticmethod
    def start(path: Path, settings: PretrainSettings, say: Say = print) -> Pretraining:
        """A new pretraining in a new folder."""
        check_new(path, "Pretraining.resume(path)")
        if settings.reference == "hgs":
            try:
                HGS().made()
            except DreeError as error:
                raise DreeError(f"{error} Or take the best tours found so far instead: --set reference=own") from None
        run = settings.as_run()
        record = {**load_material(run).record(), PRETRAINED: asdict(settings)}
        return Pretraining(RunFolder.create(path, run, record, PRETRAINED), say)

    @staticmethod
    def resume(path: Path, say: Say = print) -> Pretraining:
        """A pretraining as its newest good checkpoint has it."""
        folder = RunFolder.open(path)
        manifest = folder.manifest()
        if manifest["kind"] != PRETRAINED:
            raise DreeError(f"{path} is no pretraining. If it is a run: dree run --resume {path}")
        if manifest["data"] != load_material(folder.settings()).record()["data"]:
            raise DreeError(
                f"The test sets have changed since {path} was started, so its gaps could not be compared any more. "
                "Restore them (reinstall dree), or start a new pretraining."
            )
        found = Pretraining(folder, say)
        found.catch_up()
        if not found.tested and folder.log("metrics.jsonl"):
            raise DreeError(
                f"{path} has no checkpoint any more, so it cannot go on. Start a new one in another folder, or delete "
                "its metrics.jsonl to begin it again."
            )
        return found

    @property
    def iteration(self) -> int:
        """How many are complete."""
        return self.learner.iteration

    def catch_up(self) -> None:
        """Take over the newest good checkpoint, if there is one further on than this."""
        state = load_latest(self.folder.checkpoints, self._say)
        if state is not None and state["epoch"] >= self.iteration:
            self.load_state_dict(state)

    def finish(self, watch: Watcher = lambda _: None) -> None:
        """Learn every iteration that is left, and test before the first and after the last.

        If a round was stopped on its way, it goes on from the newest checkpoint.
        """
        with self.folder.locked():
            self._go_back()
            self._test_first()
            if self.settings.reference == "own":
                self._say("Gaps of distributions are to the best tours found so far, not to a classical solver's.")
            while self.iteration < self.settings.iterations:
                self.learn_round(watch)
            if "after" not in self.tested:
                self.test("after")
                self.checkpoint()
            rows = [{"task": name, **{when: self.tested[when][name] for when in self.tested}} for name in self.tests]
            write_csv(self.folder.path / TESTS, rows)

    def _go_back(self) -> None:
        """To the newest checkpoint, from a round that was stopped on its way; and drop what was logged after it."""
        if self._under_way:
            self._begin()
        self.catch_up()
        self.folder.go_back_to(self.iteration)

    def _test_first(self) -> None:
        """Before anything is learned."""
        if not self.tested:
            self.test("before")
            self.checkpoint()

    def learn_round(self, watch: Watcher = lambda _: None) -> None:
        """Learn up to the next look at the distributions, that one included; log, and checkpoint where it is due."""
        if self._under_way:
            self._go_back()
            self._test_first()
        self._under_way = True
        began, first, every = time.perf_counter(), self.iteration + 1, self.settings.refresh_every
        last = min(-(-first // every) * every, self.settings.iterations)
        totals = torch.zeros(2, device=self.device)
        looked: list[float] | None = None
        for number in range(first, last + 1):
            if number % every == 0:
                self._check_finite(totals[0], first)
                looked = self._look(number)
            totals += self._learn(number)
            watch(Passed(number, self.settings.size_at(number), looked))
        self._check_finite(totals[0], first)
        loss, cost = (totals / (last + 1 - first)).tolist()
        row = {"epoch": last, "size": self.settings.size_at(last), "loss": loss, "cost": cost, "gaps": looked}
        self.folder.append("metrics.jsonl", row)
        self.folder.append("timings.jsonl", {"epoch": last, "seconds": time.perf_counter() - began})
        if last == self.settings.iterations or self._pause.is_over():
            self.checkpoint()
        self._under_way = False

    def _check_finite(self, loss: Tensor, first: int) -> None:
        """Stop before weights that are no numbers any more are tested or saved."""
        if not loss.isfinite():
            raise DreeError(
                f"The loss is not finite between iterations {first} and {self.iteration}, so learning stopped. The "
                f"newest checkpoint in {self.folder.checkpoints} is from before. Try a smaller learning_rate, or "
                "precision fp32."
            )

    def _look(self, number: int) -> list[float]:
        """Turn to what the model is bad at, as it is before this iteration."""
        looked = self.probe.gaps(self.learner.solver, self.schedule.tasks_at(number), number)
        self.schedule.refresh(number, looked)
        return looked

    def _learn(self, number: int) -> Tensor:
        """One iteration: its loss and cost."""
        chance = named_generator(self.settings.seed, "task", number)
        try:
            progress = self.learner.learn(self.schedule.draw(number, chance))
        except DreeError as error:
            raise DreeError(f"Iteration {number}: {error}") from None
        return torch.stack([progress.loss, progress.cost])

    def test(self, when: str) -> None:
        """Gaps on the built-in test sets."""
        self.tested[when] = {name: average_gap(self.learner.solver, test) for name, test in self.tests.items()}

    def checkpoint(self) -> None:
        """Write what is needed to go on from here."""
        with self._pause.writing():
            save_checkpoint(self.folder.checkpoints, self.iteration, self.state_dict())
        self.saved = self.iteration

    def state_dict(self) -> dict[str, Any]:
        """The learner, and where it is; a run's words where a run has the same."""
        return {
            "epoch": self.iteration,
            "tested": self.tested,
            "learner": self.learner.state_dict(),
            "schedule": self.schedule.state_dict(),
            "probe": self.probe.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where an earlier `state_dict` was taken."""
        self.saved, self.tested = state["epoch"], state["tested"]
        self.learner.load_state_dict(state["learner"])
        self.schedule.load_state_dict(state["schedule"])
        self.probe.load_state_dict(state["probe"])
