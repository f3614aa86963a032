"""Table 3: other base solvers."""

from __future__ import annotations

from dree.experiments import RunSettings
from dree.reproduce.base import TITLES, Choice
from dree.reproduce.lines import Line, MetricsExperiment

THREE = {method: TITLES[method] for method in ("fine-tuning", "llr-bc", "dree")}
BASES = {"invit": "INViT", "omni": "Omni"}


class Table3(MetricsExperiment):
    """Three methods with INViT and with Omni."""

    name = "table3"
    title = "Other base solvers"
    source = "Table 3"
    table = "solvers"
    heads = ("solver", "problem", "method")

    def lacks(self, choice: Choice) -> str | None:
        """At the paper's scale Omni starts from a meta-learned model."""
        if choice.omni is None and choice.scale.name == "paper":
            return (
                "Omni's meta-learned starting models. Make them with dree pretrain omni or dree convert, one folder "
                "for each problem, named by it, and say where they are with --omni FOLDER"
            )
        for problem in choice.problems:
            if choice.omni is not None and not (choice.omni / problem).is_dir():
                return f"a starting model of Omni in {choice.omni / problem}"
        return None

    def lines(self, choice: Choice) -> list[Line]:
        """Every base solver, problem and method."""
        return [
            Line(
                (BASES[base], problem.upper(), title),
                tuple(self._run(choice, base, problem, method, seed) for seed in choice.seeds),
                self.row(solver=BASES[base], problem=problem, method=title),
            )
            for base in BASES
            for problem in choice.problems
            for method, title in THREE.items()
        ]

    def _run(self, choice: Choice, base: str, problem: str, method: str, seed: int) -> RunSettings:
        start = {} if base != "omni" or choice.omni is None else {"start": str(choice.omni / problem)}
        return choice.settings(base=base, problem=problem, method=method, seed=seed, **start)
