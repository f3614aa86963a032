"""Table 4: two more scenarios."""

from __future__ import annotations

from dree.reproduce.base import Choice
from dree.reproduce.lines import Line, MetricsExperiment, titled
from dree.reproduce.table3 import THREE


class Table4(MetricsExperiment):
    """Tasks that stay for a while, and a drift with sudden changes."""

    name = "table4"
    title = "Two more scenarios"
    source = "Table 4"
    table = "scenarios"
    heads = ("scenario", "problem", "method")

    def lines(self, choice: Choice) -> list[Line]:
        """Every scenario, problem and method."""
        return [
            Line(
                (scenario, problem.upper(), title),
                tuple(
                    choice.settings(scenario=scenario, problem=problem, method=method, seed=seed)
                    for seed in choice.seeds
                ),
                self.row(scenario=scenario, problem=problem, method=title),
            )
            for scenario in ("periodic", "sudden")
            for problem, method, title in titled(THREE, choice)
        ]
