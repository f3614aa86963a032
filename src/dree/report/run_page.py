"""The page about one run: its metrics, its learning curves, its tasks and routes of the solver it learned."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table as RichTable

from dree.errors import DreeError
from dree.evaluation.metrics import metrics
from dree.experiments import RunFolder, RunSettings
from dree.experiments.naming import method_title
from dree.report.curves import learning_curves
from dree.report.gallery import examples
from dree.report.numbers import memory_sections
from dree.report.page import Heading, Picture, Section, Text, gaps_section, metrics_section, write_page
from dree.report.routes import routes_grid
from dree.report.solutions import learned_solutions
from dree.report.style import law_title
from dree.report.tables import Value, metrics_table


def metrics_summary(path: Path) -> RichTable:
    """The four metrics of a run, for the terminal."""
    folder = RunFolder.open(path)
    return metrics_table(_metrics(folder), title=f"{path.name}: gaps in per cent")


def write_run_page(path: Path) -> Path:
    """Write `report.html` into a run's folder, from what the run has logged so far."""
    folder = RunFolder.open(path)
    settings, manifest = folder.settings(), folder.manifest()
    stream = settings.stream()
    epochs, matrix, tasks = folder.gaps()
    titles = task_titles(settings, tasks)
    curves = {name: matrix[:, column].tolist() for column, name in enumerate(tasks)}
    final = {f"epoch {epoch}": dict(zip(tasks, matrix[row], strict=True)) for epoch, row in _rows(epochs).items()}
    sections: list[Section] = [
        Heading("Result"),
        metrics_section(_metrics(folder)),
        gaps_section({name: {task: float(gap) for task, gap in row.items()} for name, row in final.items()}, titles),
        Heading("Learning curves"),
        Picture.of(
            learning_curves(epochs, curves, {name: stream.active(name) for name in tasks}, titles),
            "Gap on each test task over the epochs. Grey: epochs in which the task takes part in training.",
            "One panel per test task with its gap over the epochs",
        ),
        Heading("Tasks"),
        Text("One example of each principal task; the stream is made of these."),
        Picture.of(examples(stream.tests(), settings.seed), "Principal tasks", "One example of each principal task"),
        Heading("Routes"),
        Picture.of(
            routes_grid(list(learned_solutions(path).values())),
            "Routes of the learned solver on test instances, the best over all starts and eight symmetric views",
            "Routes on one instance a task",
        ),
        *memory_sections({settings.method: folder.log("metrics.jsonl")}),
    ]
    facts = {
        "problem": settings.problem,
        "scenario": f"{settings.scenario}, order {settings.order}, {stream.epochs} epochs",
        "method": method_title(settings),
        "seed": str(settings.seed),
        "hardware": f"{manifest['hardware']['device']}, {manifest['hardware']['threads']} threads",
        "learning time": f"{sum(row['seconds'] for row in folder.log('timings.jsonl')):.0f} s",
        "versions": f"dree {manifest['versions']['dree']}, torch {manifest['versions']['torch']}",
        "started": manifest["created"],
    }
    subtitle = f"A {settings.problem.upper()} solver learned through a stream of tasks"
    return write_page(folder.report, path.name, subtitle, sections, facts, shlex.join(manifest["command"]))


def task_titles(settings: RunSettings, tasks: Sequence[str]) -> dict[str, str]:
    """What a run's test tasks are called in figures and tables."""
    tests = settings.test_tasks()
    return {name: f"{law_title(name)}, n = {tests[name].size}" for name in tasks}


def _rows(epochs: list[int]) -> dict[int, int]:
    """The first and the last tested epoch, with their row in the gap matrix."""
    return {epochs[0]: 0, epochs[-1]: len(epochs) - 1}


def _metrics(folder: RunFolder) -> dict[str, dict[str, Value]]:
    _, matrix, tasks = folder.gaps()
    if not tasks:
        raise DreeError(f"{folder.path} has not been tested yet. Continue it with: dree run --resume {folder.path}")
    return {method_title(folder.settings()): dict(metrics(matrix).as_dict())}
