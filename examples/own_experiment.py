"""An experiment of your own: a method beside those of the paper. docs/reproduce.md goes through it.

dree reproduce examples.own_experiment.Rehearsal --scale smoke --problems cvrp
"""

from dree.reproduce import Choice
from dree.reproduce.lines import Line, MetricsExperiment

METHODS = {"fine-tuning": "Fine-tuning", "examples.own_method.Rehearse": "Rehearse", "dree": "DREE"}


class Rehearsal(MetricsExperiment):
    """Order 1, three methods."""

    name = "rehearsal"  # of its files
    title = "Rehearsal of recent batches"
    source = "not in the paper"
    table = "orders"  # where the published numbers are

    def lines(self, choice: Choice) -> list[Line]:
        """A row for each problem and method: the mean over the seeds."""
        return [
            Line(
                (problem.upper(), title),
                tuple(choice.settings(problem=problem, method=method, seed=seed) for seed in choice.seeds),
                self.row(problem=problem, method=title, order=1),
            )
            for problem in choice.problems
            for method, title in METHODS.items()
        ]
