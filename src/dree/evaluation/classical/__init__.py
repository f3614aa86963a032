"""Classical solvers, whose tours are the yardstick for the neural ones. None is needed to learn or to evaluate.

A solver is one file here and one line in `CLASSICAL_SOLVERS`.
"""

from dree.errors import unknown
from dree.evaluation.classical.base import ClassicalSolver, Problem, SolverError
from dree.evaluation.classical.fast_tsp import FastTSP
from dree.evaluation.classical.gurobi import Gurobi
from dree.evaluation.classical.hgs import HGS
from dree.evaluation.classical.pyvrp import PyVRP

CLASSICAL_SOLVERS: dict[str, type[ClassicalSolver]] = {
    "hgs": HGS,
    "fast-tsp": FastTSP,
    "gurobi": Gurobi,
    "pyvrp": PyVRP,
}


def classical_solver(name: str) -> type[ClassicalSolver]:
    """The class of a classical solver by name."""
    if name not in CLASSICAL_SOLVERS:
        raise unknown("classical solver", name, CLASSICAL_SOLVERS)
    return CLASSICAL_SOLVERS[name]


__all__ = [
    "CLASSICAL_SOLVERS",
    "HGS",
    "ClassicalSolver",
    "FastTSP",
    "Gurobi",
    "Problem",
    "PyVRP",
    "SolverError",
    "classical_solver",
]
