"""Table 1 and its details by order: five methods, five orders of tasks that drift, two problems."""

from __future__ import annotations

from dataclasses import replace

from dree.experiments.tables import PaperTable
from dree.reproduce.base import LIFELONG, REFERENCE, TITLES, Choice, Found
from dree.reproduce.lines import Line, MetricsExperiment, titled
from dree.tasks import ORDERS


class Table1(MetricsExperiment):
    """Mean and standard deviation over the orders."""

    name = "table1"
    title = "Metrics over task orders"
    source = "Table 1"
    table = "main"

    def lines(self, choice: Choice) -> list[Line]:
        """MT-Ref, which knows no order, is trained once."""
        lines = []
        for problem, method, title in titled(TITLES, choice):
            orders = (1,) if method == REFERENCE else choice.orders
            runs = [
                choice.settings(problem=problem, method=method, order=order, seed=seed)
                for order in orders
                for seed in choice.seeds
            ]
            row = self.row(problem=problem, method=title)
            lines.append(Line((problem.upper(), title), tuple(runs), row, reference=method == REFERENCE))
        return lines

    def tables(self, choice: Choice, found: Found) -> list[PaperTable]:
        """With a note where ours is not over the paper's five orders."""
        (table,) = super().tables(choice, found)
        if set(choice.orders) == set(ORDERS):
            return [table]
        chosen = ", ".join(map(str, choice.orders))
        return [replace(table, notes=(*table.notes, f"Ours over order {chosen}, the paper's over five."))]


class EveryOrder(MetricsExperiment):
    """The same runs, order by order."""

    name = "orders"
    title = "Metrics on each task order"
    source = "Appendix, table of each task order"
    table = "orders"
    heads = ("problem", "order", "method")

    def lines(self, choice: Choice) -> list[Line]:
        """Every order of every lifelong method."""
        return [
            Line(
                (problem.upper(), str(order), title),
                tuple(choice.settings(problem=problem, method=method, order=order, seed=seed) for seed in choice.seeds),
                self.row(problem=problem, method=title, order=order),
            )
            for order in choice.orders
            for problem, method, title in titled(LIFELONG, choice)
        ]
