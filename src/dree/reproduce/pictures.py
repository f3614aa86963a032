"""Figures: learning curves, and examples of the tasks."""

from __future__ import annotations

from dree.experiments import RunSettings
from dree.report import gallery
from dree.report.run_curves import run_curves
from dree.reproduce.base import LIFELONG, SPECIFICATIONS, Choice, Drawn, Experiment, Found, laws_of, methods_of


class Curves(Experiment):
    """The learning curves of order 1."""

    name = "curves"
    title = "Learning curves of task order 1"
    source = "Figure: learning curve of task order 1"

    def runs(self, choice: Choice) -> list[RunSettings]:
        """All lifelong methods."""
        return methods_of(choice, list(LIFELONG))

    def figures(self, choice: Choice, found: Found) -> list[Drawn]:
        """One figure with a column for each problem, of the first seed."""
        first = [run for run in self.runs(choice) if run.seed == choice.seeds[0]]
        paths = [path for run in first if (path := found.run(run)) is not None]
        caption = ". ".join([self.title, *laws_of(first)])
        return [Drawn(self.name, caption, run_curves(paths))] if paths else []


class Tasks(Experiment):
    """Examples of the six laws."""

    name = "tasks"
    title = "Examples of the tasks"
    source = "Appendix, figures of the six tasks"

    def figures(self, choice: Choice, found: Found) -> list[Drawn]:
        """A gallery for each problem."""
        by = f"by {SPECIFICATIONS[choice.spec]} (--spec {choice.spec})"
        return [
            Drawn(
                f"{self.name}-{problem}",
                f"{self.title}, {problem.upper()}, {by}",
                gallery(problem, choice.spec, seed=choice.seeds[0]),
            )
            for problem in choice.problems
        ]
