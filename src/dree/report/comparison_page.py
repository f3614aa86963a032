"""The page about several runs on one stream: what each method has learned, and what it has forgotten."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table as RichTable

from dree.errors import DreeError
from dree.evaluation.metrics import Metrics
from dree.experiments import RunFolder
from dree.experiments.naming import method_title, other_stream, run_labels, stream_title
from dree.experiments.summary import measured
from dree.report.curves import learning_curves
from dree.report.method_looks import method_looks
from dree.report.numbers import memory_sections
from dree.report.page import Heading, Picture, Section, Text, gaps_section, metrics_section, write_page
from dree.report.routes import routes_grid
from dree.report.run_page import learning_time, tasks_sections
from dree.report.solutions import reference_solutions, solved_runs, solved_tests, titled
from dree.report.style import task_title
from dree.report.tables import metrics_table
from dree.solvers import Solver


def comparison_table(paths: Sequence[Path], title: str = "") -> RichTable:
    """The metrics of each run, for the terminal."""
    runs = _runs(paths)
    return metrics_table({label: dict(measured(run).as_dict()) for label, run in runs.items()}, title)


def write_comparison_page(
    paths: Sequence[Path], target: Path, title: str = "", others: Mapping[str, Solver] | None = None
) -> Path:
    """Write one page about runs that have learned from the same stream and were tested at the same epochs.

    Other solvers of the same problem may be named, whose routes are drawn beside those of the runs.
    """
    runs = _runs(paths)
    first = next(iter(runs.values()))
    settings, stream = first.settings(), first.stream()
    epochs, _, tasks = first.gaps()
    titles = {name: task_title(name, task) for name, task in settings.test_tasks(stream).items()}
    values = {label: measured(run) for label, run in runs.items()}
    curves = {label: dict(zip(tasks, run.gaps()[1].T.tolist(), strict=True)) for label, run in runs.items()}
    looks = method_looks({label: method_title(run.settings()) for label, run in runs.items()})
    active = {task: stream.active(task) for task in tasks}
    final = {label: {task: gaps[-1] for task, gaps in by_task.items()} for label, by_task in curves.items()}
    sections: list[Section] = [
        Heading("Result"),
        Text(_in_words(values)),
        metrics_section({label: dict(each.as_dict()) for label, each in values.items()}),
        Heading("Learning curves"),
        Picture.of(
            learning_curves(epochs, curves, active, titles, from_best=True, looks=looks),
            "Gap on each test task over the epochs, on the same axes. Grey: epochs in which the task takes part in "
            "training. A curve that rises after the grey shows forgetting.",
            "One panel per test task with the gap of each method over the epochs",
        ),
        gaps_section(final, titles, f"Gap on each test task at epoch {epochs[-1]}"),
        *memory_sections({label: run.log("metrics.jsonl") for label, run in runs.items()}, looks),
        Heading("Tasks"),
        *tasks_sections(settings),
        Heading("Routes"),
        *_routes(runs, others or {}),
    ]
    name = title or ", ".join(runs)
    subtitle = f"{settings.problem.upper()} solvers learned by different methods through one stream of tasks"
    return write_page(target, name, subtitle, sections, _facts(runs), _commands(runs))


def _runs(paths: Sequence[Path]) -> dict[str, RunFolder]:
    """The runs by what they are called, once they can be compared."""
    folders = [RunFolder.open(path) for path in paths]
    for path, count in Counter(path.resolve() for path in paths).items():
        if count > 1:
            raise DreeError(f"{path} is one run, given {count} times, so there is nothing to compare. Give each once.")
    settings = [folder.settings() for folder in folders]
    streams, gaps = [folder.stream() for folder in folders], [folder.gaps() for folder in folders]
    for folder, stream, (epochs, _, tasks) in zip(folders, streams, gaps, strict=True):
        path = folder.path
        if not epochs:
            raise folder.untested()
        if stream != streams[0]:
            differing = other_stream((settings[0], streams[0]), (folder.settings(), stream))
            raise DreeError(
                f"{paths[0]} and {path} have learned from different streams and cannot be compared: {differing}."
            )
        if (epochs, tasks) != (gaps[0][0], gaps[0][2]):
            raise DreeError(f"{paths[0]} and {path} were tested at different epochs or on different tasks.")
    return dict(zip(run_labels(paths, settings), folders, strict=True))


def _in_words(metrics: Mapping[str, Metrics]) -> str:
    """The result for those who do not read tables."""
    each = [
        f"{label} ends with an average gap of {values.AP:z.2f} %, {values.AFB:z.2f} points above its best on each task."
        for label, values in metrics.items()
    ]
    return " ".join([*each, "The points above the best are what a method has forgotten."])


def _routes(runs: Mapping[str, RunFolder], others: Mapping[str, Solver]) -> list[Section]:
    """A row for each task: the reference where it is stored, then every run and other solver, on the same instance.

    Runs without a solver are named instead, with the reason.
    """
    first = next(iter(runs.values()))
    solved, without = solved_runs({label: run.path for label, run in runs.items()})
    solved |= {label: solved_tests(first.path, solver) for label, solver in others.items()}
    words = [Text(" ".join(["Not shown:", *(f"{label}: {why}" for label, why in without.items())]))] if without else []
    if not solved:
        return [*words]
    columns = [reference_solutions(first.settings()), *(titled(each, label) for label, each in solved.items())]
    shown = [column for column in columns if len(column) == len(columns[-1])]
    elsewhere = f" {', '.join(others)} was learned elsewhere, and longer." if others else ""
    picture = Picture.of(
        routes_grid([column[law] for law in shown[-1] for column in shown], len(shown)),
        "The first test instance of each task, routed by the reference and by the learned solvers: the best over all "
        f"starts and eight symmetric views. Beside a solver's name: how much longer its routes are.{elsewhere}",
        "Routes of the reference and of every solver on one instance a task",
    )
    return [*words, picture]


def _facts(runs: Mapping[str, RunFolder]) -> dict[str, str]:
    settings = {label: run.settings() for label, run in runs.items()}
    manifest, first = next(iter(runs.values())).manifest(), next(iter(settings.values()))
    batches = {label: each.known_batches or "unknown" for label, each in settings.items()}
    return {
        "problem": first.problem,
        "scenario": stream_title(first, next(iter(runs.values())).stream()),
        "new batches an epoch": ", ".join(f"{label} {number}" for label, number in batches.items()),
        "seed": ", ".join(dict.fromkeys(str(each.seed) for each in settings.values())),
        "learning time": ", ".join(f"{label} {learning_time(run)}" for label, run in runs.items()),
        "hardware": f"{manifest['hardware']['device']}, {manifest['hardware']['threads']} threads",
        "versions": f"dree {manifest['versions']['dree']}, torch {manifest['versions']['torch']}",
        "started": manifest["created"],
    }


def _commands(runs: Mapping[str, RunFolder]) -> str:
    return "\n".join(dict.fromkeys(shlex.join(run.manifest()["command"]) for run in runs.values()))
