"""Routing problems: instances, their rules, their symmetries, and an independent referee."""

from dree.errors import unknown
from dree.problems.cvrp import CVRP
from dree.problems.frame import to_unit_square
from dree.problems.instances import Instances, Tours
from dree.problems.rules import Rules, State
from dree.problems.symmetry import SYMMETRIES, augment
from dree.problems.tsp import TSP

PROBLEMS: dict[str, Rules] = {"tsp": TSP(), "cvrp": CVRP()}


def rules(problem: str) -> Rules:
    """The rules of a problem by name."""
    if problem not in PROBLEMS:
        raise unknown("problem", problem, PROBLEMS)
    return PROBLEMS[problem]


__all__ = [
    "PROBLEMS",
    "SYMMETRIES",
    "Instances",
    "Rules",
    "State",
    "Tours",
    "augment",
    "rules",
    "to_unit_square",
]
