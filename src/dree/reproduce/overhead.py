"""What instance replay costs: seconds an epoch beside fine-tuning's, and whole methods beside each other."""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import mean

import torch

from dree.data.published import STREAMS, published, published_seconds
from dree.experiments import RunFolder, RunSettings
from dree.experiments.bench import interpolate
from dree.experiments.tables import Cell, PaperRow, PaperTable
from dree.experiments.trained import first_solver
from dree.lifelong import DREE, FineTuning, Learner, make_method
from dree.lifelong.methods.dree import ABLATION_INTERVAL
from dree.randomness import named_generator
from dree.reproduce.base import TITLES, Choice, Experiment, Found, laws_of
from dree.reproduce.lines import notes_on
from dree.tasks import principal

NEVER, ALWAYS = {"lower": 1e9, "upper": 1e9}, {"lower": 1.0, "upper": 1.0}
FULL = 4  # experiences of a full buffer, when timing
REPEATS = 3


class Overhead(Experiment):
    """Timed here and now, on the hardware at hand."""

    name = "overhead"
    title = "Wall-clock time"
    source = "Appendix, table of wall-clock time, and the text above it"

    def runs(self, choice: Choice) -> list[RunSettings]:
        """Two methods on the first order of the first problem."""
        problem = choice.problems[0]
        seed = choice.seeds[0]
        return [choice.settings(problem=problem, method=method, seed=seed) for method in ("dree", "llr-bc")]

    def tables(self, choice: Choice, found: Found) -> list[PaperTable]:
        """Instance replay beside fine-tuning, and the methods' epochs."""
        choice = choice.with_first_seed()
        return [self._replay(choice, found), self._epochs(choice, found)]

    def _epochs(self, choice: Choice, found: Found) -> PaperTable:
        rows = []
        for run in self.runs(choice):
            path = found.run(run)
            timings = [] if path is None else RunFolder(path).log("timings.jsonl")
            ours = mean(row["seconds"] for row in timings) if timings else None
            cell = Cell(ours, published_seconds(run.problem, run.method, "drift", 1))  # it has none for TSP
            rows.append(PaperRow((TITLES[run.method],), (cell,), (path,) if path else ()))
        stream = f"{choice.problems[0].upper()}, task order 1."
        notes = (stream, "The paper's on an NVIDIA A100.", *notes_on(choice), *laws_of(self.runs(choice)))
        return PaperTable("epochs", "Seconds an epoch", "Appendix", ("method",), ("seconds",), tuple(rows), notes)

    def _replay(self, choice: Choice, found: Found) -> PaperTable:
        rows = []
        with found.bars(len(choice.problems)) as part:
            for problem in choice.problems:
                done = part(f"timing replay, {problem.upper()}", 1.0)
                batch, replay = batch_seconds(choice.settings(problem=problem), self._sizes(choice, problem))
                for stream, (scenario, order) in STREAMS.items():
                    settings = choice.settings(problem=problem, scenario=scenario, order=order)
                    rows.append(_row(stream, settings, batch, replay))
                done(1.0)
        how_often = f"An instance replay every {ABLATION_INTERVAL} batches of DREE, as often as in the paper."
        notes = (how_often, "The paper's on an NVIDIA A100.", *notes_on(choice))
        columns = ("PIR", "fine-tuning", "per cent")
        title = "Seconds an epoch of instance replay and of fine-tuning"
        heads = ("stream", "problem")
        return PaperTable(self.name, title, self.source, heads, columns, tuple(rows), notes, ranked=False)

    def _sizes(self, choice: Choice, problem: str) -> list[int]:
        tests = choice.settings(problem=problem).stream().tests().values()
        return sorted({task.size for task in tests})


def batch_seconds(settings: RunSettings, sizes: list[int]) -> tuple[dict[int, float], dict[int, float]]:
    """Seconds of a batch of fine-tuning, and of one instance replay, at some sizes."""
    batch, replay = {}, {}
    for size in sizes:
        batch[size] = _seconds(replace(settings, method="fine-tuning"), size)
        without, with_replay = (
            _seconds(replace(settings, method="dree", options={"buffer": FULL, **how}), size) for how in (NEVER, ALWAYS)
        )
        replay[size] = max(with_replay - without, 0.0)
    return batch, replay


def _seconds(settings: RunSettings, size: int) -> float:
    """The shortest time of a batch, with a full buffer."""
    device = settings.torch_device()
    method = make_method(settings.method, settings.options)
    learner = Learner(first_solver(settings).to(device), method, settings.learning)
    task, taken = principal("U", settings.problem, size), []
    for number in range(FULL + 1 + REPEATS):
        instances = task.sample(settings.batch_size, named_generator(0, "instances", number, device=device))
        _wait(device)
        began = time.perf_counter()
        learner.learn(instances)
        _wait(device)
        taken.append(time.perf_counter() - began)
    return min(taken[FULL + 1 :])


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _row(name: str, settings: RunSettings, batch: dict[int, float], replay: dict[int, float]) -> PaperRow:
    """A stream's mean epoch."""
    stream = settings.stream()
    sizes = [stream.task(epoch).size for epoch in range(1, stream.epochs + 1)]
    learned = FineTuning.batches_per_epoch * mean(interpolate(batch, size) for size in sizes)
    replayed = DREE.batches_per_epoch / ABLATION_INTERVAL * mean(interpolate(replay, size) for size in sizes)
    ours = (replayed, learned, 100 * replayed / learned)
    printed = published("wall-clock").where(solver="POMO", stream=name, problem=settings.problem)
    columns = ("PIR", "fine-tuning", "per cent")
    cells = [Cell(value, printed[0][column] if printed else None) for value, column in zip(ours, columns, strict=True)]
    return PaperRow((name, settings.problem.upper()), tuple(cells))
