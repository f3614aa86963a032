"""Figures: learning curves, and examples of the tasks."""

from __future__ import annotations

from pathlib import Path

from dree.experiments import RunSettings
from dree.report import gallery, save
from dree.report.run_curves import run_curves
from dree.reproduce.base import TITLES, Choice, Experiment, Figure, Found, methods_of


class Curves(Experiment):
    """The learning curves of order 1."""

    name = "curves"
    title = "Learning curves of task order 1"
    source = "Figure: learning curve of task order 1"

    def runs(self, choice: Choice) -> list[RunSettings]:
        """All lifelong methods."""
        return methods_of(choice, [method for method in TITLES if method != "mt-ref"])

    def figures(self, choice: Choice, found: Found, folder: Path) -> list[Figure]:
        """One figure with a column for each problem, of the first seed."""
        first = [run for run in self.runs(choice) if run.seed == choice.seeds[0]]
        paths = [path for run in first if (path := found.run(run)) is not None]
        if not paths:
            return []
        figure = run_curves(paths)
        files = tuple(save(figure, folder / f"{self.name}.{kind}") for kind in ("png", "pdf"))
        return [Figure(self.title, self.source, files)]


class Tasks(Experiment):
    """Examples of the six laws."""

    name = "tasks"
    title = "Examples of the tasks"
    source = "Appendix, figures of the six tasks"

    def figures(self, choice: Choice, found: Found, folder: Path) -> list[Figure]:
        """A gallery for each problem."""
        drawn = []
        for problem in choice.problems:
            figure = gallery(problem, seed=choice.seeds[0])
            files = tuple(save(figure, folder / f"{self.name}-{problem}.{kind}") for kind in ("png", "pdf"))
            drawn.append(Figure(f"Examples of the tasks, {problem.upper()}", self.source, files))
        return drawn
