"""Solvers that come with the package, by name.

Such a folder is a run's with nothing in it but the manifest and one checkpoint of the weights, in half precision.
"""

from __future__ import annotations

from pathlib import Path

from dree.errors import DreeError, unknown, with_article

FOLDER = Path(__file__).parents[1] / "data" / "solvers"
SHIPPED = {"tsp": "tsp-drift", "cvrp": "cvrp-drift"}  # problem -> the solver for it


def shipped_folder(name: str) -> Path:
    """The folder of a solver that comes with the package."""
    if name not in SHIPPED.values():
        raise unknown("solver that comes with dree", name, SHIPPED.values())
    return FOLDER / name


def solver_folder(solver: str | Path) -> Path:
    """The folder of a solver: of one that comes with the package if a text is its name, else a run's."""
    if isinstance(solver, str) and solver in SHIPPED.values():
        return shipped_folder(solver)
    if not isinstance(solver, str | Path):
        raise DreeError(
            f"Give a solver, a run's folder, or the name of a solver that comes with dree "
            f"({' or '.join(SHIPPED.values())}), not {with_article(type(solver).__name__)}."
        )
    if not Path(solver).exists() and str(solver) in SHIPPED.values():
        raise DreeError(
            f"There is no run {solver}. The solver of that name that comes with dree is named by a text: '{solver}', "
            "not a Path."
        )
    if not Path(solver).exists():
        raise DreeError(
            f"There is no run {solver}, and no solver of that name comes with dree. Those that do are "
            f"{' and '.join(SHIPPED.values())}."
        )
    return Path(solver)
