"""The page about one run: its metrics, its learning curves, its tasks and routes of the solver it learned."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.table import Table as RichTable

from dree.errors import DreeError
from dree.experiments import RunFolder, RunSettings
from dree.experiments.naming import method_title, run_title, stream_title
from dree.experiments.summary import measured
from dree.report.curves import learning_curves
from dree.report.gallery import examples
from dree.report.method_looks import method_looks
from dree.report.numbers import memory_sections
from dree.report.page import Heading, Picture, Section, Text, gaps_section, metrics_section, write_page
from dree.report.routes import routes_grid
from dree.report.solutions import solved_runs, titled
from dree.report.style import task_title
from dree.report.tables import Value, metrics_table
from dree.tasks import SyntheticStream


def metrics_summary(path: Path) -> RichTable:
    """The metrics of a run, for the terminal."""
    folder = RunFolder.open(path)
    return metrics_table(_metrics(folder), title=f"{path.name}: gaps in per cent")


def write_run_page(path: str | Path) -> Path:
    """Write `report.html` into a run's folder, from what the run has logged so far; without weights without routes."""
    path = Path(path)
    folder = RunFolder.open(path)
    settings, manifest, found = folder.settings(), folder.manifest(), _metrics(folder)
    stream = folder.stream()
    epochs, matrix, tasks = folder.gaps()
    titles = {name: task_title(name, task) for name, task in settings.test_tasks(stream).items()}
    curves = {name: matrix[:, column].tolist() for column, name in enumerate(tasks)}
    final = {f"epoch {epoch}": dict(zip(tasks, matrix[row], strict=True)) for epoch, row in _rows(epochs).items()}
    sections: list[Section] = [
        Heading("Result"),
        metrics_section(found),
        gaps_section({name: {task: float(gap) for task, gap in row.items()} for name, row in final.items()}, titles),
        Heading("Learning curves"),
        Picture.of(
            learning_curves(
                epochs,
                curves,
                {name: stream.active(name) for name in tasks},
                titles,
                from_best=True,
                looks=method_looks({"": method_title(settings)}),
            ),
            "Gap on each test task over the epochs. Grey: epochs in which the task takes part in training.",
            "One panel per test task with its gap over the epochs",
        ),
        Heading("Tasks"),
        *tasks_sections(settings),
        Heading("Routes"),
        _routes(path),
        *memory_sections({method_title(settings): folder.log("metrics.jsonl")}),
    ]
    facts = {
        "problem": settings.problem,
        "scenario": stream_title(settings, stream),
        "method": run_title(settings),
        "seed": str(settings.seed),
        "hardware": f"{manifest['hardware']['device']}, {manifest['hardware']['threads']} threads",
        "learning time": learning_time(folder),
        "versions": f"dree {manifest['versions']['dree']}, torch {manifest['versions']['torch']}",
        "started": manifest["created"],
    }
    subtitle = f"A {settings.problem.upper()} solver learned through a stream of tasks"
    return write_page(folder.report, path.name, subtitle, sections, facts, shlex.join(manifest["command"]))


def _routes(path: Path) -> Section:
    """Routes of the learned solver; or why there are none."""
    solved, without = solved_runs({"": path})
    if without:
        return Text(f"Not shown: {without['']}")
    return Picture.of(
        routes_grid(list(titled(solved[""]).values())),
        "Routes of the learned solver on test instances, the best over all starts and eight symmetric views",
        "Routes on one instance a task",
    )


def learning_time(folder: RunFolder) -> str:
    """How long a run has learned, as far as that is kept."""
    timings = folder.log("timings.jsonl")
    return f"{sum(row['seconds'] for row in timings):.0f} s" if timings else "not kept"


def tasks_sections(settings: RunSettings) -> list[Section]:
    """An example of each task that a run is tested on; or why there are none, where its data are elsewhere."""
    try:
        stream = settings.stream()
        drawn = examples(stream.tests(), settings.seed)
    except DreeError as error:
        return [Text(f"Not shown: {error}")]
    if isinstance(stream, SyntheticStream):
        words = "One example of each principal task; the stream goes through these in order."
        caption = "Principal tasks"
    else:
        words = "One example of each day that is tested: some of its packages, drawn at random."
        caption = "Days of the process tests"
    return [Text(words), Picture.of(drawn, caption, "One example of each task")]


def _rows(epochs: list[int]) -> dict[int, int]:
    """The first and the last tested epoch, with their row in the gap matrix."""
    return {epochs[0]: 0, epochs[-1]: len(epochs) - 1}


def _metrics(folder: RunFolder) -> dict[str, dict[str, Value]]:
    return {run_title(folder.settings()): dict(measured(folder).as_dict())}
